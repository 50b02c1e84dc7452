"""DenseNet (Huang et al., 2016): each layer sees the outputs of all before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn import (
    AdaptiveAvgPool2D,
    AvgPool2D,
    BatchNorm2D,
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

# Layers -> channels of the first convolution, channels a layer adds, layers a block.
_PLANS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
    264: (64, 32, (6, 12, 64, 48)),
}


class _NormConv(Layer):
    """Batch normalisation, ReLU, convolution."""

    def __init__(self, channels: int, out: int, size: int) -> None:
        super().__init__()
        self._batch_norm = BatchNorm2D(channels)
        self._conv = Conv2D(channels, out, size, padding=size // 2, bias_attr=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self._conv(relu(self._batch_norm(x)))
        return result


class _First(Layer):
    """Convolution, batch normalisation, ReLU."""

    def __init__(self, out: int) -> None:
        super().__init__()
        self._conv = Conv2D(3, out, 7, stride=2, padding=3, bias_attr=False)
        self._batch_norm = BatchNorm2D(out)

    def forward(self, x: Tensor) -> Tensor:
        return relu(self._batch_norm(self._conv(x)))


class _Dense(Layer):
    def __init__(self, channels: int, growth: int, size: int, dropout: float) -> None:
        super().__init__()
        self.bn_ac_func1 = _NormConv(channels, size * growth, 1)
        self.bn_ac_func2 = _NormConv(size * growth, growth, 3)
        self.dropout_func = (
            Dropout(dropout, mode="downscale_in_infer") if dropout else None
        )

    def forward(self, x: Tensor) -> Tensor:
        new = self.bn_ac_func2(self.bn_ac_func1(x))
        if self.dropout_func is not None:
            new = self.dropout_func(new)
        return concat([x, new], axis=1)


class _Block(Layer):
    def __init__(
        self,
        number: int,
        count: int,
        channels: int,
        growth: int,
        size: int,
        drop: float,
    ) -> None:
        super().__init__()
        for i in range(count):
            layer = _Dense(channels + i * growth, growth, size, drop)
            self.add_sublayer(f"conv{number}_{i + 1}", layer)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.children():
            x = layer(x)
        return x


class _Transition(Layer):
    """Half of the channels, half of the image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv_ac_func = _NormConv(channels, channels // 2, 1)
        self.pool2d_avg = AvgPool2D(2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.pool2d_avg(self.conv_ac_func(x))
        return result


class DenseNet(Layer):
    """DenseNet.

    Args:
        layers: 121, 161, 169, 201 or 264.
        bn_size: Channels of a layer's 1 x 1 convolution, as multiple of those it adds.
        dropout: Share of a layer's outputs that training drops.
        num_classes: Scores given; 0 leaves the last layer out.
        with_pool: Whether to average over the image.

    Shape:
        input: (N, 3, H, W). Returns (N, num_classes).
    """

    def __init__(
        self,
        layers: int = 121,
        bn_size: int = 4,
        dropout: float = 0.0,
        num_classes: int = 1000,
        with_pool: bool = True,
    ) -> None:
        super().__init__()
        if layers not in _PLANS:
            raise InvalidArgumentError(
                f"[DenseNet] layers must be one of {list(_PLANS)}, got {layers}"
            )
        self.num_classes, self.with_pool = num_classes, with_pool
        channels, growth, counts = _PLANS[layers]
        self.conv1_func = _First(channels)
        self.pool2d_max = MaxPool2D(3, stride=2, padding=1)
        self._names: list[str] = []
        for number, count in enumerate(counts, 2):
            block = _Block(number, count, channels, growth, bn_size, dropout)
            self._add(f"db_conv_{number}", block)
            channels += count * growth
            if number < len(counts) + 1:
                self._add(f"tr_conv{number}_blk", _Transition(channels))
                channels //= 2
        self.batch_norm = BatchNorm2D(channels)
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.out = Linear(channels, num_classes)

    def _add(self, name: str, layer: Layer) -> None:
        self._names.append(name)
        self.add_sublayer(name, layer)

    def forward(self, input: Tensor) -> Tensor:
        x = self.pool2d_max(self.conv1_func(input))
        for name in self._names:
            x = getattr(self, name)(x)
        x = relu(self.batch_norm(x))
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = self.out(ops.flatten(x, start_axis=1, stop_axis=-1))
        result: Tensor = x
        return result


def _densenet(layers: int, pretrained: Any, settings: Any) -> DenseNet:
    network = DenseNet(layers, **settings)
    return with_weights(network, pretrained, f"densenet{layers}")


def densenet121(pretrained: bool | PathLike = False, **kwargs: float | str) -> DenseNet:
    """DenseNet of 121 layers; ``kwargs`` go to :class:`DenseNet`."""
    return _densenet(121, pretrained, kwargs)


def densenet161(pretrained: bool | PathLike = False, **kwargs: float | str) -> DenseNet:
    """DenseNet of 161 layers; ``kwargs`` go to :class:`DenseNet`."""
    return _densenet(161, pretrained, kwargs)


def densenet169(pretrained: bool | PathLike = False, **kwargs: float | str) -> DenseNet:
    """DenseNet of 169 layers; ``kwargs`` go to :class:`DenseNet`."""
    return _densenet(169, pretrained, kwargs)


def densenet201(pretrained: bool | PathLike = False, **kwargs: float | str) -> DenseNet:
    """DenseNet of 201 layers; ``kwargs`` go to :class:`DenseNet`."""
    return _densenet(201, pretrained, kwargs)


def densenet264(pretrained: bool | PathLike = False, **kwargs: float | str) -> DenseNet:
    """DenseNet of 264 layers; ``kwargs`` go to :class:`DenseNet`."""
    return _densenet(264, pretrained, kwargs)
