"""Blocks that several networks share."""

from __future__ import annotations

from typing import Any

from proa.nn import BatchNorm2D, Conv2D, Layer, ReLU, Sequential


def conv_norm(
    channels: int,
    out: int,
    size: Any = 3,
    stride: int = 1,
    padding: Any = None,
    groups: int = 1,
    activation: type[Layer] | None = ReLU,
    **norm: Any,
) -> Sequential:
    """Convolution without bias, batch normalisation, activation.

    Without ``padding`` the image keeps its size at stride 1; ``norm`` goes to the
    normalisation.
    """
    around = (size - 1) // 2 if padding is None else padding
    layers: list[Layer] = [
        Conv2D(channels, out, size, stride, around, groups=groups, bias_attr=False),
        BatchNorm2D(out, **norm),
    ]
    if activation is not None:
        layers.append(activation())
    return Sequential(*layers)


def divisible(channels: float, divisor: int = 8, minimum: int | None = None) -> int:
    """The multiple of the divisor nearest to ``channels``, at most 10 % below it."""
    rounded = max(minimum or divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded
