"""The most probable sequence of tags (Viterbi, 1967)."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.errors import ShapeError
from proa.nn import Layer
from proa.tensor.creation import arange
from proa.tensor.manipulation import stack


def viterbi_decode(
    potentials: Tensor,
    transition_params: Tensor,
    lengths: Tensor,
    include_bos_eos_tag: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The path of tags with the greatest score, for each sequence of a batch.

    score(y) = sum_t potentials[t, y_t] + sum_t transitions[y_(t-1), y_t]

    With ``include_bos_eos_tag`` the last row of the transitions holds the scores of
    beginning with a tag and the last but one those of ending with it, as in Paddle:
    transitions[-1, y_0] and transitions[-2, y_(T-1)] are added.

    Args:
        potentials: Scores of tags, (batch, time, tags), floating.
        transition_params: Scores of going from one tag to another, (tags, tags).
        lengths: Length of each sequence, (batch,), integers from 1 to time.
        include_bos_eos_tag: Whether the last two tags are beginning and end.
        name: Ignored.

    Returns:
        The scores, (batch,), and the paths, int64, (batch, greatest length), or (batch,
        time) where a graph is recorded; steps beyond a sequence's length hold 0.

    Raises:
        ShapeError: If the shapes do not fit.
    """
    _check(potentials, transition_params, lengths)
    symbolic = lengths._is_symbolic
    time = int(potentials.shape[1] if symbolic else lengths.max())
    lengths = lengths.astype("int64")
    step = potentials[:, 0]
    if include_bos_eos_tag:
        step = step + transition_params[-1].unsqueeze(0)
    alive_end = lengths.unsqueeze(1)  # (batch, 1)

    def closing(number: int) -> Any:
        """Scores of ending after this many steps, for sequences of that length."""
        if not include_bos_eos_tag:
            return 0.0
        last = (alive_end == number).astype(potentials.dtype)
        return last * transition_params[-2].unsqueeze(0)

    score = step + closing(1)  # (batch, tags)
    origins = []
    for t in range(1, time):
        # (batch, from, to): the best path into each tag.
        paths = score.unsqueeze(2) + transition_params.unsqueeze(0)
        origins.append(paths.argmax(axis=1))
        moved = paths.max(axis=1) + potentials[:, t] + closing(t + 1)
        score = ops.where(alive_end > t, moved, score)
    tag = score.argmax(axis=-1)  # (batch,)
    path = [tag]
    for t in range(time - 1, 0, -1):
        before = ops.take_along_axis(origins[t - 1], tag.unsqueeze(1), axis=1)
        # A sequence that ended before step t is still at its last tag.
        tag = ops.where(ops.greater_than(lengths, t), before.squeeze(1), tag)
        path.append(tag)
    steps = stack(path[::-1], axis=1)
    inside: Any = ops.less_than(arange(0, time).unsqueeze(0), alive_end)
    return score.max(axis=-1), steps * inside.astype("int64")


def _check(potentials: Tensor, transitions: Tensor, lengths: Tensor) -> None:
    where = "viterbi_decode"
    if potentials.ndim != 3 or 0 in potentials.shape:
        raise ShapeError(
            where, "potentials must be (batch, time, tags)", potentials.shape
        )
    batch, _, tags = potentials.shape
    if list(transitions.shape) != [tags, tags]:
        raise ShapeError(
            where, f"transition_params must be ({tags}, {tags})", transitions.shape
        )
    if lengths.ndim != 1 or (lengths.shape[0] != batch and not lengths._is_symbolic):
        raise ShapeError(where, f"lengths must be ({batch},)", lengths.shape)
    if lengths._is_symbolic:
        return
    low, high = int(lengths.min()), int(lengths.max())
    if low < 1 or high > potentials.shape[1]:
        raise ShapeError(
            where, f"lengths must be 1 to {potentials.shape[1]}", (low, high)
        )


class ViterbiDecoder(Layer):
    """:func:`viterbi_decode` with its transitions kept.

    Args:
        transitions: Scores of going from one tag to another, (tags, tags).
        include_bos_eos_tag: Whether the last two tags are beginning and end.
        name: Ignored.
    """

    def __init__(
        self,
        transitions: Tensor,
        include_bos_eos_tag: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.transitions = transitions
        self.include_bos_eos_tag = include_bos_eos_tag

    def forward(self, potentials: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        return viterbi_decode(
            potentials, self.transitions, lengths, self.include_bos_eos_tag
        )
