"""Activation layers: each calls the function of its name in `proa.nn.functional`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.layer.base import Layer
from proa.nn.schemes import Constant

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish",
    "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Maxout", "Mish", "PReLU",
    "RReLU", "ReLU", "ReLU6", "SELU", "Sigmoid", "Silu", "Softmax", "Softplus",
    "Softshrink", "Softsign", "Swish", "Tanh", "Tanhshrink", "ThresholdedReLU",
]  # fmt: skip


class _Activation(Layer):
    """A function of one tensor and of settings, which the layer keeps."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._settings = settings
        for name, value in settings.items():
            setattr(self, f"_{name}", value)

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in self._settings.items())


class ReLU(_Activation):
    """max(x, 0)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x)


class ReLU6(_Activation):
    """min(max(x, 0), 6)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu6(x)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.sigmoid(x)


class LogSigmoid(_Activation):
    """log(sigmoid(x))."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.log_sigmoid(x)


class Tanh(_Activation):
    """tanh(x)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.tanh(x)


class Tanhshrink(_Activation):
    """x - tanh(x)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.tanhshrink(x)


class Silu(_Activation):
    """x * sigmoid(x)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(x)


class Swish(Silu):
    """x * sigmoid(x)."""


class Mish(_Activation):
    """x * tanh(softplus(x))."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.mish(x)


class Softsign(_Activation):
    """x / (1 + |x|)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.softsign(x)


class Hardswish(_Activation):
    """x * min(max(x + 3, 0), 6) / 6."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.hardswish(x)


class Hardsigmoid(_Activation):
    """min(max(x / 6 + 0.5, 0), 1)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.hardsigmoid(x)


class GELU(_Activation):
    """x * Phi(x)."""

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__(approximate=approximate)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, self._approximate)


class ELU(_Activation):
    """x if x > 0 else alpha * (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(alpha=alpha)

    def forward(self, x: Tensor) -> Tensor:
        return F.elu(x, alpha=self._alpha)


class CELU(_Activation):
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""

    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__(alpha=alpha)

    def forward(self, x: Tensor) -> Tensor:
        return F.celu(x, self._alpha)


class SELU(_Activation):
    """scale * elu(x, alpha)."""

    def __init__(
        self,
        scale: float = 1.0507009873554804934193349852946,
        alpha: float = 1.6732632423543772848170429916717,
        name: str | None = None,
    ) -> None:
        super().__init__(scale=scale, alpha=alpha)

    def forward(self, x: Tensor) -> Tensor:
        return F.selu(x, self._scale, self._alpha)


class LeakyReLU(_Activation):
    """x if x > 0 else negative_slope * x."""

    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None:
        super().__init__(negative_slope=negative_slope)

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, negative_slope=self._negative_slope)


class RReLU(_Activation):
    """Leaky ReLU whose slope is drawn while training."""

    def __init__(
        self, lower: float = 1 / 8.0, upper: float = 1 / 3.0, name: str | None = None
    ) -> None:
        super().__init__(lower=lower, upper=upper)

    def forward(self, x: Tensor) -> Tensor:
        return F.rrelu(x, self._lower, self._upper, self.training)


class PReLU(Layer):
    """x if x > 0 else weight * x, the weight learned: one, or one per channel."""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        weight_attr: ParamAttrLike | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._data_format = data_format
        self.weight = self.create_parameter(
            [num_parameters], attr=weight_attr, default_initializer=Constant(init)
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.prelu(x, self.weight, self._data_format)


class Softplus(_Activation):
    """log(1 + exp(beta * x)) / beta."""

    def __init__(
        self, beta: float = 1.0, threshold: float = 20.0, name: str | None = None
    ) -> None:
        super().__init__(beta=float(beta), threshold=float(threshold))

    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x, beta=self._beta, threshold=self._threshold)


class Hardtanh(_Activation):
    """x limited to [min, max]."""

    def __init__(
        self, min: float = -1.0, max: float = 1.0, name: str | None = None
    ) -> None:
        super().__init__(min=min, max=max)

    def forward(self, x: Tensor) -> Tensor:
        return F.hardtanh(x, self._min, self._max)


class Hardshrink(_Activation):
    """x where |x| > threshold, else 0."""

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(threshold=threshold)

    def forward(self, x: Tensor) -> Tensor:
        return F.hardshrink(x, self._threshold)


class Softshrink(_Activation):
    """x moved towards 0 by threshold."""

    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__(threshold=threshold)

    def forward(self, x: Tensor) -> Tensor:
        return F.softshrink(x, self._threshold)


class ThresholdedReLU(_Activation):
    """x where x > threshold, else 0."""

    def __init__(self, threshold: float = 1.0, name: str | None = None) -> None:
        super().__init__(threshold=threshold)

    def forward(self, x: Tensor) -> Tensor:
        return F.thresholded_relu(x, self._threshold)


class Softmax(_Activation):
    """exp(x) / sum(exp(x)) along axis."""

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(axis=axis)

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, self._axis)


class LogSoftmax(_Activation):
    """log(softmax(x)) along axis."""

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(axis=axis)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(x, self._axis)


class GLU(_Activation):
    """a * sigmoid(b), a and b the halves of x along axis."""

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(axis=axis)

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(x, self._axis)


class Maxout(_Activation):
    """The greatest of each group of channels."""

    def __init__(self, groups: int, axis: int = 1, name: str | None = None) -> None:
        super().__init__(groups=groups, axis=axis)

    def forward(self, x: Tensor) -> Tensor:
        return F.maxout(x, self._groups, self._axis)
