"""Decoding of linear-chain conditional random fields in static graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.static.building import known, layer_name
from proa.static.state import parameter_of
from proa.tensor.arguments import check_rank
from proa.tensor.creation import arange
from proa.text.viterbi import viterbi_decode

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = ["crf_decoding"]


def crf_decoding(
    input: Tensor,
    param_attr: ParamAttrLike,
    label: Tensor | None = None,
    length: Tensor | None = None,
) -> Tensor:
    """The most probable tags of padded sequences: `text.viterbi_decode`.

    Args:
        input: Scores of tags (N, T, D) with T known.
        param_attr: The transitions (D + 2, D), usually by the name under which they
            were trained: the first row holds the scores of beginning with a tag, the
            second those of ending with it, the others those of going from one tag to
            another.
        label: Tags (N, T) or (N, T, 1) to compare with.
        length: Length of each sequence, (N,) or (N, 1), integers from 1 to T.

    Returns:
        int64 (N, T): the tags; with label 1 where they agree and 0 elsewhere. Steps
        beyond a sequence's length hold 0.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If length is not given, or T or D are symbolic.
    """
    layer = layer_name("crf_decoding", "crf_decoding")
    check_rank("static.nn.crf_decoding", "input", input, 3, 3)
    if length is None:
        raise InvalidArgumentError(
            "[static.nn.crf_decoding] expected the length of each sequence, got None"
        )
    time, tags = (known("crf_decoding", "scores", n) for n in input.shape[1:])
    transitions = parameter_of(layer, [tags + 2, tags], input.dtype, param_attr)
    begin, end, moves = transitions[0:1], transitions[1:2], transitions[2:]
    lengths = ops.reshape(ops.cast(length, dtype="int64"), shape=[-1])
    last = ops.unsqueeze(ops.sub(lengths, 1), axis=[1])
    step = ops.unsqueeze(arange(0, time, dtype="int64"), axis=[0])
    at_end = ops.unsqueeze(ops.equal(step, last), axis=[2])  # (N, T, 1)
    at_begin = ops.reshape(ops.equal(step, 0), shape=[1, time, 1])
    scores = ops.add(input, ops.mul(ops.cast(at_begin, dtype=input.dtype), begin))
    scores = ops.add(scores, ops.mul(ops.cast(at_end, dtype=input.dtype), end))
    _, path = viterbi_decode(scores, moves, lengths, include_bos_eos_tag=False)
    if label is None:
        return path
    given = label if label.ndim == 2 else ops.squeeze(label, axis=[2])
    agree = ops.equal(path, ops.cast(given, dtype="int64"))
    inside = ops.less_equal(step, last)
    return ops.cast(ops.logical_and(agree, inside), dtype="int64")
