"""VGG: deep stacks of 3 x 3 convolutions (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.nn import (
    AdaptiveAvgPool2D,
    BatchNorm2D,
    Conv2D,
    Dropout,
    Layer,
    Linear,
    MaxPool2D,
    ReLU,
    Sequential,
)
from proa.vision.models.weights import with_weights

if TYPE_CHECKING:
    from proa.base.files import PathLike

# How many convolutions there are before each halving of the image.
_COUNTS = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}


class VGG(Layer):
    """Given features, then three linear layers.

    Args:
        features: The convolutional part, with 512 channels at its end.
        num_classes: Scores given; 0 leaves the linear layers out.
        with_pool: Whether to average to 7 x 7 first.

    Shape:
        x: (N, 3, H, W). Returns (N, num_classes).
    """

    def __init__(
        self, features: Layer, num_classes: int = 1000, with_pool: bool = True
    ) -> None:
        super().__init__()
        self.features = features
        self.num_classes, self.with_pool = num_classes, with_pool
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = Sequential(
                Linear(512 * 7 * 7, 4096),
                ReLU(),
                Dropout(),
                Linear(4096, 4096),
                ReLU(),
                Dropout(),
                Linear(4096, num_classes),
            )

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.classifier(ops.flatten(x, start_axis=1, stop_axis=-1))
        return x


def make_layers(cfg: Sequence[int | str], batch_norm: bool = False) -> Sequential:
    """The convolutions of a `VGG`: 3 × 3 to so many channels each, or pooling ("M")."""
    layers: list[Layer] = []
    channels = 3
    for out in cfg:
        if not isinstance(out, int):
            layers.append(MaxPool2D(2, 2))
            continue
        layers.append(Conv2D(channels, out, 3, padding=1))
        if batch_norm:
            layers.append(BatchNorm2D(out))
        layers.append(ReLU())
        channels = out
    return Sequential(*layers)


def _vgg(depth: int, pretrained: Any, batch_norm: bool, settings: Any) -> VGG:
    plan: list[int | str] = []
    for channels, count in zip((64, 128, 256, 512, 512), _COUNTS[depth], strict=True):
        plan += [*[channels] * count, "M"]
    network = VGG(make_layers(plan, batch_norm), **settings)
    return with_weights(network, pretrained, f"vgg{depth}")


def vgg11(
    pretrained: bool | PathLike = False, batch_norm: bool = False, **kwargs: Any
) -> VGG:
    """VGG of 11 layers; ``kwargs`` go to :class:`VGG`."""
    return _vgg(11, pretrained, batch_norm, kwargs)


def vgg13(
    pretrained: bool | PathLike = False, batch_norm: bool = False, **kwargs: Any
) -> VGG:
    """VGG of 13 layers; ``kwargs`` go to :class:`VGG`."""
    return _vgg(13, pretrained, batch_norm, kwargs)


def vgg16(
    pretrained: bool | PathLike = False, batch_norm: bool = False, **kwargs: Any
) -> VGG:
    """VGG of 16 layers; ``kwargs`` go to :class:`VGG`."""
    return _vgg(16, pretrained, batch_norm, kwargs)


def vgg19(
    pretrained: bool | PathLike = False, batch_norm: bool = False, **kwargs: Any
) -> VGG:
    """VGG of 19 layers; ``kwargs`` go to :class:`VGG`."""
    return _vgg(19, pretrained, batch_norm, kwargs)
