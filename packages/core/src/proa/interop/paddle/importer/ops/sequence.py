"""Sequences of rows: reductions, windows, padding, repetition, new lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import proa
from proa._core import ops
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op
from proa.nn import sequence_layouts as layouts
from proa.nn import sequence_reductions as reductions
from proa.nn.sequences import RowSequences, counted, row_numbers_of
from proa.tensor.creation import zeros


def sequences_of(call: Call, x: Any, levels: Sequence[Any]) -> RowSequences:
    """The sequences of an input that must have lengths."""
    if not levels:
        raise call.refuse("an input without levels of lengths")
    return RowSequences([level.astype("int64") for level in levels], None, x)


@paddle_op("sequence_pool", inputs="X X@LOD*", outputs="Out Out@OUTER*")
def sequence_pool(call: Call, x: Any, levels: list[Any]) -> Any:
    own = sequences_of(call, x, levels)
    kind = str(call.get("pooltype", "AVERAGE")).lower()
    out = reductions.pool(x, own, kind, float(call.get("pad_value", 0.0)))
    return out, own.levels[:-1]


@paddle_op("sequence_softmax", inputs="X X@LOD*")
def sequence_softmax(call: Call, x: Any, levels: list[Any]) -> Any:
    return reductions.softmax(x, sequences_of(call, x, levels))


@paddle_op("sequence_conv", inputs="X X@LOD* Filter", weights="Filter")
def sequence_conv(call: Call, x: Any, levels: list[Any], weight: Any) -> Any:
    if call.get("contextStride", 1) != 1:
        raise call.refuse(f"contextStride={call.get('contextStride')}")
    own = sequences_of(call, x, levels)
    size, first = call.get("contextLength"), call.get("contextStart", 0)
    return proa.matmul(reductions.windows(x, own, size, first), weight)


@paddle_op("sequence_reverse", inputs="X X@LOD*", outputs="Y")
def sequence_reverse(call: Call, x: Any, levels: list[Any]) -> Any:
    return layouts.reversed_rows(x, sequences_of(call, x, levels))


@paddle_op("sequence_enumerate", inputs="X X@LOD*")
def sequence_enumerate(call: Call, x: Any, levels: list[Any]) -> Any:
    own = sequences_of(call, x, levels)
    return reductions.enumerated(x, own, call.get("win_size"), call.get("pad_value", 0))


@paddle_op("sequence_expand", inputs="X X@LOD* Y Y@LOD*", outputs="Out Out@LOD*")
def sequence_expand(
    call: Call, x: Any, own: list[Any], y: Any, given: list[Any]
) -> Any:
    parts = sequences_of(call, x, own) if own else None
    wanted = sequences_of(call, y, given)
    out, result = layouts.expanded(x, parts, wanted, call.get("ref_level", -1))
    return out, result.levels


@paddle_op("sequence_expand_as", inputs="X Y Y@LOD*", outputs="Out Out@LOD*")
def sequence_expand_as(call: Call, x: Any, y: Any, levels: list[Any]) -> Any:
    out, result = layouts.expanded_as(x, sequences_of(call, y, levels))
    return out, result.levels


@paddle_op("sequence_pad", inputs="X X@LOD* PadValue", outputs="Out Length")
def sequence_pad(call: Call, x: Any, levels: list[Any], pad: Any) -> Any:
    own = sequences_of(call, x, levels)
    return layouts.padded(x, own, pad, call.get("padded_length", -1))


@paddle_op("sequence_unpad", inputs="X Length", outputs="Out Out@LOD*")
def sequence_unpad(call: Call, x: Any, length: Any) -> Any:
    out, result = layouts.unpadded(x, length)
    return out, result.levels


@paddle_op("sequence_reshape", inputs="X X@LOD*", outputs="Out Out@LOD*")
def sequence_reshape(call: Call, x: Any, levels: list[Any]) -> Any:
    own = sequences_of(call, x, levels)
    out, result = layouts.reshaped(x, own, call.get("new_dim"))
    return out, result.levels


@paddle_op("sequence_concat", inputs="X* X@LOD*", outputs="Out Out@LOD*")
def sequence_concat(call: Call, xs: list[Any], levels: list[Any]) -> Any:
    count, rest = divmod(len(levels), len(xs))
    if rest or not count:
        raise call.refuse("inputs of different levels of lengths")
    parts = [levels[i * count : (i + 1) * count] for i in range(len(xs))]
    own = [sequences_of(call, x, part) for x, part in zip(xs, parts, strict=True)]
    out, result = layouts.concatenated(xs, own)
    return out, result.levels


@paddle_op("sequence_slice", inputs="X X@LOD* Offset Length", outputs="Out Out@LOD*")
def sequence_slice(call: Call, x: Any, levels: list[Any], offset: Any, n: Any) -> Any:
    out, result = layouts.sliced(x, sequences_of(call, x, levels), offset, n)
    return out, result.levels


@paddle_op("sequence_scatter", inputs="X Ids Ids@LOD* Updates")
def sequence_scatter(call: Call, x: Any, ids: Any, levels: list[Any], new: Any) -> Any:
    return layouts.scattered(x, ids, sequences_of(call, ids, levels), new)


@paddle_op("sequence_erase", inputs="X X@LOD*", outputs="Out Out@LOD*")
def sequence_erase(call: Call, x: Any, levels: list[Any]) -> Any:
    """Ids without those that are among tokens."""
    own = sequences_of(call, x, levels)
    flat = proa.reshape(x, [-1])
    mask = ops.full_like(flat, value=1, dtype="int64")
    for token in call.get("tokens") or ():
        mask = mask * (flat != token).astype("int64")
    lengths = reductions.summed(mask, own)
    total = ops.sum(lengths)
    numbers = counted(total)
    # An id that is left takes the place after those before it, another one the last.
    place = ops.where(mask > 0, ops.cumsum(mask, axis=0) - 1, total)
    blank = zeros([numbers.shape[0] + 1], "int64")
    rows = row_numbers_of(flat) * mask
    index = ops.scatter_nd_like(rows, ops.unsqueeze(place, axis=[1]), blank)
    left = ops.gather(x, ops.gather(index, numbers, axis=0), axis=0)
    return left, [*own.levels[:-1], lengths]


@paddle_op("lod_reset", inputs="X X@LOD* Y Y@LOD*", outputs="Out Out@LOD*")
def lod_reset(
    call: Call, x: Any, own: list[Any], y: Any = None, given: Sequence[Any] = ()
) -> Any:
    """The rows of X with other lengths: Y's, or offsets in Y or in ``target_lod``."""
    if given:
        return x, list(given)
    if y is None:
        offsets = np.asarray(call.get("target_lod") or [0], np.int64)
        level = proa.to_tensor(np.diff(offsets))
    else:
        ends = proa.reshape(y, [-1]).astype("int64")
        level = ends[1:] - ends[:-1]
    return x, [*own, level] if call.flag("append") else [level]
