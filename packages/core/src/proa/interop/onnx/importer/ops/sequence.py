"""Sequences and optionals, which are lists and None while a graph is called."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.regex import FullMatch
from proa.interop.onnx.importer.table import onnx_op


@onnx_op("SequenceEmpty")
def empty(call: Call) -> Any:
    return []


@onnx_op("SequenceConstruct")
def construct(call: Call, *items: Any) -> Any:
    return list(items)


@onnx_op("SequenceAt", host=(1,))
def at(call: Call, items: list[Any], index: Any) -> Any:
    return items[call.number(index)]


@onnx_op("SequenceInsert", host=(2,))
def insert(call: Call, items: list[Any], item: Any, index: Any = None) -> Any:
    place = len(items) if index is None else call.number(index)
    return [*items[:place], item, *items[place:]]


@onnx_op("SequenceErase", host=(1,))
def erase(call: Call, items: list[Any], index: Any = None) -> Any:
    place = call.number(index, -1) % len(items)
    return [*items[:place], *items[place + 1 :]]


@onnx_op("SequenceLength")
def length(call: Call, items: list[Any]) -> Any:
    return proa.to_tensor(np.int64(len(items)))


@onnx_op("SequenceMap", folds=False)
def apply(call: Call, items: list[Any], *others: Any) -> Any:
    body = call.get("body")
    found: list[list[Any]] = [[] for _ in body.outputs]
    for i, item in enumerate(items):
        more = [v[i] if isinstance(v, list) else v for v in others]
        for out, value in zip(found, call.run(body, [item, *more]), strict=True):
            out.append(value)
    return tuple(found)


@onnx_op("ConcatFromSequence")
def concat(call: Call, items: list[Any]) -> Any:
    axis = call.get("axis")
    if call.get("new_axis", 0):
        return proa.stack(items, axis)
    return proa.concat(items, axis)


@onnx_op("SplitToSequence", host=(1,))
def split(call: Call, x: Any, parts: Any = None) -> Any:
    axis = call.get("axis", 0)
    (n,) = call.known([x.shape[axis]])
    squeezed = parts is None and not call.get("keepdims", 1)
    if parts is None:
        sizes = [1] * n
    else:
        given = call.host(parts)
        size = int(given.reshape(-1)[0]) if given.ndim == 0 else 0
        whole = [size] * (n // size) + [n % size] * (n % size > 0) if size else []
        sizes = whole or given.reshape(-1).tolist()
    found, start = [], 0
    for count in sizes:
        part = proa.slice(x, [axis], [start], [start + count])
        found.append(proa.squeeze(part, [axis]) if squeezed else part)
        start += count
    return found


@onnx_op("Optional", folds=False)
def optional(call: Call, value: Any = None) -> Any:
    return value


@onnx_op("OptionalHasElement", folds=False)
def has_element(call: Call, value: Any = None) -> Any:
    return proa.to_tensor(value is not None)


@onnx_op("OptionalGetElement", folds=False)
def get_element(call: Call, value: Any) -> Any:
    return value


# -- text, which stays in NumPy


@onnx_op("StringConcat")
def string_concat(call: Call, x: Any, y: Any) -> Any:
    return np.asarray(np.char.add(x, y))


@onnx_op("StringSplit")
def string_split(call: Call, x: Any) -> Any:
    parts = [
        str(text).split(call.get("delimiter") or None, call.get("maxsplit", -1))
        for text in x.flat
    ]
    width = max(map(len, parts), default=0)
    rows = np.array([p + [""] * (width - len(p)) for p in parts], np.str_)
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    return rows.reshape([*x.shape, width]), proa.to_tensor(counts)


@onnx_op("StringNormalizer")
def string_normalizer(call: Call, x: Any) -> Any:
    stop = call.get("stopwords", [])
    exact = bool(call.get("is_case_sensitive", 0))
    words = stop if exact else [w.lower() for w in stop]
    changes: dict[str, Any] = {"LOWER": np.char.lower, "UPPER": np.char.upper}
    change = changes.get(call.get("case_change_action", "NONE"), lambda v: v)
    rows = [
        change(
            np.array(
                [w for w in row if (w if exact else w.lower()) not in words], np.str_
            )
        )
        for row in x.reshape(-1, x.shape[-1])
    ]
    if not rows[0].size:
        rows = [np.array([""], np.str_)]
    return np.stack(rows) if x.ndim == 2 else rows[0]


@onnx_op("RegexFullMatch", since=20)
def regex_full_match(call: Call, x: Any) -> Any:
    matches = FullMatch(call.get("pattern", ""))
    found = [matches(str(text)) for text in x.flat]
    return proa.to_tensor(np.array(found, np.bool_).reshape(x.shape))


@onnx_op("TfIdfVectorizer")
def tf_idf(call: Call, x: Any) -> Any:
    array = call.host(x)
    rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
    found = np.stack([_counts(call, row.tolist()) for row in rows])
    mode, weights = call.get("mode"), call.get("weights")
    scale = np.ones(found.shape[1]) if weights is None else np.array(weights)
    if mode == "IDF":
        found = np.minimum(found, 1.0) * scale
    elif mode == "TFIDF":
        found = found * scale
    shaped = found if array.ndim == 2 else found[0]
    return proa.to_tensor(shaped.astype(np.float32))


def _counts(call: Call, row: list[Any]) -> Any:
    pool = call.get("pool_strings") or call.get("pool_int64s")
    starts, places = call.get("ngram_counts"), call.get("ngram_indexes")
    if max(places) >= 1 << 28:
        raise ValueError(f"TfIdfVectorizer with the index {max(places)}")
    found = np.zeros(max(places) + 1)
    known: dict[tuple[Any, ...], int] = {}
    number = 0
    for i, start in enumerate(starts):
        stop = starts[i + 1] if i + 1 < len(starts) else len(pool)
        for at_item in range(start, stop, i + 1):
            known[tuple(pool[at_item : at_item + i + 1])] = places[number]
            number += 1
    longest = min(call.get("max_gram_length"), len(starts))  # others are not known
    widest = min(call.get("max_skip_count"), len(row))
    for n in range(call.get("min_gram_length"), longest + 1):
        for skip in range(1 if n == 1 else widest + 1):
            step = skip + 1
            for first in range(len(row) - (n - 1) * step):
                gram = tuple(row[first : first + (n - 1) * step + 1 : step])
                if gram in known:
                    found[known[gram]] += 1
    return found
