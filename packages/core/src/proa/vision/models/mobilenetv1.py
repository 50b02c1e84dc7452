"""MobileNetV1 (Howard et al., 2017): depthwise separable convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.nn import AdaptiveAvgPool2D, Layer, Linear
from proa.vision.models.blocks import conv_norm
from proa.vision.models.weights import with_weights

if TYPE_CHECKING:
    from proa.base.files import PathLike

# Name, channels in, channels out, stride.
_BLOCKS = [
    ("conv2_1", 32, 64, 1), ("conv2_2", 64, 128, 2), ("conv3_1", 128, 128, 1),
    ("conv3_2", 128, 256, 2), ("conv4_1", 256, 256, 1), ("conv4_2", 256, 512, 2),
    *((f"conv5_{i}", 512, 512, 1) for i in range(1, 6)),
    ("conv5_6", 512, 1024, 2), ("conv6", 1024, 1024, 1),
]  # fmt: skip


class _Separable(Layer):
    """A 3 x 3 convolution of each channel, then a 1 x 1 one across them."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self._depthwise_conv = conv_norm(channels, channels, 3, stride, groups=channels)
        self._pointwise_conv = conv_norm(channels, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self._pointwise_conv(self._depthwise_conv(x))
        return result


class MobileNetV1(Layer):
    """MobileNetV1.

    Args:
        scale: Channels are multiplied by it.
        num_classes: Scores given; 0 leaves the last layer out.
        with_pool: Whether to average over the image.

    Shape:
        x: (N, 3, H, W). Returns (N, num_classes).
    """

    def __init__(
        self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True
    ) -> None:
        super().__init__()
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool
        self.conv1 = conv_norm(3, int(32 * scale), 3, 2)
        for name, channels, out, stride in _BLOCKS:
            block = _Separable(int(channels * scale), int(out * scale), stride)
            self.add_sublayer(name, block)
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = Linear(int(1024 * scale), num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for name, *_ in _BLOCKS:
            x = getattr(self, name)(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = self.fc(ops.flatten(x, start_axis=1, stop_axis=-1))
        return x


def mobilenet_v1(
    pretrained: bool | PathLike = False, scale: float = 1.0, **kwargs: Any
) -> MobileNetV1:
    """MobileNetV1; ``kwargs`` go to :class:`MobileNetV1`."""
    return with_weights(MobileNetV1(scale, **kwargs), pretrained, "mobilenet_v1")
