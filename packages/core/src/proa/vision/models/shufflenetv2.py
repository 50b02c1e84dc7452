"""ShuffleNetV2 (Ma et al., 2018): half of the channels pass, then both halves mix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn import AdaptiveAvgPool2D, Layer, Linear, MaxPool2D, ReLU, Swish
from proa.tensor.manipulation import stack
from proa.vision.models.blocks import conv_norm
from proa.vision.models.weights import with_weights

if TYPE_CHECKING:
    from proa.base.files import PathLike

# Scale -> channels of the three stages and of the last convolution.
_WIDTHS = {
    0.25: (24, 48, 96, 512),
    0.33: (32, 64, 128, 512),
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (224, 488, 976, 2048),
}
_REPEATS = (4, 8, 4)
_FIRST = 24


def _shuffled(left: Any, right: Any) -> Any:
    """Channels of both in turn: l0, r0, l1, r1, …"""
    return ops.flatten(stack([left, right], axis=2), start_axis=1, stop_axis=2)


class _Block(Layer):
    """Half of the channels pass, the other half is convolved."""

    def __init__(self, channels: int, activation: type[Layer]) -> None:
        super().__init__()
        self.half = half = channels // 2
        self._conv_pw = conv_norm(half, half, 1, activation=activation)
        self._conv_dw = conv_norm(half, half, 3, groups=half, activation=None)
        self._conv_linear = conv_norm(half, half, 1, activation=activation)

    def forward(self, x: Tensor) -> Tensor:
        right = self._conv_linear(self._conv_dw(self._conv_pw(x[:, self.half :])))
        result: Tensor = _shuffled(x[:, : self.half], right)
        return result


class _HalvingBlock(Layer):
    """Both paths see all channels; the image is halved."""

    def __init__(self, channels: int, out: int, activation: type[Layer]) -> None:
        super().__init__()
        half = out // 2
        self._conv_dw_1 = conv_norm(
            channels, channels, 3, 2, groups=channels, activation=None
        )
        self._conv_linear_1 = conv_norm(channels, half, 1, activation=activation)
        self._conv_pw_2 = conv_norm(channels, half, 1, activation=activation)
        self._conv_dw_2 = conv_norm(half, half, 3, 2, groups=half, activation=None)
        self._conv_linear_2 = conv_norm(half, half, 1, activation=activation)

    def forward(self, x: Tensor) -> Tensor:
        left = self._conv_linear_1(self._conv_dw_1(x))
        right = self._conv_linear_2(self._conv_dw_2(self._conv_pw_2(x)))
        result: Tensor = _shuffled(left, right)
        return result


class ShuffleNetV2(Layer):
    """ShuffleNetV2.

    Args:
        scale: 0.25, 0.33, 0.5, 1.0, 1.5 or 2.0.
        act: "relu" or "swish".
        num_classes: Scores given; 0 leaves the last layer out.
        with_pool: Whether to average over the image.

    Shape:
        inputs: (N, 3, H, W). Returns (N, num_classes).
    """

    def __init__(
        self,
        scale: float = 1.0,
        act: str = "relu",
        num_classes: int = 1000,
        with_pool: bool = True,
    ) -> None:
        super().__init__()
        activations: dict[str, type[Layer]] = {"relu": ReLU, "swish": Swish}
        if scale not in _WIDTHS or act not in activations:
            raise InvalidArgumentError(
                f"[ShuffleNetV2] scale must be one of {list(_WIDTHS)} and act relu or "
                f"swish, got {scale} and {act!r}"
            )
        activation = activations[act]
        self.scale, self.num_classes, self.with_pool = scale, num_classes, with_pool
        *widths, last = _WIDTHS[scale]
        self._conv1 = conv_norm(3, _FIRST, 3, 2, activation=activation)
        self._max_pool = MaxPool2D(3, stride=2, padding=1)
        self._names: list[str] = []
        channels = _FIRST
        for stage, (out, count) in enumerate(zip(widths, _REPEATS, strict=True), 2):
            for i in range(count):
                self._names.append(f"{stage}_{i + 1}")
                block = (
                    _HalvingBlock(channels, out, activation)
                    if i == 0
                    else _Block(out, activation)
                )
                self.add_sublayer(self._names[-1], block)
            channels = out
        self._last_conv = conv_norm(channels, last, 1, activation=activation)
        if with_pool:
            self._pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self._fc = Linear(last, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self._max_pool(self._conv1(inputs))
        for name in self._names:
            x = getattr(self, name)(x)
        x = self._last_conv(x)
        if self.with_pool:
            x = self._pool2d_avg(x)
        if self.num_classes > 0:
            x = self._fc(ops.flatten(x, start_axis=1, stop_axis=-1))
        result: Tensor = x
        return result


def shufflenet_v2_x0_25(
    pretrained: bool | PathLike = False, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 0.25."""
    network = ShuffleNetV2(0.25, **kwargs)
    return with_weights(network, pretrained, "shufflenet_v2_x0_25")


def shufflenet_v2_x0_33(
    pretrained: bool | PathLike = False, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 0.33."""
    network = ShuffleNetV2(0.33, **kwargs)
    return with_weights(network, pretrained, "shufflenet_v2_x0_33")


def shufflenet_v2_x0_5(
    pretrained: bool | PathLike = False, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 0.5."""
    return with_weights(ShuffleNetV2(0.5, **kwargs), pretrained, "shufflenet_v2_x0_5")


def shufflenet_v2_x1_0(
    pretrained: bool | PathLike = False, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 1."""
    return with_weights(ShuffleNetV2(1.0, **kwargs), pretrained, "shufflenet_v2_x1_0")


def shufflenet_v2_x1_5(
    pretrained: bool | PathLike = False, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 1.5."""
    return with_weights(ShuffleNetV2(1.5, **kwargs), pretrained, "shufflenet_v2_x1_5")


def shufflenet_v2_x2_0(
    pretrained: bool | PathLike = False, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 2."""
    return with_weights(ShuffleNetV2(2.0, **kwargs), pretrained, "shufflenet_v2_x2_0")


def shufflenet_v2_swish(
    pretrained: bool | PathLike = False, **kwargs: Any
) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 1 with swish."""
    network = ShuffleNetV2(1.0, "swish", **kwargs)
    return with_weights(network, pretrained, "shufflenet_v2_swish")
