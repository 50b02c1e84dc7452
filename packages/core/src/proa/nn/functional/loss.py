"""Losses. ``reduction`` is "mean", "sum" or "none"."""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.errors import ShapeError
from proa.nn.functional.cross_entropy import cross_entropy
from proa.nn.functional.distance import cosine_similarity
from proa.nn.functional.reduction import reduced
from proa.tensor.arguments import check_rank

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
    "dice_loss", "hinge_embedding_loss", "kl_div", "l1_loss", "log_loss",
    "margin_ranking_loss", "mse_loss", "npair_loss", "sigmoid_focal_loss",
    "smooth_l1_loss", "square_error_cost",
]  # fmt: skip


def mse_loss(
    input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None
) -> Tensor:
    """(input - label) ** 2."""
    return reduced("mse_loss", ops.square(ops.sub(input, label)), reduction)


def square_error_cost(input: Tensor, label: Tensor) -> Tensor:
    """(input - label) ** 2, element by element."""
    return ops.square(ops.sub(input, label))


def l1_loss(
    input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None
) -> Tensor:
    """|input - label|."""
    return reduced("l1_loss", ops.abs(ops.sub(input, label)), reduction)


def smooth_l1_loss(
    input: Tensor,
    label: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """0.5 d ** 2 where d = |input - label| < delta, else delta * (d - 0.5 delta)."""
    d = ops.abs(ops.sub(input, label))
    near = ops.minimum(d, float(delta))
    # With n = min(d, delta) both cases read n * (d - n / 2).
    loss = ops.mul(near, ops.sub(d, ops.scale(near, scale=0.5)))
    return reduced("smooth_l1_loss", loss, reduction)


def kl_div(
    input: Tensor,
    label: Tensor,
    reduction: str = "mean",
    name: str | None = None,
    *,
    log_target: bool = False,
) -> Tensor:
    """label * (log(label) - input), of log-probabilities; 0 where label <= 0.

    With log_target the label is a logarithm itself: exp(label) * (label - input).
    """
    if log_target:
        loss = ops.mul(ops.exp(label), ops.sub(label, input))
        return _kl_reduced(loss, reduction)
    positive = ops.greater_than(label, 0.0)
    one = ops.full(shape=[], value=1, dtype=label.dtype)
    safe = ops.where(positive, label, one)
    loss = ops.mul(label, ops.sub(ops.log(safe), input))
    loss = ops.mul(loss, ops.cast(positive, dtype=loss.dtype))
    return _kl_reduced(loss, reduction)


def _kl_reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "batchmean":
        return ops.div(ops.sum(loss), float(loss.shape[0]))
    return reduced("kl_div", loss, reduction)


def log_loss(
    input: Tensor, label: Tensor, epsilon: float = 0.0001, name: str | None = None
) -> Tensor:
    """-label * log(input + e) - (1 - label) * log(1 - input + e)."""
    on = ops.mul(label, ops.log(ops.add(input, epsilon)))
    off = ops.mul(ops.sub(1.0, label), ops.log(ops.add(ops.sub(1.0, input), epsilon)))
    return ops.neg(ops.add(on, off))


def binary_cross_entropy(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """-(label * log(input) + (1 - label) * log(1 - input)), logs not below -100."""
    on = ops.maximum(ops.log(input), -100.0)
    off = ops.maximum(ops.log(ops.sub(1.0, input)), -100.0)
    loss = ops.neg(ops.add(ops.mul(label, on), ops.mul(ops.sub(1.0, label), off)))
    loss = loss if weight is None else ops.mul(loss, weight)
    return reduced("binary_cross_entropy", loss, reduction)


def binary_cross_entropy_with_logits(
    logit: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(logit), safe for large logits."""
    # -log sigmoid(x) = softplus(-x); -log(1 - sigmoid(x)) = softplus(x).
    large = ops.maximum(ops.neg(logit), 0.0)
    tail = ops.log1p(ops.exp(ops.neg(ops.abs(logit))))
    minus = ops.add(large, tail)
    off = ops.mul(ops.sub(1.0, label), logit)
    if pos_weight is None:
        loss = ops.add(off, minus)
    else:
        factor = ops.add(ops.mul(ops.sub(pos_weight, 1.0), label), 1.0)
        loss = ops.add(off, ops.mul(factor, minus))
    loss = loss if weight is None else ops.mul(loss, weight)
    return reduced("binary_cross_entropy_with_logits", loss, reduction)


def margin_ranking_loss(
    input: Tensor,
    other: Tensor,
    label: Tensor,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """max(0, -label * (input - other) + margin)."""
    gap = ops.neg(ops.mul(label, ops.sub(input, other)))
    loss = ops.relu(ops.add(gap, float(margin)))
    return reduced("margin_ranking_loss", loss, reduction)


def hinge_embedding_loss(
    input: Tensor,
    label: Tensor,
    margin: float = 1.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """input where label is 1, max(0, margin - input) where it is -1."""
    other = ops.relu(ops.sub(float(margin), input))
    loss = ops.where(ops.equal(label, 1), input, other)
    return reduced("hinge_embedding_loss", loss, reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    label: Tensor,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """1 - cos where label is 1, max(0, cos - margin) where it is -1."""
    cos = cosine_similarity(input1, input2, axis=-1)
    apart = ops.relu(ops.sub(cos, float(margin)))
    loss = ops.where(ops.equal(label, 1), ops.sub(1.0, cos), apart)
    return reduced("cosine_embedding_loss", loss, reduction)


def dice_loss(
    input: Tensor, label: Tensor, epsilon: float = 1e-05, name: str | None = None
) -> Tensor:
    """1 - 2 |X and Y| / (|X| + |Y|), averaged over the batch (Milletari et al., 2016).

    Args:
        input: Probabilities (N, .., classes).
        label: Integers (N, .., 1).
        epsilon: Added to the denominator.
    """
    check_rank("dice_loss", "input", input, 2)
    if label.ndim != input.ndim or label.shape[-1] != 1:
        raise ShapeError(
            "dice_loss", f"labels must be {[*input.shape[:-1], 1]}", label.shape
        )
    hot = ops.one_hot(ops.squeeze(label, axis=[-1]), depth=input.shape[-1])
    hot = ops.cast(hot, dtype=input.dtype)
    axes = list(range(1, input.ndim))
    both = ops.sum(ops.mul(input, hot), axis=axes)
    total = ops.add(ops.sum(input, axis=axes), ops.sum(hot, axis=axes))
    share = ops.div(ops.scale(both, scale=2.0), ops.add(total, float(epsilon)))
    return ops.mean(ops.sub(1.0, share))


def npair_loss(
    anchor: Tensor, positive: Tensor, labels: Tensor, l2_reg: float = 0.002
) -> Tensor:
    """Each anchor against all positives of the batch (Sohn, 2016).

    Cross entropy of anchor @ positive^T with the pairs of equal labels, plus
    l2_reg / 4 times the mean squared lengths.

    Args:
        anchor: (N, d).
        positive: (N, d).
        labels: (N,).
    """
    lengths = ops.add(
        ops.mean(ops.sum(ops.square(anchor), axis=[1])),
        ops.mean(ops.sum(ops.square(positive), axis=[1])),
    )
    column = ops.reshape(labels, shape=[-1, 1])
    same = ops.cast(ops.equal(column, ops.swap_last(column)), dtype=anchor.dtype)
    same = ops.div(same, ops.sum(same, axis=[1], keepdim=True))
    scores = ops.matmul(anchor, ops.swap_last(positive))
    loss = cross_entropy(scores, same, soft_label=True, reduction="none")
    loss = ops.mean(ops.sum(ops.mul(same, loss), axis=[0]))
    return ops.add(loss, ops.scale(lengths, scale=0.25 * l2_reg))


def sigmoid_focal_loss(
    logit: Tensor,
    label: Tensor,
    normalizer: Tensor | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Tensor:
    """-a (1 - p) ** gamma log(p), p the probability of the truth (Lin et al., 2017).

    Args:
        logit: Scores of any shape.
        label: 0 or 1 for each.
        normalizer: One number that divides the loss, such as the count of positives.
        alpha: a where the label is 1; 1 - alpha where it is 0.
        gamma: How much easy examples are played down.
    """
    if normalizer is not None and normalizer.size != 1:
        raise ShapeError(
            "sigmoid_focal_loss", "normalizer must be one number", normalizer.shape
        )
    off = ops.sub(1.0, label)
    loss = binary_cross_entropy_with_logits(logit, label, reduction="none")
    p = ops.sigmoid(logit)
    missed = ops.add(ops.mul(ops.sub(1.0, p), label), ops.mul(p, off))
    share = ops.add(ops.scale(label, scale=alpha), ops.scale(off, scale=1.0 - alpha))
    loss = ops.mul(ops.mul(loss, share), ops.pow(missed, float(gamma)))
    if normalizer is not None:
        loss = ops.div(loss, ops.reshape(normalizer, shape=[]))
    return reduced("sigmoid_focal_loss", loss, reduction)
