"""Initialization schemes, and which of them fills a new parameter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from proa._core import Tensor, ops
from proa.base.mode import static_builder
from proa.base.no_tape import NoTape
from proa.base.random import next_key
from proa.errors import InvalidArgumentError, ShapeError, UnimplementedError
from proa.tensor.arguments import as_count
from proa.tensor.creation import to_tensor

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.base.typing import TensorLike

__all__ = [
    "Assign", "Bilinear", "Constant", "Dirac", "Initializer", "KaimingNormal",
    "KaimingUniform", "Normal", "Orthogonal", "TruncatedNormal", "Uniform",
    "XavierNormal", "XavierUniform", "calculate_gain", "set_global_initializer",
]  # fmt: skip


class Initializer:
    """Makes the first value of a parameter; call one with a tensor to fill that."""

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        """The value for a parameter of this shape and dtype."""
        raise UnimplementedError(f"[{type(self).__name__}] a subclass must define make")

    def __call__(self, param: Tensor, block: object = None) -> Tensor:
        """Fill ``param`` in place: in static mode, when the startup program runs."""
        if param._is_symbolic and (builder := static_builder()) is not None:
            builder.initialize(param, self)
            return param
        with NoTape():
            param[...] = self.make(list(param.shape), param.dtype)
        return param

    def forward(self, var: Tensor, block: object = None) -> Tensor:
        """Fill ``var`` in place."""
        return self(var, block)


class Constant(Initializer):
    """Every element is ``value``."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        return ops.full(shape=shape, value=self.value, dtype=dtype)


def _uniform(shape: list[int], dtype: DTypeLike, low: float, high: float) -> Tensor:
    seed, offset = next_key(math.prod(shape))
    return ops.uniform(
        shape=shape, low=low, high=high, dtype=dtype, seed=seed, offset=offset
    )


def _normal(shape: list[int], dtype: DTypeLike, mean: float, std: float) -> Tensor:
    seed, offset = next_key(math.prod(shape))
    return ops.gaussian(
        shape=shape, mean=mean, std=std, dtype=dtype, seed=seed, offset=offset
    )


class Uniform(Initializer):
    """Uniform in [low, high)."""

    def __init__(
        self, low: float = -1.0, high: float = 1.0, name: str | None = None
    ) -> None:
        self.low, self.high = low, high

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        return _uniform(shape, dtype, float(self.low), float(self.high))


class Normal(Initializer):
    """Normal with a mean and standard deviation."""

    def __init__(
        self, mean: float = 0.0, std: float = 1.0, name: str | None = None
    ) -> None:
        self.mean, self.std = mean, std

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        return _normal(shape, dtype, float(self.mean), float(self.std))


class TruncatedNormal(Initializer):
    """Normal, drawn again where it falls outside [a, b] deviations from the mean."""

    def __init__(
        self,
        mean: float = 0.0,
        std: float = 1.0,
        a: float = -2.0,
        b: float = 2.0,
        name: str | None = None,
    ) -> None:
        self.mean, self.std, self.a, self.b = mean, std, a, b

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        value = _normal(shape, dtype, 0.0, 1.0)
        # Each round leaves about 5 % of the last one's outliers.
        for _ in range(64):
            inside = ops.logical_and(
                ops.greater_equal(value, float(self.a)),
                ops.less_equal(value, float(self.b)),
            )
            if bool(ops.all(inside).item()):
                break
            value = ops.where(inside, value, _normal(shape, dtype, 0.0, 1.0))
        value = ops.clip(value, min=float(self.a), max=float(self.b))
        return ops.scale(value, scale=float(self.std), bias=float(self.mean))


def fans(shape: list[int]) -> tuple[int, int]:
    """Connections into and out of a unit: of (in, out) and of (out, in, kernel…)."""
    as_count("Initializer", "elements", math.prod(shape))
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    if len(shape) == 2:
        return shape[0], shape[1]
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which initial weights are scaled for a nonlinearity."""
    fixed = {
        "sigmoid": 1.0, "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0,
        "conv1d_transpose": 1.0, "conv2d_transpose": 1.0, "conv3d_transpose": 1.0,
        "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4,
    }  # fmt: skip
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in fixed:
        raise InvalidArgumentError(
            f"[calculate_gain] nonlinearity must be one of {[*fixed, 'leaky_relu']}, "
            f"got {nonlinearity!r}"
        )
    return fixed[nonlinearity]


class _Xavier(Initializer):
    def __init__(
        self,
        fan_in: float | None = None,
        fan_out: float | None = None,
        gain: float = 1.0,
        name: str | None = None,
    ) -> None:
        self.fan_in, self.fan_out, self.gain = fan_in, fan_out, gain

    def _total(self, shape: list[int]) -> float:
        fan_in, fan_out = fans(shape)
        total = fan_in if self.fan_in is None else self.fan_in
        return max(total + (fan_out if self.fan_out is None else self.fan_out), 1)


class XavierUniform(_Xavier):
    """Uniform within sqrt(6 / (fan_in + fan_out)) of 0 (Glorot & Bengio, 2010)."""

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        limit = self.gain * math.sqrt(6.0 / self._total(shape))
        return _uniform(shape, dtype, -limit, limit)


class XavierNormal(_Xavier):
    """Normal with std sqrt(2 / (fan_in + fan_out)) (Glorot & Bengio, 2010)."""

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        std = self.gain * math.sqrt(2.0 / self._total(shape))
        return _normal(shape, dtype, 0.0, std)


class _Kaiming(Initializer):
    def __init__(
        self,
        fan_in: float | None = None,
        negative_slope: float = 0.0,
        nonlinearity: str = "relu",
    ) -> None:
        self.fan_in = fan_in
        self.gain = calculate_gain(nonlinearity, negative_slope)

    def _std(self, shape: list[int]) -> float:
        fan_in = fans(shape)[0] if self.fan_in is None else self.fan_in
        return self.gain / math.sqrt(max(fan_in, 1))


class KaimingUniform(_Kaiming):
    """Uniform within gain * sqrt(3 / fan_in) of 0 (He et al., 2015)."""

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        limit = math.sqrt(3.0) * self._std(shape)
        return _uniform(shape, dtype, -limit, limit)


class KaimingNormal(_Kaiming):
    """Normal with std gain / sqrt(fan_in) (He et al., 2015)."""

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        return _normal(shape, dtype, 0.0, self._std(shape))


class Assign(Initializer):
    """A given value: an array, a list or a Tensor, of the parameter's shape or flat."""

    def __init__(self, value: TensorLike, name: str | None = None) -> None:
        self.value = value

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        value = to_tensor(self.value, dtype)
        if list(value.shape) == shape:
            return value
        if value.ndim == 1 and value.size == math.prod(shape):
            return ops.reshape(value, shape=shape)
        raise ShapeError(
            "Assign",
            f"expected a value of shape {shape}, or {math.prod(shape)} numbers in one "
            "axis",
            value.shape,
        )


class Orthogonal(Initializer):
    """A matrix with orthonormal rows or columns times ``gain`` (Saxe et al., 2013)."""

    def __init__(self, gain: float = 1.0, name: str | None = None) -> None:
        self.gain = float(gain)

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        if len(shape) < 2:
            raise ShapeError("Orthogonal", "rank must be at least 2", shape)
        rows, columns = shape[0], math.prod(shape[1:])
        size = [max(rows, columns), min(rows, columns)]
        q, r = np.linalg.qr(_normal(size, dtype, 0.0, 1.0).numpy())
        q = q * np.sign(np.diag(r))
        q = q if rows >= columns else q.T
        return to_tensor(self.gain * q.reshape(shape), dtype)


class Dirac(Initializer):
    """Convolution kernels that hand each channel on unchanged."""

    def __init__(self, groups: int = 1, name: str | None = None) -> None:
        self.groups = groups

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        if len(shape) not in (3, 4, 5) or shape[0] % self.groups:
            raise ShapeError(
                "Dirac",
                f"rank must be 3 to 5 and channels divisible by {self.groups}",
                shape,
            )
        value = np.zeros(shape)
        centre = tuple(n // 2 for n in shape[2:])
        per_group = shape[0] // self.groups
        for g in range(self.groups):
            for c in range(min(per_group, shape[1])):
                value[g * per_group + c, c][centre] = 1.0
        return to_tensor(value, dtype)


class Bilinear(Initializer):
    """Kernels of a transposed convolution that upsamples bilinearly."""

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        if len(shape) != 4 or shape[2] != shape[3]:
            raise ShapeError("Bilinear", "shape must be (O, C, K, K)", shape)
        size = shape[3]
        factor = math.ceil(size / 2.0)
        centre = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        line = 1 - np.abs(np.arange(size) / factor - centre)
        return to_tensor(np.broadcast_to(np.outer(line, line), shape).copy(), dtype)


_global: dict[str, Initializer | None] = {"weight": None, "bias": None}


def set_global_initializer(
    weight_init: Initializer | None, bias_init: Initializer | None = None
) -> None:
    """Initializers for weights and biases that name none of their own."""
    for value in (weight_init, bias_init):
        if value is not None and not isinstance(value, Initializer):
            raise InvalidArgumentError(
                "[set_global_initializer] expected an Initializer or None, got "
                f"{value!r}"
            )
    _global["weight"], _global["bias"] = weight_init, bias_init


def chosen(own: Any, default: Any, is_bias: bool) -> Initializer:
    """The user's, else the global, else the layer's, else the general default."""
    found = own or _global["bias" if is_bias else "weight"] or default
    if found is None:
        found = Constant(0.0) if is_bias else XavierUniform()
    if not isinstance(found, Initializer):
        raise InvalidArgumentError(
            f"[create_parameter] expected an Initializer, got {found!r}"
        )
    return found
