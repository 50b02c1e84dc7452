"""Losses of 1.x."""

from __future__ import annotations

from typing import TYPE_CHECKING

import proa
from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.initializer import Constant
from proa.static.building import layer_name
from proa.static.state import parameter_of

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "bpr_loss", "center_loss", "cos_sim", "hsigmoid", "huber_loss", "margin_rank_loss",
    "mean_iou", "rank_loss", "sigmoid_cross_entropy_with_logits", "smooth_l1",
    "soft_relu", "teacher_student_sigmoid_loss",
]  # fmt: skip


def bpr_loss(input: Tensor, label: Tensor, name: str | None = None) -> Tensor:
    """-mean over other classes j of log(sigmoid(x[label] - x[j])), (n, 1).

    Bayesian personalised ranking (Rendle et al., 2009).
    """
    classes = int(input.shape[1])
    one = F.one_hot(proa.reshape(label, [-1]), classes)
    chosen = proa.sum(proa.multiply(input, one), 1, keepdim=True)
    each = F.log_sigmoid(proa.subtract(chosen, input))
    others = proa.multiply(each, proa.scale(one, -1.0, 1.0))
    return proa.scale(proa.sum(others, 1, keepdim=True), -1.0 / (classes - 1))


def center_loss(
    input: Tensor,
    label: Tensor,
    num_classes: int,
    alpha: float | Tensor,
    param_attr: ParamAttrLike,
    update_center: bool = True,
) -> Tensor:
    """|x - centre of its class|^2 / 2, (n, 1); centres follow their samples.

    Wen et al., 2016: a centre moves by alpha * sum(centre - x) / (1 + samples).
    """
    layer = layer_name("center_loss", "center_loss")
    shape = [num_classes, int(input.shape[1])]
    centers = parameter_of(layer, shape, input.dtype, param_attr,
                           default_initializer=Constant(0.0))  # fmt: skip
    centers.stop_gradient = True
    ids = proa.reshape(label, [-1])
    offset = proa.subtract(input, proa.gather(centers, ids))
    if update_center:
        one = F.one_hot(ids, num_classes)  # (n, classes)
        total = proa.matmul(one, offset.detach(), transpose_x=True)
        count = proa.scale(proa.unsqueeze(proa.sum(one, 0), 1), 1.0, 1.0)
        step = proa.divide(total, count)
        rate = alpha if isinstance(alpha, Tensor) else float(alpha)
        proa.assign(proa.add(centers, step * rate), centers)
    return proa.scale(proa.sum(proa.square(offset), 1, keepdim=True), 0.5)


def cos_sim(X: Tensor, Y: Tensor) -> Tensor:
    """The cosine of the angle between rows, (n, 1)."""
    return proa.unsqueeze(F.cosine_similarity(X, Y, axis=1), 1)


def hsigmoid(
    input: Tensor,
    label: Tensor,
    num_classes: int,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    name: str | None = None,
    path_table: Tensor | None = None,
    path_code: Tensor | None = None,
    is_custom: bool = False,
    is_sparse: bool = False,
) -> Tensor:
    """-log of the class's probability by a tree, (n, 1), with a weight made here."""
    layer = layer_name("hsigmoid", "hierarchical_sigmoid", name)
    nodes = num_classes if is_custom else num_classes - 1
    width = int(input.shape[1])
    weight = parameter_of(layer, [nodes, width], input.dtype, param_attr)
    bias = parameter_of(layer, [nodes, 1], input.dtype, bias_attr, is_bias=True)
    return F.hsigmoid_loss(
        input, label, num_classes, weight, bias, path_table, path_code, is_sparse
    )


def huber_loss(input: Tensor, label: Tensor, delta: float) -> Tensor:
    """d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2); d = label - input."""
    size = proa.abs(proa.subtract(label, input))
    inner = proa.clip(size, 0.0, delta)
    return proa.multiply(inner, proa.subtract(size, proa.scale(inner, 0.5)))


def margin_rank_loss(
    label: Tensor,
    left: Tensor,
    right: Tensor,
    margin: float = 0.1,
    name: str | None = None,
) -> Tensor:
    """max(0, -label * (left - right) + margin)."""
    gap = proa.multiply(label, proa.subtract(left, right))
    return F.relu(proa.scale(gap, -1.0, margin))


def mean_iou(
    input: Tensor, label: Tensor, num_classes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The mean over classes that occur of intersection over union; and by class how
    many places are wrong, and how many are right.
    """
    given, wanted = (proa.reshape(t, [-1]) for t in (input, label))
    predicted, expected = (
        F.one_hot(proa.cast(t, "int64"), num_classes) for t in (given, wanted)
    )
    right = proa.sum(proa.multiply(predicted, expected), 0)
    union = proa.subtract(
        proa.add(proa.sum(predicted, 0), proa.sum(expected, 0)), right
    )
    ones = proa.ones_like(union)
    present = proa.cast(proa.greater_than(union, proa.zeros_like(union)), "float32")
    each = proa.divide(right, proa.maximum(union, ones))
    mean = proa.divide(proa.sum(each), proa.sum(present))
    wrong = proa.subtract(union, right)
    return mean, proa.cast(wrong, "int32"), proa.cast(right, "int32")


def rank_loss(
    label: Tensor, left: Tensor, right: Tensor, name: str | None = None
) -> Tensor:
    """log(1 + exp(d)) - label * d with d = left - right (RankNet, 2005)."""
    gap = proa.subtract(left, right)
    return proa.subtract(F.softplus(gap), proa.multiply(label, gap))


def sigmoid_cross_entropy_with_logits(
    x: Tensor,
    label: Tensor,
    ignore_index: int = -100,
    name: str | None = None,
    normalize: bool = False,
) -> Tensor:
    """Cross entropy of sigmoid(x), element by element.

    Args:
        x: Logits.
        label: Probabilities, or ignore_index for elements that give 0.
        ignore_index: That number.
        name: Has no meaning here.
        normalize: Whether to divide by the number of elements that are not ignored.
    """
    mask = proa.cast(
        proa.not_equal(label, proa.full_like(label, ignore_index)), x.dtype
    )
    loss = proa.subtract(F.softplus(x), proa.multiply(x, label))
    loss = proa.multiply(loss, mask)
    if not normalize:
        return loss
    count = proa.sum(mask)
    return proa.divide(loss, proa.maximum(count, proa.ones_like(count)))


def smooth_l1(
    x: Tensor,
    y: Tensor,
    inside_weight: Tensor | None = None,
    outside_weight: Tensor | None = None,
    sigma: float | None = None,
) -> Tensor:
    """The sum over a sample's elements of the smooth L1 loss, (n, 1).

    With s = sigma^2 and d = inside_weight * (x - y) it is s * d^2 / 2 where
    |d| < 1 / s, else |d| - 1 / (2 s), times outside_weight.
    """
    square = 1.0 if sigma is None else float(sigma) ** 2
    gap = proa.subtract(x, y)
    if inside_weight is not None:
        gap = proa.multiply(gap, inside_weight)
    each = proa.scale(huber_loss(proa.zeros_like(gap), gap, 1.0 / square), square)
    if outside_weight is not None:
        each = proa.multiply(each, outside_weight)
    flat = proa.flatten(each, start_axis=1) if each.ndim > 1 else each
    return proa.sum(flat, 1, keepdim=True)


def soft_relu(x: Tensor, threshold: float = 40.0, name: str | None = None) -> Tensor:
    """log(1 + exp(x)) of x that is clipped to [-threshold, threshold]."""
    return F.softplus(proa.clip(x, -threshold, threshold))


def teacher_student_sigmoid_loss(
    input: Tensor,
    label: Tensor,
    soft_max_up_bound: float = 15.0,
    soft_max_lower_bound: float = -15.0,
) -> Tensor:
    """Cross entropy of sigmoid(x) with a click, and with a teacher's score if any.

    Args:
        input: Logits x.
        label: -2: no click, -1: click, both without a score; a score q without a click,
            1 + q with one.
        soft_max_up_bound: Kept for callers.
        soft_max_lower_bound: Kept for callers.
    """
    x = input
    one, zero = proa.ones_like(label), proa.zeros_like(label)
    scored = proa.greater_equal(label, zero)
    with_click = proa.greater_equal(label, one)
    unscored_click = proa.equal(label, proa.full_like(label, -1.0))
    click = proa.logical_or(with_click, unscored_click)
    score = proa.where(with_click, proa.subtract(label, one), label)
    soft = F.softplus(x)
    hard = proa.subtract(soft, proa.multiply(x, proa.cast(click, x.dtype)))
    taught = proa.subtract(soft, proa.multiply(x, score))
    return proa.add(hard, proa.where(scored, taught, proa.zeros_like(taught)))
