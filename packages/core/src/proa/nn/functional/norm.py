"""Normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import check_rank

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
]


def _channels_first(x: Tensor, data_format: str) -> tuple[Tensor, list[int] | None]:
    """x with channels on axis 1, and the permutation that undoes it."""
    if data_format.startswith("NC") or x.ndim <= 2:
        return x, None
    last = x.ndim - 1
    back = [0, *range(2, x.ndim), 1]
    return ops.transpose(x, perm=[0, last, *range(1, last)]), back


def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """x normalised per channel; training takes the batch's statistics and records them.

    running = momentum * running + (1 - momentum) * batch, with the biased variance.
    """
    check_rank("batch_norm", "x", x, 2)
    check_rank("batch_norm", "running_mean", running_mean, 1, 1)
    image, back = _channels_first(x, data_format)
    if image.shape[1] not in (-1, running_mean.shape[0]):
        raise ShapeError(
            "batch_norm", f"x must have {running_mean.shape[0]} channels", x.shape
        )
    kind = running_mean.dtype
    if weight is None:
        weight = ops.full_like(running_mean, value=1, dtype=kind)
    if bias is None:
        bias = ops.full_like(running_mean, value=0, dtype=kind)
    if use_global_stats or (use_global_stats is None and not training):
        y = ops.batch_norm_infer(
            image, running_mean, running_var, weight, bias, epsilon=epsilon
        )
    else:
        y, mean, variance = ops.batch_norm(image, weight, bias, epsilon=epsilon)
        if training:
            # p -= lr * (g + d * p) with lr = m - 1, d = -1 moves p by (1 - m) of the
            # way.
            step = momentum - 1.0
            ops.sgd_(running_mean, mean, lr=step, weight_decay=-1.0)
            ops.sgd_(running_var, variance, lr=step, weight_decay=-1.0)
    return y if back is None else ops.transpose(y, perm=back)


def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """x normalised over its last axes, which have the shape normalized_shape."""
    given = normalized_shape
    shape = [given] if isinstance(given, int) else list(given)
    if list(x.shape[x.ndim - len(shape) :]) != shape:
        raise ShapeError("layer_norm", f"the last axes must be {shape}", x.shape)
    if weight is None:
        weight = ops.full(shape=shape, value=1, dtype=x.dtype)
    if bias is None:
        bias = ops.full(shape=shape, value=0, dtype=x.dtype)
    weight, bias = (
        t if list(t.shape) == shape else ops.reshape(t, shape=shape)
        for t in (weight, bias)
    )
    y: Tensor = ops.layer_norm(x, weight, bias, axes=len(shape), epsilon=epsilon)[0]
    return y


def group_norm(
    x: Tensor,
    num_groups: int,
    epsilon: float = 1e-05,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """x normalised over each group of channels of each sample.

    Args:
        x: (N, C, ..), or (N, .., C) by data_format, floating.
        num_groups: Into how many groups the C channels are cut.
        epsilon: Added to each group's variance.
        weight: (C), what each channel is multiplied by afterwards; None: 1.
        bias: (C), what is then added to it; None: 0.

    Raises:
        ShapeError: If num_groups does not divide the channels.
    """
    check_rank("group_norm", "x", x, 2)
    image, back = _channels_first(x, data_format)
    channels = image.shape[1]
    if num_groups < 1 or channels % num_groups:
        raise ShapeError(
            "group_norm", f"channels must be divisible by {num_groups}", x.shape
        )
    if weight is None:
        weight = ops.full(shape=[channels], value=1, dtype=x.dtype)
    if bias is None:
        bias = ops.full(shape=[channels], value=0, dtype=x.dtype)
    y: Tensor = ops.group_norm(image, weight, bias, groups=num_groups, epsilon=epsilon)[
        0
    ]
    return y if back is None else ops.transpose(y, perm=back)


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-05,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """x normalised over each channel of each sample."""
    check_rank("instance_norm", "x", x, 2)
    channels = x.shape[1] if data_format.startswith("NC") else x.shape[-1]
    return group_norm(x, channels, eps, weight, bias, data_format)


def local_response_norm(
    x: Tensor,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """x / (k + alpha * mean of squares over near channels) ** beta.

    Args:
        x: (N, C, ..) of rank 3 to 5, or (N, .., C) by data_format.
        size: How many channels the mean is over: size // 2 before each and
            (size - 1) // 2 after it, zeros beyond the ends (Krizhevsky et al., 2012).
    """
    if not 3 <= x.ndim <= 5:
        raise ShapeError("local_response_norm", "rank must be 3, 4 or 5", x.shape)
    if size < 1:
        raise InvalidArgumentError(
            f"[local_response_norm] size must be positive, got {size}"
        )
    if x.size == 0:
        return ops.assign(x)
    axis = 1 if data_format.startswith("NC") else x.ndim - 1
    low, high = [0] * x.ndim, [0] * x.ndim
    low[axis], high[axis] = size // 2, (size - 1) // 2
    squares = ops.pad(ops.square(x), low=low, high=high, value=0)
    channels = x.shape[axis]
    near = [
        ops.slice(squares, axes=[axis], starts=[i], ends=[i + channels], steps=[1])
        for i in range(size)
    ]
    total = near[0]
    for other in near[1:]:
        total = ops.add(total, other)
    inner = ops.scale(total, scale=alpha / size, bias=float(k))
    return ops.div(x, ops.pow(inner, float(beta)))
