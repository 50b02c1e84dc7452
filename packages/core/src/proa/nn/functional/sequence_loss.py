"""Losses over structures: alignments of sequences, paths in a tree of classes."""

from __future__ import annotations

import math

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, PreconditionNotMetError, ShapeError
from proa.nn.functional.reduction import reduced

__all__ = ["ctc_loss", "hsigmoid_loss"]

_INT64 = as_dtype("int64")
#: The logarithm of what is impossible; finite, so that no gradient becomes NaN.
_NEVER = -1e30


def _extended(labels: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Labels (B, L) with blanks around each, (B, 2L + 1), and where a blank between two
    labels may be left out: 0 there, else _NEVER."""
    gap = ops.full_like(labels, value=blank, dtype=_INT64)
    pairs = ops.stack(gap, labels, axis=2)
    path = ops.flatten(pairs, start_axis=1, stop_axis=2)
    path = ops.pad(path, low=[0, 0], high=[0, 1], value=blank)
    size = path.shape[1]
    before = ops.pad(
        ops.slice(path, axes=[1], starts=[0], ends=[max(size - 2, 0)], steps=[1]),
        low=[0, min(size, 2)], high=[0, 0], value=blank,
    )  # fmt: skip
    skips = ops.logical_and(ops.not_equal(path, blank), ops.not_equal(path, before))
    zero = ops.full(shape=[], value=0, dtype=as_dtype("float32"))
    never = ops.full(shape=[], value=_NEVER, dtype=as_dtype("float32"))
    return path, ops.where(skips, zero, never)


def _shifted(x: Tensor, by: int) -> Tensor:
    """(B, S) moved right by some places, _NEVER coming in."""
    size = x.shape[1]
    sliced = ops.slice(x, axes=[1], starts=[0], ends=[max(size - by, 0)], steps=[1])
    return ops.pad(sliced, low=[0, min(by, size)], high=[0, 0], value=_NEVER)


def _ends(alpha: Tensor, label_lengths: Tensor) -> Tensor:
    """log of the two states that end a label of each length, added."""
    last = ops.unsqueeze(ops.scale(label_lengths, scale=2, bias=0), axis=[1])
    blank = ops.take_along_axis(alpha, last, axis=1)
    final = ops.take_along_axis(alpha, ops.maximum(ops.sub(last, 1), 0), axis=1)
    none = ops.equal(last, 0)  # an empty label ends in the blank alone
    never = ops.full_like(final, value=_NEVER, dtype=final.dtype)
    both = ops.concat(blank, ops.where(none, never, final), axis=1)
    return ops.logsumexp(both, axis=[1])


def _alignment_loss(
    log_p: Tensor,
    labels: Tensor,
    input_lengths: Tensor,
    label_lengths: Tensor,
    blank: int,
) -> Tensor:
    """-log of the summed probability of all alignments, (B,); log_p (T, B, C)."""
    steps = log_p.shape[0]
    path, skip = _extended(ops.cast(labels, dtype=_INT64), blank)
    skip = ops.cast(skip, dtype=log_p.dtype)
    emitted = ops.take_along_axis(log_p, ops.unsqueeze(path, axis=[0]), axis=2)
    first = ops.arange(start=0, step=1, count=path.shape[1], dtype=_INT64)
    alpha = ops.where(
        ops.less_than(first, 2),
        ops.select(emitted, axis=0, index=0),
        ops.full(shape=[], value=_NEVER, dtype=log_p.dtype),
    )
    for t in range(1, steps):
        paths = ops.stack(
            alpha, _shifted(alpha, 1), ops.add(_shifted(alpha, 2), skip), axis=0
        )
        new = ops.add(
            ops.logsumexp(paths, axis=[0]), ops.select(emitted, axis=0, index=t)
        )
        inside = ops.unsqueeze(ops.greater_than(input_lengths, t), axis=[1])
        alpha = ops.where(inside, new, alpha)
    loss = ops.neg(_ends(alpha, label_lengths))
    # No alignment fits: the loss is infinite and gives no gradient.
    endless = ops.full(shape=[], value=math.inf, dtype=loss.dtype)
    return ops.where(ops.greater_than(loss, -0.5 * _NEVER), endless, loss)


def ctc_loss(
    log_probs: Tensor,
    labels: Tensor,
    input_lengths: Tensor,
    label_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
) -> Tensor:
    """Connectionist temporal classification (Graves et al., 2006).

    -log of the probability of the label, summed over all its alignments with the
    steps: repeated classes count once, then blanks are left out.

    Args:
        log_probs: Scores (T, B, classes), of which a log-softmax is taken here (which
            leaves log-probabilities as they are).
        labels: Integers (B, L), padded at the end with anything in range.
        input_lengths: (B,), how many steps count.
        label_lengths: (B,), how many labels count.
        blank: The class that means no label.
        reduction: mean (of each loss divided by its label's length), sum, or none for
            losses (B,).
        norm_by_times: Whether gradients (not values) are divided by input_lengths.

    The loss is infinite where the steps are too few for the label.
    """
    if log_probs.ndim != 3 or labels.ndim != 2:
        raise ShapeError(
            "ctc_loss", f"log_probs must be (T, B, C) for labels {labels.shape}",
            log_probs.shape,
        )  # fmt: skip
    if not 0 <= blank < log_probs.shape[2]:
        raise InvalidArgumentError(
            f"[ctc_loss] blank must be in [0, {log_probs.shape[2]}), got {blank}"
        )
    if log_probs.shape[0] < 1:
        if log_probs.shape[0] == -1:
            raise PreconditionNotMetError(
                "[ctc_loss] the number of steps must be known where it is recorded, "
                f"got shape {log_probs.shape}"
            )
        raise ShapeError("ctc_loss", "expected at least one step", log_probs.shape)
    input_lengths = ops.cast(ops.reshape(input_lengths, shape=[-1]), dtype=_INT64)
    label_lengths = ops.cast(ops.reshape(label_lengths, shape=[-1]), dtype=_INT64)
    log_p = ops.log_softmax(log_probs, axis=2)
    loss = _alignment_loss(log_p, labels, input_lengths, label_lengths, blank)
    if norm_by_times:
        times = ops.cast(input_lengths, dtype=loss.dtype)
        scaled = ops.div(loss, ops.maximum(times, 1.0))
        # The value of the loss, the gradient of the scaled one.
        loss = ops.add(scaled, ops.sub(loss, scaled).detach())
    if reduction == "mean":
        size = ops.cast(label_lengths, dtype=loss.dtype)
        return ops.mean(ops.div(loss, ops.maximum(size, 1.0)))
    return reduced("ctc_loss", loss, reduction)


def _tree_path(label: Tensor, num_classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes (N, depth) from leaf to root of the complete binary tree, the turn taken at
    each (0 or 1), and whether the path is that long.

    Node c + num_classes is the leaf of class c, n >> 1 the parent of n, 1 the root.
    """
    depth = max(int(num_classes * 2 - 1).bit_length() - 1, 1)
    leaf = ops.add(ops.cast(label, dtype=_INT64), num_classes)
    nodes, signs, valid = [], [], []
    for _ in range(depth):
        parent = ops.floor_div(leaf, 2)
        valid.append(ops.greater_than(parent, 0))
        signs.append(ops.sub(leaf, ops.mul(parent, 2)))
        nodes.append(ops.maximum(ops.sub(parent, 1), 0))
        leaf = parent
    return tuple(ops.stack(*parts, axis=1) for parts in (nodes, signs, valid))  # type: ignore[return-value]


def hsigmoid_loss(
    input: Tensor,
    label: Tensor,
    num_classes: int,
    weight: Tensor,
    bias: Tensor | None = None,
    path_table: Tensor | None = None,
    path_code: Tensor | None = None,
    is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Hierarchical sigmoid: -log of the probability of a leaf of a binary tree.

    A class is reached by turns at inner nodes, each with probability
    sigmoid(+-(weight[node] . x + bias[node])) (Morin & Bengio, 2005). Steps that a
    shorter path does not have add nothing.

    Args:
        input: (N, d).
        label: Classes (N,) or (N, 1).
        num_classes: Leaves of the default tree, the complete one; at least 2.
        weight: (num_classes - 1, d), a row for each inner node.
        bias: (num_classes - 1, 1) or (num_classes - 1,).
        path_table: Nodes on each sample's path (N, depth), negative beyond its end;
            for a tree of one's own.
        path_code: The turns there, 0 or 1.
        is_sparse: Kept for callers; gradients are dense.

    Returns losses (N, 1).
    """
    if num_classes < 2:
        raise InvalidArgumentError(
            f"[hsigmoid_loss] num_classes must be at least 2, got {num_classes}"
        )
    if (path_table is None) != (path_code is None):
        raise InvalidArgumentError(
            "[hsigmoid_loss] expected both path_table and path_code or neither, got one"
        )
    if path_table is None or path_code is None:
        flat = ops.reshape(label, shape=[-1])
        nodes, signs, valid = _tree_path(flat, num_classes)
    else:
        valid = ops.greater_equal(path_table, 0)
        nodes = ops.maximum(path_table, 0)
        signs = path_code
    rows = ops.gather(weight, nodes)  # (N, depth, d)
    score = ops.sum(ops.mul(rows, ops.unsqueeze(input, axis=[1])), axis=[2])
    if bias is not None:
        score = ops.add(score, ops.gather(ops.reshape(bias, shape=[-1]), nodes))
    score = ops.clip(score, min=-40.0, max=40.0)
    signed = ops.mul(ops.cast(signs, dtype=score.dtype), score)
    loss = ops.sub(ops.softplus(score), signed)
    loss = ops.mul(loss, ops.cast(valid, dtype=loss.dtype))
    return ops.sum(loss, axis=[1], keepdim=True)
