"""SqueezeNet (Iandola et al., 2016): AlexNet's accuracy with 50 times fewer weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn import AdaptiveAvgPool2D, Conv2D, Dropout, Layer, MaxPool2D
from proa.nn.functional import relu
from proa.tensor.manipulation import concat
from proa.vision.models.weights import with_weights

if TYPE_CHECKING:
    from proa.base.files import PathLike

# Squeezed and expanded channels (of each of the two paths) of the eight fire modules.
_FIRES = [(16, 64), (16, 64), (32, 128), (32, 128),
          (48, 192), (48, 192), (64, 256), (64, 256)]  # fmt: skip
# Fire modules before which the image is halved.
_HALVED = {"1.0": (1, 4, 8), "1.1": (1, 3, 5)}


class _ConvRelu(Layer):
    def __init__(self, channels: int, out: int, size: int, padding: int = 0) -> None:
        super().__init__()
        self._conv = Conv2D(channels, out, size, padding=padding)

    def forward(self, x: Tensor) -> Tensor:
        return relu(self._conv(x))


class _Fire(Layer):
    """A 1 x 1 convolution to few channels, then 1 x 1 and 3 x 3 ones side by side."""

    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self._conv = _ConvRelu(channels, squeezed, 1)
        self._conv_path1 = _ConvRelu(squeezed, expanded, 1)
        self._conv_path2 = _ConvRelu(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self._conv(x)
        return concat([self._conv_path1(x), self._conv_path2(x)], axis=1)


class SqueezeNet(Layer):
    """A convolution, eight fire modules, a convolution to the classes and a mean.

    Args:
        version: "1.0" or "1.1" (smaller first filter, earlier pooling).
        num_classes: Scores given; 0 leaves the last convolution out.
        with_pool: Whether to average over the image.

    Shape:
        inputs: (N, 3, H, W). Returns (N, num_classes).
    """

    def __init__(
        self, version: str, num_classes: int = 1000, with_pool: bool = True
    ) -> None:
        super().__init__()
        if version not in _HALVED:
            raise InvalidArgumentError(
                f"[SqueezeNet] version must be '1.0' or '1.1', got {version!r}"
            )
        self.version, self.num_classes, self.with_pool = version, num_classes, with_pool
        first = 96 if version == "1.0" else 64
        if version == "1.0":
            self._conv = Conv2D(3, first, 7, stride=2)
        else:
            self._conv = Conv2D(3, first, 3, stride=2, padding=1)
        self._pool = MaxPool2D(3, stride=2)
        channels = first
        for i, (squeezed, expanded) in enumerate(_FIRES, 1):
            self.add_sublayer(f"_conv{i}", _Fire(channels, squeezed, expanded))
            channels = 2 * expanded
        self._drop = Dropout(0.5, mode="downscale_in_infer")
        self._conv9 = Conv2D(512, num_classes, 1) if num_classes > 0 else None
        self._avg_pool = AdaptiveAvgPool2D(1)

    def forward(self, inputs: Tensor) -> Tensor:
        x = relu(self._conv(inputs))
        for i in range(1, len(_FIRES) + 1):
            if i in _HALVED[self.version]:
                x = self._pool(x)
            x = getattr(self, f"_conv{i}")(x)
        if self._conv9 is not None:
            x = self._conv9(self._drop(x))
        if self.with_pool:
            x = ops.squeeze(self._avg_pool(relu(x)), axis=[2, 3])
        return x


def squeezenet1_0(pretrained: bool | PathLike = False, **kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.0; ``kwargs`` go to :class:`SqueezeNet`."""
    return with_weights(SqueezeNet("1.0", **kwargs), pretrained, "squeezenet1_0")


def squeezenet1_1(pretrained: bool | PathLike = False, **kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.1; ``kwargs`` go to :class:`SqueezeNet`."""
    return with_weights(SqueezeNet("1.1", **kwargs), pretrained, "squeezenet1_1")
