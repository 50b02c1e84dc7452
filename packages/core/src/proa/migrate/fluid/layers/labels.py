"""Labels of sequences: conditional random fields, chunks, edit distances, CTC paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import proa
from proa._core import Tensor
from proa.migrate.fluid import chunks
from proa.migrate.fluid.layers.recurrence import DynamicRNN
from proa.nn import functional as F
from proa.static.building import layer_name
from proa.static.nn.sequence_arguments import (
    has_sequences,
    sequences_of,
    with_sequences,
)
from proa.static.nn.sequence_layout import sequence_pad, sequence_unpad
from proa.static.state import parameter_of

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "chunk_eval", "crf_decoding", "ctc_greedy_decoder", "edit_distance",
    "linear_chain_crf",
]  # fmt: skip


def _host(
    function: Callable[..., Any],
    inputs: Sequence[Tensor],
    *kinds: tuple[str, list[int]],
) -> list[Tensor]:
    """What a function of arrays gives: Variables of these dtypes and shapes, in which
    -1 is the size that the first input has there.
    """
    block = proa.static.default_main_program().current_block()
    outs = [block.create_var(dtype=d, shape=shape) for d, shape in kinds]
    result = proa.static.py_func(function, list(inputs), outs)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _rows(x: Tensor, length: Tensor | None) -> Tensor:
    """Rows of sequences, of padded ones with lengths too."""
    return x if length is None else sequence_unpad(x, proa.reshape(length, [-1]))


def linear_chain_crf(
    input: Tensor,
    label: Tensor,
    param_attr: ParamAttrLike | None = None,
    length: Tensor | None = None,
) -> Tensor:
    """-log of the probability of each sequence's tags, (sequences, 1).

    Args:
        input: Scores of tags: rows (n, d) of sequences, or (sequences, steps, d).
        label: Tags: rows (n, 1), or (sequences, steps, 1).
        param_attr: How the transitions (d + 2, d) are made: scores of the first tag, of
            the last one, and of going from one tag to another.
        length: Lengths of padded sequences.
    """
    layer = layer_name("linear_chain_crf", "linear_chain_crf")
    tags = int(input.shape[-1])
    transitions = parameter_of(layer, [tags + 2, tags], input.dtype, param_attr)
    first, last, moves = transitions[0:1], transitions[1:2], transitions[2:]
    scores = _rows(input, length)
    ids = _rows(label, length)
    ids = proa.reshape(ids, [-1, 1])
    own = sequences_of("linear_chain_crf", scores)
    ids = with_sequences(proa.assign(ids), own)
    rnn = DynamicRNN()

    @rnn.block()
    def step() -> None:
        score, id_ = rnn.step_input(scores), rnn.step_input(ids)
        one = F.one_hot(proa.squeeze(id_, 1), tags)
        begun = rnn.memory(shape=[1])
        all_paths = rnn.memory(shape=[tags])
        path = rnn.memory(shape=[1])
        before = rnn.memory(shape=[tags])
        # log(sum over tags i of exp(all_paths[i] + moves[i, j]))
        wide = proa.unsqueeze(all_paths, 2) + proa.unsqueeze(moves, 0)
        arrived = proa.where(begun > 0, proa.logsumexp(wide, 1), first)
        move = proa.where(begun > 0, proa.matmul(before, moves), first)
        paths = arrived + score
        chosen = path + proa.sum(one * (move + score), 1, keepdim=True)
        rnn.update_memory(begun, proa.ones_like(begun))
        rnn.update_memory(all_paths, paths)
        rnn.update_memory(path, chosen)
        rnn.update_memory(before, one)
        total = proa.logsumexp(paths + last, 1, keepdim=True)
        rnn.output(total - chosen - proa.sum(one * last, 1, keepdim=True))

    return proa.static.nn.sequence_last_step(rnn())


def crf_decoding(
    input: Tensor,
    param_attr: ParamAttrLike,
    label: Tensor | None = None,
    length: Tensor | None = None,
) -> Tensor:
    """The most probable tags of rows of sequences, (n, 1); with labels, 1 where they
    agree. Padded sequences are those of `static.nn.crf_decoding`.
    """
    if length is not None or not has_sequences(input):
        return proa.static.nn.crf_decoding(input, param_attr, label, length)
    layer, tags = layer_name("crf_decoding", "crf_decoding"), int(input.shape[1])
    transitions = parameter_of(layer, [tags + 2, tags], input.dtype, param_attr)
    own = sequences_of("crf_decoding", input)
    (path,) = _host(_best_paths, [input, transitions, own.lengths], ("int64", [-1, 1]))
    path = with_sequences(proa.reshape(path, [-1, 1]), own)
    if label is None:
        return path
    return proa.cast(proa.equal(path, proa.cast(label, "int64")), "int64")


def _best_paths(scores: Any, transitions: Any, lengths: Any) -> NDArray[np.int64]:
    x, moves = np.asarray(scores), np.asarray(transitions)
    first, last, moves = moves[0], moves[1], moves[2:]
    found: list[int] = []
    for rows in np.split(x, np.cumsum(np.asarray(lengths))[:-1]):
        if not len(rows):
            continue
        best, arrivals = first + rows[0], []
        for row in rows[1:]:
            paths = best[:, None] + moves
            arrivals.append(paths.argmax(0))
            best = paths.max(0) + row
        path = [int((best + last).argmax())]
        for arrival in reversed(arrivals):
            path.append(int(arrival[path[-1]]))
        found += reversed(path)
    return np.asarray(found, np.int64).reshape(-1, 1)


def _padded(x: Tensor, length: Tensor | None, where: str) -> tuple[Tensor, Tensor]:
    """(sequences, steps) and lengths of rows of sequences or padded ones."""
    if length is None:
        rows = proa.reshape(x, [-1])
        rows = with_sequences(rows, sequences_of(where, x))
        return sequence_pad(rows, proa.zeros([1], x.dtype))
    return x, proa.reshape(length, [-1])


def edit_distance(
    input: Tensor,
    label: Tensor,
    normalized: bool = True,
    ignored_tokens: Sequence[int] | None = None,
    input_length: Tensor | None = None,
    label_length: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """How many insertions, deletions and substitutions make each sequence the other
    one, (sequences, 1); and the number of sequences, (1,).

    Args:
        input: Rows (n, 1) of sequences, or (sequences, steps) with input_length.
        label: Likewise.
        normalized: Whether to divide by the length of the label.
        ignored_tokens: Numbers that are left out first.
        input_length: Lengths of padded sequences.
        label_length: Likewise.
    """
    given = [
        *_padded(input, input_length, "edit_distance"),
        *_padded(label, label_length, "edit_distance"),
    ]
    skipped = list(ignored_tokens or ())

    def distances(x: Any, x_lengths: Any, y: Any, y_lengths: Any) -> Any:
        sides = [
            [
                [t for t in row[:n] if t not in skipped]
                for row, n in zip(*p, strict=True)
            ]
            for p in (
                (np.asarray(x), np.asarray(x_lengths)),
                (np.asarray(y), np.asarray(y_lengths)),
            )
        ]
        found = [chunks.edit_distance(a, b) for a, b in zip(*sides, strict=True)]
        counts = [len(b) if normalized else 1 for b in sides[1]]
        results = [d / max(n, 1) for d, n in zip(found, counts, strict=True)]
        return (
            np.asarray(results, np.float32).reshape(-1, 1),
            np.asarray([len(results)], np.int64),
        )

    distance, count = _host(distances, given, ("float32", [-1, 1]), ("int64", [1]))
    return distance, count


def ctc_greedy_decoder(
    input: Tensor,
    blank: int,
    input_length: Tensor | None = None,
    padding_value: int = 0,
    name: str | None = None,
) -> Any:
    """The most probable label of every step, without repetitions and blanks.

    Args:
        input: Probabilities: rows (n, labels + 1) of sequences, or (sequences, steps,
            labels + 1) with input_length.
        blank: The number of the blank.
        input_length: Lengths of padded sequences.
        padding_value: What follows a padded sequence's end.
        name: Has no meaning here.

    Returns:
        Rows (n, 1) of sequences; of padded sequences, padded ones and lengths (.., 1).
    """
    best = proa.argmax(input, -1)
    if input_length is None:
        own = sequences_of("ctc_greedy_decoder", input)
        padded, lengths = sequence_pad(
            with_sequences(best, own), proa.full([1], blank, "int64")
        )
    else:
        padded, lengths = best, proa.reshape(input_length, [-1])

    def merged(ids: Any, counts: Any) -> Any:
        x, n = np.asarray(ids), np.asarray(counts)
        repeated = np.zeros(x.shape, bool)
        repeated[:, 1:] = x[:, 1:] == x[:, :-1]
        inside = np.arange(x.shape[1]) < n[:, None]
        is_label = inside & ~repeated & (x != blank)
        order = np.argsort(~is_label, axis=1, kind="stable")
        found = is_label.sum(1)
        values = np.take_along_axis(x, order, 1)
        values[np.arange(x.shape[1]) >= found[:, None]] = padding_value
        return values.astype(np.int64), found.astype(np.int64)

    values, found = _host(
        merged, [padded, lengths], ("int64", [-1, -1]), ("int64", [-1])
    )
    if input_length is not None:
        return values, proa.reshape(found, [-1, 1])
    return proa.reshape(sequence_unpad(values, found), [-1, 1])


def chunk_eval(
    input: Tensor,
    label: Tensor,
    chunk_scheme: str,
    num_chunk_types: int,
    excluded_chunk_types: Sequence[int] | None = None,
    seq_length: Tensor | None = None,
) -> list[Tensor]:
    """Precision, recall and F1 of chunks, and how many were inferred, are in the label,
    and are right; each (1,).

    Args:
        input: Tags: rows (n, 1) of sequences, or (sequences, steps) with seq_length.
        label: Likewise.
        chunk_scheme: IOB, IOE, IOBES or plain.
        num_chunk_types: How many types of chunks there are.
        excluded_chunk_types: Types that are not counted.
        seq_length: Lengths of padded sequences.
    """
    given = [*_padded(input, seq_length, "chunk_eval")]
    given.insert(1, _padded(label, seq_length, "chunk_eval")[0])
    skipped = set(excluded_chunk_types or ())

    def counted(x: Any, y: Any, lengths: Any) -> Any:
        totals = [0, 0, 0]
        rows = zip(np.asarray(x), np.asarray(y), np.asarray(lengths), strict=True)
        for inferred, wanted, n in rows:
            a, b = (
                chunks.chunks(t.reshape(-1)[:n], chunk_scheme, num_chunk_types, skipped)
                for t in (inferred, wanted)
            )
            for k, count in enumerate((len(a), len(b), len(a & b))):
                totals[k] += count
        rates = chunks.rates(*totals)
        return (
            *(np.asarray([r], np.float32) for r in rates),
            *(np.asarray([t], np.int64) for t in totals),
        )

    return _host(counted, given, *[("float32", [1])] * 3, *[("int64", [1])] * 3)
