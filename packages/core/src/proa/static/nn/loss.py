"""Losses of static graphs that have parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from proa._core import Tensor, ops
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.nn import functional as F
from proa.static.building import known, layer_name
from proa.static.state import parameter_of
from proa.tensor.arguments import check_rank
from proa.tensor.creation import to_tensor
from proa.tensor.random import uniform
from proa.tensor.search import searchsorted

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from proa.nn.attr import ParamAttrLike

__all__ = ["nce"]


def _probabilities(
    sampler: str, classes: int, custom_dist: ArrayLike | None
) -> NDArray[np.float64]:
    """How probable each class is as a sample."""
    if sampler == "uniform":
        return np.full(classes, 1.0 / classes)
    if sampler == "log_uniform":
        k = np.arange(classes, dtype=np.float64)
        found: NDArray[np.float64] = np.log((k + 2) / (k + 1)) / math.log(classes + 1)
        return found
    if sampler != "custom_dist":
        raise InvalidArgumentError(
            "[static.nn.nce] sampler must be 'uniform', 'log_uniform' or "
            f"'custom_dist', got {sampler!r}"
        )
    given = np.asarray([] if custom_dist is None else custom_dist, np.float64)
    if given.shape != (classes,) or given.min() < 0 or given.sum() <= 0:
        raise InvalidArgumentError(
            f"[static.nn.nce] custom_dist must have {classes} probabilities, got "
            f"shape {given.shape}"
        )
    shares: NDArray[np.float64] = given / given.sum()
    return shares


def _samples(
    like: Tensor, count: int, probabilities: NDArray[np.float64], seed: int
) -> Tensor:
    """Classes (N, count), drawn with replacement for each row of like (N, ..): where a
    uniform number falls among the sums of the probabilities.
    """
    with NoTape():
        number = uniform([like.shape[0], count], "float64", 0.0, 1.0, seed)
        sums = np.cumsum(probabilities)
        last = int(np.flatnonzero(probabilities)[-1])
        found = searchsorted(to_tensor(sums / sums[-1]), number, right=True)
        return ops.minimum(found, last)


def nce(
    input: Tensor,
    label: Tensor,
    num_total_classes: int,
    sample_weight: Tensor | None = None,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Sequence[float] | None = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Tensor:
    """Noise-contrastive estimation (Gutmann & Hyvärinen, 2010) of each row.

    With o = sigmoid(x @ weight[c] + bias[c]) and b = samples * P(c), the loss of a row
    is the sum of -log(o / (o + b)) over its labels and of -log(b / (o + b)) over the
    classes that are drawn for it in each run, divided by samples + 1.

    Args:
        input: x (N, d).
        label: Classes (N,) or (N, labels), int64.
        num_total_classes: How many classes there are.
        sample_weight: (N,) or (N, 1), what each loss is multiplied by.
        param_attr: How the weight ``nce_0.w_0`` (classes, d) is made.
        bias_attr: How the bias ``nce_0.b_0`` (classes, 1) is made; False for none.
        num_neg_samples: Classes to draw for each row; None is 10.
        name: What parameters' names begin with.
        sampler: How probable classes are: "uniform", "log_uniform" (of classes sorted
            from frequent to rare) or "custom_dist".
        custom_dist: The probabilities for "custom_dist".
        seed: Where not 0, every run draws the same classes.
        is_sparse: Kept for callers; gradients of static programs are dense.

    Returns:
        (N, 1).

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidTypeError: If label holds no int64.
        InvalidArgumentError: If the sampler or its probabilities do not fit.
    """
    layer = layer_name("nce", "nce", name)
    check_rank("static.nn.nce", "input", input, 2, 2)
    if label.dtype != "int64":
        raise InvalidTypeError(
            f"[static.nn.nce] label must be int64, got {label.dtype.name}"
        )
    classes, count = int(num_total_classes), int(num_neg_samples or 10)
    width = known("nce", "rows", input.shape[1])
    chances = _probabilities(sampler, classes, custom_dist)
    weight = parameter_of(layer, [classes, width], input.dtype, param_attr)
    bias = parameter_of(layer, [classes, 1], input.dtype, bias_attr, is_bias=True)
    labels = label if label.ndim == 2 else ops.unsqueeze(label, axis=[1])
    true = known("nce", "labels", labels.shape[1])
    drawn = _samples(input, count, chances, int(seed))
    chosen = ops.concat(labels, ops.cast(drawn, dtype="int64"), axis=1)
    scores = _scores(input, weight, bias, chosen)
    chance = F.embedding(chosen, to_tensor(count * chances[:, None], input.dtype))
    noise = ops.squeeze(chance, axis=[2])
    is_true = to_tensor(np.arange(true + count) < true)
    share = ops.add(scores, noise)
    picked = ops.where(is_true, ops.div(scores, share), ops.div(noise, share))
    cost = ops.sum(ops.neg(ops.log(picked)), axis=[1], keepdim=True)
    if sample_weight is not None:
        cost = ops.mul(cost, ops.reshape(sample_weight, shape=[-1, 1]))
    return ops.div(cost, float(count + 1))


def _scores(x: Tensor, weight: Tensor, bias: Any, chosen: Tensor) -> Tensor:
    """sigmoid(x @ weight[c] + bias[c]) for the classes of each row."""
    rows = F.embedding(chosen, weight)  # (N, classes, d)
    product = ops.matmul(rows, ops.unsqueeze(x, axis=[2]))  # (N, classes, 1)
    if bias is not None:
        product = ops.add(product, F.embedding(chosen, bias))
    return ops.sigmoid(ops.squeeze(product, axis=[2]))
