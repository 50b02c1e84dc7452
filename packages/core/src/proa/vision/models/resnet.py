"""Residual networks (He et al., 2015)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn import (
    AdaptiveAvgPool2D,
    BatchNorm2D,
    Conv2D,
    Layer,
    Linear,
    MaxPool2D,
    ReLU,
    Sequential,
)
from proa.vision.models.weights import with_weights

if TYPE_CHECKING:
    from proa.base.files import PathLike


def _conv(
    channels: int, out: int, size: int, stride: int = 1, groups: int = 1, step: int = 1
) -> Conv2D:
    return Conv2D(
        channels, out, size, stride, padding=size // 2 * step, dilation=step,
        groups=groups, bias_attr=False,
    )  # fmt: skip


class BasicBlock(Layer):
    """Two 3 x 3 convolutions and a shortcut."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[[int], Layer] | None = None,
    ) -> None:
        super().__init__()
        if (groups, base_width, dilation) != (1, 64, 1):
            raise InvalidArgumentError(
                "[BasicBlock] groups, base_width and dilation must be 1, 64 and 1, "
                f"got {groups}, {base_width} and {dilation}"
            )
        norm = norm_layer or BatchNorm2D
        self.conv1 = _conv(inplanes, planes, 3, stride)
        self.bn1 = norm(planes)
        self.relu = ReLU()
        self.conv2 = _conv(planes, planes, 3)
        self.bn2 = norm(planes)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        shortcut = x if self.downsample is None else self.downsample(x)
        result: Tensor = self.relu(out + shortcut)
        return result


class BottleneckBlock(Layer):
    """1 x 1, 3 x 3 and 1 x 1 convolutions and a shortcut."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[[int], Layer] | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or BatchNorm2D
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = _conv(inplanes, width, 1)
        self.bn1 = norm(width)
        self.conv2 = _conv(width, width, 3, stride, groups, dilation)
        self.bn2 = norm(width)
        self.conv3 = _conv(width, planes * self.expansion, 1)
        self.bn3 = norm(planes * self.expansion)
        self.relu = ReLU()
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        shortcut = x if self.downsample is None else self.downsample(x)
        result: Tensor = self.relu(out + shortcut)
        return result


_DEPTHS = {
    18: [2, 2, 2, 2],
    34: [3, 4, 6, 3],
    50: [3, 4, 6, 3],
    101: [3, 4, 23, 3],
    152: [3, 8, 36, 3],
}


class ResNet(Layer):
    """A residual network.

    Args:
        block: BasicBlock or BottleneckBlock.
        depth: 18, 34, 50, 101 or 152.
        width: Channels of a group in the first stage.
        num_classes: Scores given; 0 leaves the last layer out.
        with_pool: Whether to average over the image.
        groups: Groups of the 3 x 3 convolutions.

    Shape:
        inputs: (N, 3, H, W), H and W at least 32 or so. Returns (N, num_classes).
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[BottleneckBlock],
        depth: int = 50,
        width: int = 64,
        num_classes: int = 1000,
        with_pool: bool = True,
        groups: int = 1,
    ) -> None:
        super().__init__()
        if depth not in _DEPTHS:
            raise InvalidArgumentError(
                f"[ResNet] depth must be one of {list(_DEPTHS)}, got {depth}"
            )
        self.groups, self.base_width = groups, width
        self.num_classes, self.with_pool = num_classes, with_pool
        self.inplanes = 64
        self.conv1 = Conv2D(3, 64, 7, stride=2, padding=3, bias_attr=False)
        self.bn1 = BatchNorm2D(64)
        self.relu = ReLU()
        self.maxpool = MaxPool2D(3, stride=2, padding=1)
        stages = [
            self._make_layer(block, 64 * 2**i, count, 1 if i == 0 else 2)
            for i, count in enumerate(_DEPTHS[depth])
        ]
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = Linear(512 * block.expansion, num_classes)

    # Networks that derive from this one call it by this name.
    def _make_layer(
        self,
        block: type[BasicBlock] | type[BottleneckBlock],
        planes: int,
        blocks: int,
        stride: int = 1,
    ) -> Sequential:
        out = planes * block.expansion
        shortcut = None
        if stride != 1 or self.inplanes != out:
            shortcut = Sequential(
                _conv(self.inplanes, out, 1, stride), BatchNorm2D(out)
            )
        first = block(
            self.inplanes, planes, stride, shortcut, self.groups, self.base_width
        )
        self.inplanes = out
        more = [
            block(out, planes, groups=self.groups, base_width=self.base_width)
            for _ in range(blocks - 1)
        ]
        return Sequential(first, *more)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.fc(ops.flatten(x, start_axis=1, stop_axis=-1))
        return x


def _resnet(
    name: str, block: Any, depth: int, pretrained: Any, settings: Any
) -> ResNet:
    return with_weights(ResNet(block, depth, **settings), pretrained, name)


def resnet18(pretrained: bool | PathLike = False, **kwargs: float | str) -> ResNet:
    """ResNet of 18 layers; ``kwargs`` go to :class:`ResNet`."""
    return _resnet("resnet18", BasicBlock, 18, pretrained, kwargs)


def resnet34(pretrained: bool | PathLike = False, **kwargs: float | str) -> ResNet:
    """ResNet of 34 layers; ``kwargs`` go to :class:`ResNet`."""
    return _resnet("resnet34", BasicBlock, 34, pretrained, kwargs)


def resnet50(pretrained: bool | PathLike = False, **kwargs: float | str) -> ResNet:
    """ResNet of 50 layers; ``kwargs`` go to :class:`ResNet`."""
    return _resnet("resnet50", BottleneckBlock, 50, pretrained, kwargs)


def resnet101(pretrained: bool | PathLike = False, **kwargs: float | str) -> ResNet:
    """ResNet of 101 layers; ``kwargs`` go to :class:`ResNet`."""
    return _resnet("resnet101", BottleneckBlock, 101, pretrained, kwargs)


def resnet152(pretrained: bool | PathLike = False, **kwargs: float | str) -> ResNet:
    """ResNet of 152 layers; ``kwargs`` go to :class:`ResNet`."""
    return _resnet("resnet152", BottleneckBlock, 152, pretrained, kwargs)


def _wider(
    name: str, depth: int, groups: int, width: int, pretrained: Any, settings: Any
) -> ResNet:
    """A ResNet whose 3 x 3 convolutions have these groups of this width."""
    settings = {**settings, "groups": groups, "width": width}
    return _resnet(name, BottleneckBlock, depth, pretrained, settings)


def resnext50_32x4d(
    pretrained: bool | PathLike = False, **kwargs: float | str
) -> ResNet:
    """ResNeXt (Xie et al., 2016) of 50 layers, 32 groups of width 4."""
    return _wider("resnext50_32x4d", 50, 32, 4, pretrained, kwargs)


def resnext50_64x4d(
    pretrained: bool | PathLike = False, **kwargs: float | str
) -> ResNet:
    """ResNeXt (Xie et al., 2016) of 50 layers, 64 groups of width 4."""
    return _wider("resnext50_64x4d", 50, 64, 4, pretrained, kwargs)


def resnext101_32x4d(
    pretrained: bool | PathLike = False, **kwargs: float | str
) -> ResNet:
    """ResNeXt (Xie et al., 2016) of 101 layers, 32 groups of width 4."""
    return _wider("resnext101_32x4d", 101, 32, 4, pretrained, kwargs)


def resnext101_64x4d(
    pretrained: bool | PathLike = False, **kwargs: float | str
) -> ResNet:
    """ResNeXt (Xie et al., 2016) of 101 layers, 64 groups of width 4."""
    return _wider("resnext101_64x4d", 101, 64, 4, pretrained, kwargs)


def resnext152_32x4d(
    pretrained: bool | PathLike = False, **kwargs: float | str
) -> ResNet:
    """ResNeXt (Xie et al., 2016) of 152 layers, 32 groups of width 4."""
    return _wider("resnext152_32x4d", 152, 32, 4, pretrained, kwargs)


def resnext152_64x4d(
    pretrained: bool | PathLike = False, **kwargs: float | str
) -> ResNet:
    """ResNeXt (Xie et al., 2016) of 152 layers, 64 groups of width 4."""
    return _wider("resnext152_64x4d", 152, 64, 4, pretrained, kwargs)


def wide_resnet50_2(
    pretrained: bool | PathLike = False, **kwargs: float | str
) -> ResNet:
    """Wide ResNet (Zagoruyko, 2016) of 50 layers, twice as wide inside."""
    return _wider("wide_resnet50_2", 50, 1, 128, pretrained, kwargs)


def wide_resnet101_2(
    pretrained: bool | PathLike = False, **kwargs: float | str
) -> ResNet:
    """Wide ResNet (Zagoruyko, 2016) of 101 layers, twice as wide inside."""
    return _wider("wide_resnet101_2", 101, 1, 128, pretrained, kwargs)
