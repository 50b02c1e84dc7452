"""Inception V3 (Szegedy et al., 2015): factorised filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.nn import (
    AdaptiveAvgPool2D,
    AvgPool2D,
    Dropout,
    Layer,
    LayerList,
    Linear,
    MaxPool2D,
)
from proa.tensor.manipulation import concat
from proa.vision.models.blocks import conv_norm
from proa.vision.models.weights import with_weights

if TYPE_CHECKING:
    from proa.base.files import PathLike

_ROW, _COLUMN = (1, 7), (7, 1)
_ACROSS, _DOWN = (0, 3), (3, 0)  # their paddings


def _joined(*paths: Any) -> Any:
    return concat(list(paths), axis=1)


def _mean_pool() -> AvgPool2D:
    return AvgPool2D(3, stride=1, padding=1, exclusive=False)


class _Stem(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.conv_1a_3x3 = conv_norm(3, 32, 3, 2, 0)
        self.conv_2a_3x3 = conv_norm(32, 32, 3, 1, 0)
        self.conv_2b_3x3 = conv_norm(32, 64, 3)
        self.max_pool = MaxPool2D(3, stride=2)
        self.conv_3b_1x1 = conv_norm(64, 80, 1)
        self.conv_4a_3x3 = conv_norm(80, 192, 3, 1, 0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_2b_3x3(self.conv_2a_3x3(self.conv_1a_3x3(x)))
        x = self.conv_4a_3x3(self.conv_3b_1x1(self.max_pool(x)))
        result: Tensor = self.max_pool(x)
        return result


class _InceptionA(Layer):
    """Filters of 1, 5 and twice 3, and a mean."""

    def __init__(self, channels: int, pooled: int) -> None:
        super().__init__()
        self.branch1x1 = conv_norm(channels, 64, 1)
        self.branch5x5_1 = conv_norm(channels, 48, 1)
        self.branch5x5_2 = conv_norm(48, 64, 5)
        self.branch3x3dbl_1 = conv_norm(channels, 64, 1)
        self.branch3x3dbl_2 = conv_norm(64, 96, 3)
        self.branch3x3dbl_3 = conv_norm(96, 96, 3)
        self.branch_pool = _mean_pool()
        self.branch_pool_conv = conv_norm(channels, pooled, 1)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        result: Tensor = _joined(
            self.branch1x1(x),
            self.branch5x5_2(self.branch5x5_1(x)),
            self.branch3x3dbl_3(double),
            self.branch_pool_conv(self.branch_pool(x)),
        )
        return result


class _InceptionB(Layer):
    """Halves the image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch3x3 = conv_norm(channels, 384, 3, 2, 0)
        self.branch3x3dbl_1 = conv_norm(channels, 64, 1)
        self.branch3x3dbl_2 = conv_norm(64, 96, 3)
        self.branch3x3dbl_3 = conv_norm(96, 96, 3, 2, 0)
        self.branch_pool = MaxPool2D(3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        result: Tensor = _joined(
            self.branch3x3(x), self.branch3x3dbl_3(double), self.branch_pool(x)
        )
        return result


class _InceptionC(Layer):
    """7 x 7 filters as rows and columns."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.branch1x1 = conv_norm(channels, 192, 1)
        self.branch7x7_1 = conv_norm(channels, width, 1)
        self.branch7x7_2 = conv_norm(width, width, _ROW, 1, _ACROSS)
        self.branch7x7_3 = conv_norm(width, 192, _COLUMN, 1, _DOWN)
        self.branch7x7dbl_1 = conv_norm(channels, width, 1)
        self.branch7x7dbl_2 = conv_norm(width, width, _COLUMN, 1, _DOWN)
        self.branch7x7dbl_3 = conv_norm(width, width, _ROW, 1, _ACROSS)
        self.branch7x7dbl_4 = conv_norm(width, width, _COLUMN, 1, _DOWN)
        self.branch7x7dbl_5 = conv_norm(width, 192, _ROW, 1, _ACROSS)
        self.branch_pool = _mean_pool()
        self.branch_pool_conv = conv_norm(channels, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        result: Tensor = _joined(
            self.branch1x1(x),
            self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x))),
            self.branch7x7dbl_5(self.branch7x7dbl_4(double)),
            self.branch_pool_conv(self.branch_pool(x)),
        )
        return result


class _InceptionD(Layer):
    """Halves the image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch3x3_1 = conv_norm(channels, 192, 1)
        self.branch3x3_2 = conv_norm(192, 320, 3, 2, 0)
        self.branch7x7x3_1 = conv_norm(channels, 192, 1)
        self.branch7x7x3_2 = conv_norm(192, 192, _ROW, 1, _ACROSS)
        self.branch7x7x3_3 = conv_norm(192, 192, _COLUMN, 1, _DOWN)
        self.branch7x7x3_4 = conv_norm(192, 192, 3, 2, 0)
        self.branch_pool = MaxPool2D(3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        seven = self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x)))
        result: Tensor = _joined(
            self.branch3x3_2(self.branch3x3_1(x)),
            self.branch7x7x3_4(seven),
            self.branch_pool(x),
        )
        return result


class _InceptionE(Layer):
    """3 x 3 filters as rows and columns side by side."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        row, column = (1, 3), (3, 1)
        across, down = (0, 1), (1, 0)
        self.branch1x1 = conv_norm(channels, 320, 1)
        self.branch3x3_1 = conv_norm(channels, 384, 1)
        self.branch3x3_2a = conv_norm(384, 384, row, 1, across)
        self.branch3x3_2b = conv_norm(384, 384, column, 1, down)
        self.branch3x3dbl_1 = conv_norm(channels, 448, 1)
        self.branch3x3dbl_2 = conv_norm(448, 384, 3)
        self.branch3x3dbl_3a = conv_norm(384, 384, row, 1, across)
        self.branch3x3dbl_3b = conv_norm(384, 384, column, 1, down)
        self.branch_pool = _mean_pool()
        self.branch_pool_conv = conv_norm(channels, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3_1(x)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        result: Tensor = _joined(
            self.branch1x1(x),
            self.branch3x3_2a(three),
            self.branch3x3_2b(three),
            self.branch3x3dbl_3a(double),
            self.branch3x3dbl_3b(double),
            self.branch_pool_conv(self.branch_pool(x)),
        )
        return result


class InceptionV3(Layer):
    """Inception V3.

    Args:
        num_classes: Scores given; 0 leaves the last layer out.
        with_pool: Whether to average over the image.

    Shape:
        x: (N, 3, H, W), usually 299 x 299. Returns (N, num_classes).
    """

    def __init__(self, num_classes: int = 1000, with_pool: bool = True) -> None:
        super().__init__()
        self.num_classes, self.with_pool = num_classes, with_pool
        self.inception_stem = _Stem()
        self.inception_block_list = LayerList(
            [
                *(_InceptionA(c, pooled) for c, pooled in ((192, 32), (256, 64))),
                _InceptionA(288, 64),
                _InceptionB(288),
                *(_InceptionC(768, width) for width in (128, 160, 160, 192)),
                _InceptionD(768),
                _InceptionE(1280),
                _InceptionE(2048),
            ]
        )
        if with_pool:
            self.avg_pool = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.dropout = Dropout(0.2, mode="downscale_in_infer")
            self.fc = Linear(2048, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inception_stem(x)
        for block in self.inception_block_list:
            x = block(x)
        if self.with_pool:
            x = self.avg_pool(x)
        if self.num_classes > 0:
            x = ops.flatten(x, start_axis=1, stop_axis=-1)
            x = self.fc(self.dropout(x))
        return x


def inception_v3(pretrained: bool | PathLike = False, **kwargs: Any) -> InceptionV3:
    """Inception V3; ``kwargs`` go to :class:`InceptionV3`."""
    return with_weights(InceptionV3(**kwargs), pretrained, "inception_v3")
