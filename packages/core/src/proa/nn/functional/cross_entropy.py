"""Losses of labelled classes: cross entropy and negative log-likelihood."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal, overload

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, OutOfRangeError, ShapeError
from proa.nn.functional.reduction import reduced
from proa.tensor.arguments import cast_if, present_axis

__all__ = ["cross_entropy", "nll_loss", "softmax_with_cross_entropy"]

_INT32, _INT64 = as_dtype("int32"), as_dtype("int64")


def _axis_last(x: Tensor, axis: int) -> Tensor:
    axis = axis % x.ndim
    if axis == x.ndim - 1:
        return x
    return ops.transpose(x, perm=[*(a for a in range(x.ndim) if a != axis), axis])


def _flat_label(where: str, label: Tensor, input: Tensor, axis: int) -> Tensor:
    """Integer labels without the class axis."""
    if label.dtype is not _INT64 and label.dtype is not _INT32:
        if not label.dtype.is_integer:
            raise InvalidArgumentError(
                f"[{where}] hard labels must be integers, got {label.dtype}"
            )
        label = ops.cast(label, dtype=_INT64)
    axis = present_axis(where, axis, input.ndim)
    if label.ndim == input.ndim and label.shape[axis] == 1:
        label = ops.squeeze(label, axis=[axis])
    wanted = [n for i, n in enumerate(input.shape) if i != axis]
    if list(label.shape) != wanted and -1 not in (*wanted, *label.shape):
        raise ShapeError(
            where, f"labels must be {wanted}, or with a 1 at axis {axis}", label.shape
        )
    return label


def _at_labels(
    where: str,
    op: Callable[..., Tensor],
    flat: Tensor,
    classes: Tensor,
    ignore_index: int,
) -> Tensor:
    """The op's result at the labels; a label that is no class is named."""
    try:
        return op(flat, classes, ignore_index=ignore_index)
    except OutOfRangeError:
        count = classes.shape[-1]
        counted = [n for n in flat.flatten().tolist() if n != ignore_index]
        wrong = next(n for n in counted if not 0 <= n < count)
        raise OutOfRangeError(
            f"[{where}] labels must be in [0, {count}) or ignore_index={ignore_index}, "
            f"got label {wrong}"
        ) from None


def _hard(
    where: str,
    input: Tensor,
    label: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    axis: int,
    use_softmax: bool,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Loss without the class axis, each label's weight, and the flat label."""
    flat = _flat_label(where, label, input, axis)
    classes = _axis_last(input, axis)
    if use_softmax:
        op = ops.softmax_cross_entropy
        loss = _at_labels(where, op, flat, classes, ignore_index)
    else:
        # The input holds probabilities: -log of the one at the label.
        picked = _at_labels(where, ops.label_gather, flat, classes, ignore_index)
        ignored = ops.equal(flat, ignore_index)
        one = ops.full(shape=[], value=1, dtype=picked.dtype)
        loss = ops.neg(ops.log(ops.where(ignored, one, picked)))
    if weight is None:
        return loss, None, flat
    is_valid = ops.not_equal(flat, ignore_index)
    safe = ops.where(is_valid, flat, ops.full_like(flat, value=0, dtype=flat.dtype))
    factor = ops.mul(
        ops.gather(cast_if(weight, loss.dtype), safe),
        ops.cast(is_valid, dtype=loss.dtype),
    )
    return ops.mul(loss, factor), factor, flat


def _mean_of_valid(
    loss: Tensor, factor: Tensor | None, flat: Tensor, ignore_index: int
) -> Tensor:
    """Mean over labels that count; 0 if there is none."""
    if factor is not None:
        total = ops.sum(factor)
        one = ops.full(shape=[], value=1, dtype=total.dtype)
        return ops.div(ops.sum(loss), ops.where(ops.equal(total, 0.0), one, total))
    if flat._is_symbolic:
        # The same bits as below where all labels count: their share is then exactly 1.
        valid = ops.cast(ops.not_equal(flat, ignore_index), dtype=loss.dtype)
        share = ops.mean(valid)
        one = ops.full_like(share, value=1, dtype=share.dtype)
        return ops.div(ops.mean(loss), ops.where(ops.equal(share, 0.0), one, share))
    count = int(ops.count_nonzero(ops.not_equal(flat, ignore_index)).item())
    if count == flat.size:
        return ops.mean(loss)
    return ops.scale(ops.sum(loss), scale=1.0 / max(count, 1))


def _soft(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None,
    axis: int,
    use_softmax: bool,
    reduction: str,
) -> Tensor:
    if label.shape != input.shape:
        raise ShapeError(
            "cross_entropy", f"soft labels must be {input.shape}", label.shape
        )
    axis = present_axis("cross_entropy", axis, input.ndim)
    log_p = ops.log_softmax(input, axis=axis) if use_softmax else ops.log(input)
    loss = ops.neg(ops.sum(ops.mul(label, log_p), axis=[axis], keepdim=True))
    if weight is None:
        return reduced("cross_entropy", loss, reduction)
    shape = [1] * input.ndim
    shape[axis] = -1
    share = ops.mul(label, ops.reshape(weight, shape=shape))
    factor = ops.sum(share, axis=[axis], keepdim=True)
    loss = ops.mul(loss, factor)
    if reduction == "mean":
        return ops.div(ops.sum(loss), ops.sum(factor))
    return reduced("cross_entropy", loss, reduction)


def cross_entropy(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """-log of the probability that ``input`` gives to the label.

    Args:
        input: Scores (.., classes, ..), classes along axis; probabilities if not
            use_softmax.
        label: Integers without the class axis, or with size 1 there; with soft_label
            probabilities in the shape of input.
        weight: A factor for each class; the mean is then weighted.
        ignore_index: The label that does not count.
        reduction: mean (over labels that count), sum or none.
        soft_label: Whether labels are probabilities.
        axis: Where the classes are.
        use_softmax: Whether input are scores.
        label_smoothing: Share of an even distribution mixed into the labels.
    """
    if not soft_label and label_smoothing > 0:
        flat = _flat_label("cross_entropy", label, input, axis)
        hot = ops.one_hot(flat, depth=input.shape[axis])
        last = input.ndim - 1
        if axis % input.ndim != last:
            perm = list(range(last))
            perm.insert(axis % input.ndim, last)
            hot = ops.transpose(hot, perm=perm)
        label, soft_label = cast_if(hot, input.dtype), True
    if soft_label:
        if label_smoothing > 0:
            even = label_smoothing / input.shape[axis]
            label = ops.scale(label, scale=1.0 - label_smoothing, bias=even)
        return _soft(input, label, weight, axis, use_softmax, reduction)
    loss, factor, flat = _hard(
        "cross_entropy", input, label, weight, ignore_index, axis, use_softmax
    )
    if reduction == "mean":
        return _mean_of_valid(loss, factor, flat, ignore_index)
    if reduction == "none" and label.ndim == input.ndim:
        loss = ops.unsqueeze(loss, axis=[axis % input.ndim])
    return reduced("cross_entropy", loss, reduction)


@overload
def softmax_with_cross_entropy(
    logits: Tensor, label: Tensor, soft_label: bool = ..., ignore_index: int = ...,
    numeric_stable_mode: bool = ..., return_softmax: Literal[False] = ...,
    axis: int = ...,
) -> Tensor: ...  # fmt: skip
@overload
def softmax_with_cross_entropy(
    logits: Tensor, label: Tensor, soft_label: bool = ..., ignore_index: int = ...,
    numeric_stable_mode: bool = ..., return_softmax: Literal[True] = ...,
    axis: int = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def softmax_with_cross_entropy(
    logits: Tensor, label: Tensor, soft_label: bool = ..., ignore_index: int = ...,
    numeric_stable_mode: bool = ..., return_softmax: bool = ..., axis: int = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...  # fmt: skip
def softmax_with_cross_entropy(
    logits: Tensor,
    label: Tensor,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Tensor | tuple[Tensor, Tensor]:
    """Deprecated: `cross_entropy` without reduction, the class axis kept as 1."""
    warnings.warn(
        "softmax_with_cross_entropy is deprecated: use cross_entropy",
        DeprecationWarning,
        stacklevel=2,
    )
    loss = cross_entropy(logits, label, None, ignore_index, "none", soft_label, axis)
    if loss.ndim < logits.ndim:
        loss = ops.unsqueeze(loss, axis=[axis % logits.ndim])
    return (loss, ops.softmax(logits, axis=axis)) if return_softmax else loss


def nll_loss(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """-input at the label, input being log-probabilities with classes on axis 1."""
    flat = _flat_label("nll_loss", label, input, 1)
    classes = _axis_last(input, 1)
    picked = _at_labels("nll_loss", ops.label_gather, flat, classes, ignore_index)
    loss = ops.neg(picked)
    factor = None
    if weight is not None:
        is_valid = ops.not_equal(flat, ignore_index)
        safe = ops.where(is_valid, flat, ops.full_like(flat, value=0, dtype=flat.dtype))
        factor = ops.mul(ops.gather(weight, safe), ops.cast(is_valid, dtype=loss.dtype))
        loss = ops.mul(loss, factor)
    if reduction == "mean":
        return _mean_of_valid(loss, factor, flat, ignore_index)
    return reduced("nll_loss", loss, reduction)
