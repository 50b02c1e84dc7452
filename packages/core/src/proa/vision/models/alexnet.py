"""AlexNet (Krizhevsky et al., 2012), in the single-tower form of 2014."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.nn import Conv2D, Dropout, Layer, Linear, MaxPool2D
from proa.nn.functional import relu
from proa.vision.models.weights import with_weights

if TYPE_CHECKING:
    from proa.base.files import PathLike


class _ConvPool(Layer):
    """Convolution, ReLU, 3 x 3 maximum at stride 2."""

    def __init__(
        self, channels: int, out: int, size: int, stride: int, padding: int
    ) -> None:
        super().__init__()
        self._conv = Conv2D(channels, out, size, stride, padding)
        self._pool = MaxPool2D(3, stride=2, padding=0)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self._pool(relu(self._conv(x)))
        return result


class AlexNet(Layer):
    """Five convolutions and three linear layers.

    Shape:
        inputs: (N, 3, 224, 224). Returns (N, num_classes), or the features
        (N, 256, 6, 6) if num_classes is 0.
    """

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.num_classes = num_classes
        self._conv1 = _ConvPool(3, 64, 11, 4, 2)
        self._conv2 = _ConvPool(64, 192, 5, 1, 2)
        self._conv3 = Conv2D(192, 384, 3, padding=1)
        self._conv4 = Conv2D(384, 256, 3, padding=1)
        self._conv5 = _ConvPool(256, 256, 3, 1, 1)
        if num_classes > 0:
            self._drop1 = Dropout(0.5, mode="downscale_in_infer")
            self._fc6 = Linear(256 * 6 * 6, 4096)
            self._drop2 = Dropout(0.5, mode="downscale_in_infer")
            self._fc7 = Linear(4096, 4096)
            self._fc8 = Linear(4096, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self._conv2(self._conv1(inputs))
        x = self._conv5(relu(self._conv4(relu(self._conv3(x)))))
        if self.num_classes > 0:
            x = ops.flatten(x, start_axis=1, stop_axis=-1)
            x = relu(self._fc6(self._drop1(x)))
            x = self._fc8(relu(self._fc7(self._drop2(x))))
        result: Tensor = x
        return result


def alexnet(pretrained: bool | PathLike = False, **kwargs: Any) -> AlexNet:
    """AlexNet; ``kwargs`` go to :class:`AlexNet`."""
    return with_weights(AlexNet(**kwargs), pretrained, "alexnet")
