"""Dropout."""

from __future__ import annotations

from collections.abc import Sequence

from proa._core import Tensor, ops
from proa.base.mode import static_builder
from proa.base.random import next_key
from proa.errors import InvalidArgumentError
from proa.nn.functional.geometry import channels_first, restored
from proa.tensor.arguments import as_ints, present_axis
from proa.tensor.creation import full

__all__ = ["alpha_dropout", "dropout", "dropout2d", "dropout3d"]


def dropout(
    x: Tensor,
    p: float = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Tensor:
    """Elements (or whole entries of other axes than ``axis``) set to 0 with probability
    p.

    Args:
        x: The input.
        p: The probability, in [0, 1].
        axis: Axes along which the mask varies; None is all.
        training: Whether to drop; if not, x passes (scaled in "downscale_in_infer").
        mode: "upscale_in_train" divides what is kept by 1 - p while training;
            "downscale_in_infer" multiplies by 1 - p when not.
    """
    if not 0 <= p <= 1:
        raise InvalidArgumentError(f"[dropout] p must be in [0, 1], got {p}")
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise InvalidArgumentError(
            "[dropout] mode must be upscale_in_train or downscale_in_infer, "
            f"got {mode!r}"
        )
    upscale = mode == "upscale_in_train"
    if not training:
        return x if upscale else ops.scale(x, scale=1.0 - p)
    if p == 0:
        return x
    if p == 1:
        return ops.mul(x, 0.0)
    if axis is None:
        seed, offset = next_key(x.size)
        return ops.dropout(x, p=float(p), seed=seed, offset=offset, upscale=upscale)
    along = [present_axis("dropout", a, x.ndim) for a in as_ints("dropout", axis)]
    shape = [n if i in along else 1 for i, n in enumerate(x.shape)]
    mask = full(shape, 1, x.dtype)
    return ops.mul(x, dropout(mask, p, None, True, mode))


def dropout2d(
    x: Tensor,
    p: float = 0.5,
    training: bool = True,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Whole channels set to 0 with probability p."""
    return _drop_channels("dropout2d", x, p, training, data_format, 2)


def dropout3d(
    x: Tensor,
    p: float = 0.5,
    training: bool = True,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """Whole channels of volumes set to 0 with probability p."""
    return _drop_channels("dropout3d", x, p, training, data_format, 3)


def _drop_channels(
    where: str, x: Tensor, p: float, training: bool, data_format: str, axes: int
) -> Tensor:
    image = channels_first(x, data_format, where, axes)
    return restored(dropout(image, p, [0, 1], training), data_format)


def alpha_dropout(
    x: Tensor, p: float = 0.5, training: bool = True, name: str | None = None
) -> Tensor:
    """Dropout that keeps mean and variance of SELU activations."""
    if not training or p == 0:
        return x
    if p == 1:
        return ops.mul(x, 0.0)
    low = -1.6732632423543772 * 1.0507009873554805
    a = ((1 - p) * (1 + p * low**2)) ** -0.5
    seed, offset = next_key(x.size)
    mask = ops.dropout(
        ops.full_like(x, value=1, dtype=x.dtype),
        p=float(p), seed=seed, offset=offset, upscale=False,
    )  # fmt: skip
    mixed = ops.add(ops.mul(x, mask), ops.scale(mask, scale=-low, bias=low))
    result = ops.scale(mixed, scale=a, bias=-a * p * low)
    if (builder := static_builder()) is not None:
        builder.tested_as(result, x)
    return result
