"""GoogLeNet (Szegedy et al., 2014): inception modules and two side classifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.nn import (
    AdaptiveAvgPool2D,
    AvgPool2D,
    Conv2D,
    Dropout,
    Layer,
    Linear,
    MaxPool2D,
)
from proa.nn.functional import relu
from proa.tensor.manipulation import concat
from proa.vision.models.weights import with_weights

if TYPE_CHECKING:
    from proa.base.files import PathLike

# Name -> channels in, of the 1 x 1 path, of the 3 x 3 one (before, after), of the
# 5 x 5 one (before, after), of the pooled one.
_MODULES = {
    "_ince3a": (192, 64, 96, 128, 16, 32, 32),
    "_ince3b": (256, 128, 128, 192, 32, 96, 64),
    "_ince4a": (480, 192, 96, 208, 16, 48, 64),
    "_ince4b": (512, 160, 112, 224, 24, 64, 64),
    "_ince4c": (512, 128, 128, 256, 24, 64, 64),
    "_ince4d": (512, 112, 144, 288, 32, 64, 64),
    "_ince4e": (528, 256, 160, 320, 32, 128, 128),
    "_ince5a": (832, 256, 160, 320, 32, 128, 128),
    "_ince5b": (832, 384, 192, 384, 48, 128, 128),
}


class _Conv(Layer):
    def __init__(self, channels: int, out: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self._conv = Conv2D(
            channels, out, size, stride, padding=(size - 1) // 2, bias_attr=False
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self._conv(x)
        return result


class _Inception(Layer):
    """Filters of three sizes and a pooled path side by side."""

    def __init__(self, channels: int, *widths: int) -> None:
        super().__init__()
        one, three_before, three, five_before, five, pooled = widths
        self._conv1 = _Conv(channels, one, 1)
        self._conv3r = _Conv(channels, three_before, 1)
        self._conv3 = _Conv(three_before, three, 3)
        self._conv5r = _Conv(channels, five_before, 1)
        self._conv5 = _Conv(five_before, five, 5)
        self._pool = MaxPool2D(3, stride=1, padding=1)
        self._convprj = _Conv(channels, pooled, 1)

    def forward(self, x: Tensor) -> Tensor:
        paths = [
            self._conv1(x),
            self._conv3(self._conv3r(x)),
            self._conv5(self._conv5r(x)),
            self._convprj(self._pool(x)),
        ]
        return relu(concat(paths, axis=1))


class GoogLeNet(Layer):
    """GoogLeNet; images must be 224 x 224 for its side classifiers.

    Args:
        num_classes: Scores given; 0 leaves the classifiers out.
        with_pool: Whether to average over the image.

    Shape:
        inputs: (N, 3, 224, 224). Returns three tensors (N, num_classes): the scores
        and those of the two side classifiers.
    """

    def __init__(self, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        self._conv = _Conv(3, 64, 7, 2)
        self._pool = MaxPool2D(3, stride=2)
        self._conv_1 = _Conv(64, 64, 1)
        self._conv_2 = _Conv(64, 192, 3)
        for name, widths in _MODULES.items():
            self.add_sublayer(name, _Inception(*widths))
        if with_pool:
            self._pool_5 = AdaptiveAvgPool2D(1)
            self._pool_o1 = AvgPool2D(5, stride=3)
            self._pool_o2 = AvgPool2D(5, stride=3)
        if num_classes > 0:
            self._drop = Dropout(0.4, mode="downscale_in_infer")
            self._fc_out = Linear(1024, num_classes)
            self._conv_o1 = _Conv(512, 128, 1)
            self._fc_o1 = Linear(1152, 1024)
            self._drop_o1 = Dropout(0.7, mode="downscale_in_infer")
            self._out1 = Linear(1024, num_classes)
            self._conv_o2 = _Conv(528, 128, 1)
            self._fc_o2 = Linear(1152, 1024)
            self._drop_o2 = Dropout(0.7, mode="downscale_in_infer")
            self._out2 = Linear(1024, num_classes)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self._pool(self._conv(inputs))
        x = self._pool(self._conv_2(self._conv_1(x)))
        x = self._pool(self._ince3b(self._ince3a(x)))
        first = side = self._ince4a(x)
        side = self._ince4d(self._ince4c(self._ince4b(first)))
        x = self._pool(self._ince4e(side))
        x = self._ince5b(self._ince5a(x))
        if self.with_pool:
            x = self._pool_5(x)
            first, side = self._pool_o1(first), self._pool_o2(side)
        if self.num_classes > 0:
            x = self._fc_out(ops.squeeze(self._drop(x), axis=[2, 3]))
            first = relu(self._fc_o1(_flat(self._conv_o1(first))))
            first = self._out1(self._drop_o1(first))
            side = self._fc_o2(_flat(self._conv_o2(side)))
            side = self._out2(self._drop_o2(side))
        return x, first, side


def _flat(x: Any) -> Any:
    return ops.flatten(x, start_axis=1, stop_axis=-1)


def googlenet(pretrained: bool | PathLike = False, **kwargs: Any) -> GoogLeNet:
    """GoogLeNet; ``kwargs`` go to :class:`GoogLeNet`."""
    return with_weights(GoogLeNet(**kwargs), pretrained, "googlenet")
