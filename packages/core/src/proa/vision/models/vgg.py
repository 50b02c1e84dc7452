"""VGG: deep stacks of 3 x 3 convolutions (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from typing import Any

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

# Channels of each convolution; 0 halves the image.
_PLANS = {
    11: [64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0],
    13: [64, 64, 0, 128, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0],
    16: [64, 64, 0, 128, 128, 0, *[256] * 3, 0, *[512] * 3, 0, *[512] * 3, 0],
    19: [64, 64, 0, 128, 128, 0, *[256] * 4, 0, *[512] * 4, 0, *[512] * 4, 0],
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

    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.classifier(ops.flatten(x, start_axis=1, stop_axis=-1))
        return x


def _features(plan: list[int], batch_norm: bool) -> Sequential:
    layers: list[Layer] = []
    channels = 3
    for out in plan:
        if out == 0:
            layers.append(MaxPool2D(2, 2))
            continue
        layers.append(Conv2D(channels, out, 3, padding=1))
        if batch_norm:
            layers.append(BatchNorm2D(out))
        layers.append(ReLU())
        channels = out
    return Sequential(*layers)


def _vgg(depth: int, pretrained: Any, batch_norm: bool, settings: Any) -> VGG:
    network = VGG(_features(_PLANS[depth], batch_norm), **settings)
    return with_weights(network, pretrained, f"vgg{depth}")


def vgg11(pretrained: Any = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 11 layers; ``kwargs`` go to :class:`VGG`."""
    return _vgg(11, pretrained, batch_norm, kwargs)


def vgg13(pretrained: Any = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 13 layers; ``kwargs`` go to :class:`VGG`."""
    return _vgg(13, pretrained, batch_norm, kwargs)


def vgg16(pretrained: Any = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 16 layers; ``kwargs`` go to :class:`VGG`."""
    return _vgg(16, pretrained, batch_norm, kwargs)


def vgg19(pretrained: Any = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 19 layers; ``kwargs`` go to :class:`VGG`."""
    return _vgg(19, pretrained, batch_norm, kwargs)
