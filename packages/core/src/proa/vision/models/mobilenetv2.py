"""MobileNetV2 (Sandler et al., 2018): inverted residuals with linear bottlenecks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.nn import (
    AdaptiveAvgPool2D,
    BatchNorm2D,
    Conv2D,
    Dropout,
    Layer,
    Linear,
    ReLU6,
    Sequential,
)
from proa.vision.models.blocks import conv_norm, divisible
from proa.vision.models.weights import with_weights

if TYPE_CHECKING:
    from proa.base.files import PathLike

# Expansion, channels out, blocks, stride of the first.
_STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
           (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]  # fmt: skip


class _InvertedResidual(Layer):
    """1 x 1 to more channels, 3 x 3 of each, 1 x 1 to few; the input is added."""

    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = round(channels * expansion)
        self.use_res_connect = stride == 1 and channels == out
        layers: list[Layer] = []
        if expansion != 1:
            layers.append(conv_norm(channels, hidden, 1, activation=ReLU6))
        layers += [
            conv_norm(hidden, hidden, 3, stride, groups=hidden, activation=ReLU6),
            Conv2D(hidden, out, 1, bias_attr=False),
            BatchNorm2D(out),
        ]
        self.conv = Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.conv(x) if self.use_res_connect else self.conv(x)
        return result


class MobileNetV2(Layer):
    """MobileNetV2.

    Args:
        scale: Channels are multiplied by it (and rounded to multiples of 8).
        num_classes: Scores given; 0 leaves the last layer out.
        with_pool: Whether to average over the image.

    Shape:
        x: (N, 3, H, W). Returns (N, num_classes).
    """

    def __init__(
        self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True
    ) -> None:
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        channels = divisible(32 * scale)
        last = divisible(1280 * max(1.0, scale))
        layers: list[Layer] = [conv_norm(3, channels, 3, 2, activation=ReLU6)]
        for expansion, width, count, stride in _STAGES:
            out = divisible(width * scale)
            for i in range(count):
                step = stride if i == 0 else 1
                layers.append(_InvertedResidual(channels, out, step, expansion))
                channels = out
        layers.append(conv_norm(channels, last, 1, activation=ReLU6))
        self.features = Sequential(*layers)
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = Sequential(Dropout(0.2), Linear(last, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = self.classifier(ops.flatten(x, start_axis=1, stop_axis=-1))
        return x


def mobilenet_v2(
    pretrained: bool | PathLike = False, scale: float = 1.0, **kwargs: Any
) -> MobileNetV2:
    """MobileNetV2; ``kwargs`` go to :class:`MobileNetV2`."""
    return with_weights(MobileNetV2(scale, **kwargs), pretrained, "mobilenet_v2")
