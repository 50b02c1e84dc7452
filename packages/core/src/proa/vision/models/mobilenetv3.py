"""MobileNetV3 (Howard et al., 2019): squeeze-and-excitation and hard swish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.nn import (
    AdaptiveAvgPool2D,
    Conv2D,
    Dropout,
    Hardsigmoid,
    Hardswish,
    Layer,
    Linear,
    ReLU,
    Sequential,
)
from proa.vision.models.blocks import conv_norm, divisible
from proa.vision.models.weights import with_weights

if TYPE_CHECKING:
    from proa.base.files import PathLike

# Filter size, expanded channels, channels out, squeeze-excitation, hard swish, stride.
# The first block's channels in are 16, a later block's those its predecessor gives.
_Row = tuple[int, int, int, bool, bool, int]
_LARGE: list[_Row] = [
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1), (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
]  # fmt: skip
_SMALL: list[_Row] = [
    (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1), (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2), (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
]  # fmt: skip
_NORM: dict[str, Any] = {"epsilon": 0.001, "momentum": 0.99}


class _SqueezeExcitation(Layer):
    """Channels weighed by what their means say (Hu et al., 2017)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = AdaptiveAvgPool2D(1)
        self.fc1 = Conv2D(channels, squeezed, 1)
        self.relu = ReLU()
        self.fc2 = Conv2D(squeezed, channels, 1)
        self.scale_activation = Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        weight = self.fc2(self.relu(self.fc1(self.avgpool(x))))
        result: Tensor = self.scale_activation(weight) * x
        return result


class _InvertedResidual(Layer):
    def __init__(self, channels: int, expanded: int, out: int, row: _Row) -> None:
        super().__init__()
        size, _, _, excited, swish, stride = row
        activation = Hardswish if swish else ReLU
        self.use_res_connect = stride == 1 and channels == out
        self.expand_conv = (
            None
            if channels == expanded
            else conv_norm(channels, expanded, 1, activation=activation, **_NORM)
        )
        self.bottleneck_conv = conv_norm(
            expanded, expanded, size, stride,
            groups=expanded, activation=activation, **_NORM,
        )  # fmt: skip
        self.mid_se = (
            _SqueezeExcitation(expanded, divisible(expanded // 4)) if excited else None
        )
        self.linear_conv = conv_norm(expanded, out, 1, activation=None, **_NORM)

    def forward(self, x: Tensor) -> Tensor:
        y: Any = x if self.expand_conv is None else self.expand_conv(x)
        y = self.bottleneck_conv(y)
        if self.mid_se is not None:
            y = self.mid_se(y)
        y = self.linear_conv(y)
        result: Tensor = x + y if self.use_res_connect else y
        return result


class MobileNetV3(Layer):
    """What both sizes share.

    Args:
        config: Rows of (filter size, expanded channels, channels out,
            squeeze-excitation, hard swish, stride).
        last_channel: Width of the layer before the last.
        scale: Channels are multiplied by it (and rounded to multiples of 8).
        num_classes: Scores given; 0 leaves the last layers out.
        with_pool: Whether to average over the image.

    Shape:
        x: (N, 3, H, W). Returns (N, num_classes).
    """

    def __init__(
        self,
        config: list[_Row],
        last_channel: int,
        scale: float = 1.0,
        num_classes: int = 1000,
        with_pool: bool = True,
    ) -> None:
        super().__init__()
        self.config, self.scale, self.last_channel = config, scale, last_channel
        self.num_classes, self.with_pool = num_classes, with_pool
        channels = divisible(16 * scale)
        self.conv = conv_norm(3, channels, 3, 2, activation=Hardswish, **_NORM)
        blocks = []
        for row in config:
            expanded, out = divisible(row[1] * scale), divisible(row[2] * scale)
            blocks.append(_InvertedResidual(channels, expanded, out, row))
            channels = out
        self.blocks = Sequential(*blocks)
        last = 6 * channels
        self.lastconv = conv_norm(channels, last, 1, activation=Hardswish, **_NORM)
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = Sequential(
                Linear(last, last_channel),
                Hardswish(),
                Dropout(0.2),
                Linear(last_channel, num_classes),
            )

    def forward(self, x: Tensor) -> Tensor:
        x = self.lastconv(self.blocks(self.conv(x)))
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.classifier(ops.flatten(x, start_axis=1, stop_axis=-1))
        return x


class MobileNetV3Small(MobileNetV3):
    """MobileNetV3 with 11 blocks, for small devices; see :class:`MobileNetV3`."""

    def __init__(
        self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True
    ) -> None:
        super().__init__(_SMALL, divisible(1024 * scale), scale, num_classes, with_pool)


class MobileNetV3Large(MobileNetV3):
    """MobileNetV3 with 15 blocks; see :class:`MobileNetV3`."""

    def __init__(
        self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True
    ) -> None:
        super().__init__(_LARGE, divisible(1280 * scale), scale, num_classes, with_pool)


def mobilenet_v3_small(
    pretrained: bool | PathLike = False, scale: float = 1.0, **kwargs: Any
) -> MobileNetV3Small:
    """MobileNetV3 small; ``kwargs`` go to :class:`MobileNetV3Small`."""
    network = MobileNetV3Small(scale, **kwargs)
    return with_weights(network, pretrained, "mobilenet_v3_small")


def mobilenet_v3_large(
    pretrained: bool | PathLike = False, scale: float = 1.0, **kwargs: Any
) -> MobileNetV3Large:
    """MobileNetV3 large; ``kwargs`` go to :class:`MobileNetV3Large`."""
    network = MobileNetV3Large(scale, **kwargs)
    return with_weights(network, pretrained, "mobilenet_v3_large")
