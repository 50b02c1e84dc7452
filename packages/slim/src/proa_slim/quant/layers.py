"""Layers that train as they will run in int8, with batch norm folded in or without."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

import proa
from proa.ir import file
from proa.nn import Conv2D, Conv2DTranspose, Layer, Linear
from proa.nn.layer.settings import statistics_of
from proa.nn.layer.sizes import is_channels_last
from proa.runtime import Engine, engine_from_bytes, is_symbolic
from proa.static import InputSpec
from proa_slim.config import QuantConfig
from proa_slim.quant.fake_quant import InputQuantizer, WeightQuantizer
from proa_slim.quant.trained import lower_trained, recorded

#: Output-channel axis of the weight of each layer that is quantized.
CHANNEL_AXIS: dict[type[Layer], int] = {Conv2D: 0, Conv2DTranspose: 1, Linear: 1}
#: The layers with weights that are quantized.
Product = Conv2D | Conv2DTranspose | Linear
#: The factor of a batch norm counts as this in training where it is 0.
_SMALLEST_FACTOR = 1e-12


def channel_axis(layer: Layer) -> int:
    """The axis of a layer's weight that counts output channels."""
    return next(a for kind, a in CHANNEL_AXIS.items() if isinstance(layer, kind))


class QuantizedLayer(Layer):
    """A Linear, Conv2D or Conv2DTranspose whose input and weight are rounded to the
    int8 grid.

    Training computes with rounded values in float32. Evaluation computes with the
    integer operators of the exported model, so that both give the same bits; the
    gradient is that of training.

    Args:
        inner: The layer, whose parameters go on being trained.
        config: How ranges are found.

    Shape:
        As `inner`.
    """

    def __init__(self, inner: Product, config: QuantConfig) -> None:
        super().__init__()
        self.inner = inner
        self.input_quantizer = InputQuantizer(config)
        self.weight_quantizer = WeightQuantizer(
            inner.weight.numpy(), channel_axis(inner), config
        )
        self._config = config
        self._engine = _IntegerEngine()

    def forward(self, x: Any) -> Any:
        """The product of the rounded input and the rounded weight."""
        if self.training or is_symbolic(x):
            return self._simulated(x)
        self.input_scale()
        return self._engine.run(self, self._simulated, x)

    def _simulated(self, x: Any) -> Any:
        weight = self.weight_quantizer(self.inner.weight)
        return self.inner.forward_with_weight(self.input_quantizer(x), weight)

    def input_scale(self) -> float:
        """Real value of one integer step of the input.

        Raises:
            PreconditionNotMetError: If no training batch was seen.
        """
        return self.input_quantizer.scale().scale


class QuantizedConvNorm(Layer):
    """A product with the batch norm after it folded into its weight, rounded.

    With f = scale / sqrt(variance + epsilon) of the running statistics, the weight that
    is rounded is w' = w * f, and the bias is b' = shift - mean * f: those of the
    exported model. Until the norm is frozen, training divides the product by f and
    normalises it by the statistics of the batch, so that rounding is that of w' and
    normalisation as in float32 (Krishnamoorthi, 2018, section 3.2.2). From then on,
    training computes product + b', as evaluation does.

    Args:
        inner: The product; its bias is taken into the running mean.
        norm: The batch norm that alone reads it.
        config: How ranges are found; ``freeze_bn_delay`` training steps after which
            the norm is frozen, None for never.

    Shape:
        As `inner`.
    """

    def __init__(self, inner: Product, norm: Any, config: QuantConfig) -> None:
        super().__init__()
        if inner.bias is not None:
            # A bias before the norm only moves its mean.
            mean = statistics_of(norm).mean
            mean.set_value(mean.numpy() - inner.bias.numpy())
            inner.bias = None
        self.inner, self.norm = inner, norm
        self._axis, self._config = channel_axis(inner), config
        self.input_quantizer = InputQuantizer(config)
        with proa.no_grad():
            folded = self._folded_weight().numpy()
        self.weight_quantizer = WeightQuantizer(folded, self._axis, config)
        self.register_buffer("steps", proa.zeros([1], "int64"))
        self.frozen = False
        self._engine = _IntegerEngine()

    def freeze_bn(self) -> None:
        """Train with the running statistics from now on."""
        self.frozen = True

    def unfreeze_bn(self) -> None:
        """Train with the statistics of the batch again."""
        self.frozen = False

    @property
    def is_frozen(self) -> bool:
        """Whether training takes the running statistics."""
        delay = self._config.freeze_bn_delay
        late = delay is not None and int(self.steps) >= delay
        return self.frozen or late or statistics_of(self.norm).always_used

    def _factor(self) -> Any:
        running = statistics_of(self.norm)
        root = (running.variance + running.epsilon).sqrt()
        scale = self.norm.weight
        return 1.0 / root if scale is None else scale / root

    def _folded_weight(self, factor: Any = None) -> Any:
        along = [1] * self.inner.weight.ndim
        along[self._axis] = -1
        used = self._factor() if factor is None else factor
        return self.inner.weight * used.reshape(along)

    def _shift(self) -> Any:
        shift = statistics_of(self.norm).mean * self._factor() * -1.0
        return shift if self.norm.bias is None else self.norm.bias + shift

    def forward(self, x: Any) -> Any:
        """The normalised product of the rounded input and the rounded w'."""
        if is_symbolic(x):
            return self._frozen_forward(x)
        if not self.training:
            self.input_quantizer.scale()
            return self._engine.run(self, self._frozen_forward, x)
        if self.is_frozen:
            return self._frozen_forward(x)
        self.steps.set_value(self.steps.numpy() + 1)
        factor = self._factor()
        tiny = proa.full_like(factor, _SMALLEST_FACTOR)
        factor = proa.where(factor.abs() < _SMALLEST_FACTOR, tiny, factor)
        weight = self.weight_quantizer(self._folded_weight(factor))
        y = self.inner.forward_with_weight(self.input_quantizer(x), weight)
        return self.norm(y / self._over_channels(factor, y))

    def _frozen_forward(self, x: Any) -> Any:
        weight = self.weight_quantizer(self._folded_weight())
        y = self.inner.forward_with_weight(self.input_quantizer(x), weight)
        return y + self._over_channels(self._shift(), y)

    def _over_channels(self, vector: Any, y: Any) -> Any:
        along = [1] * y.ndim
        along[-1 if is_channels_last(self.norm) else 1] = -1
        return vector.reshape(along)

    def folded(self) -> QuantizedLayer:
        """The layer that is exported: a product with weight w' and bias b'."""
        with proa.no_grad():
            weight, shift = self._folded_weight().numpy(), self._shift().numpy()
        inner = copy.deepcopy(self.inner)
        inner.weight.set_value(weight)
        inner.bias = inner.create_parameter([shift.size], is_bias=True)
        inner.bias.set_value(shift)
        layer = QuantizedLayer(inner, self._config)
        layer.input_quantizer = copy.deepcopy(self.input_quantizer)
        layer.weight_quantizer = copy.deepcopy(self.weight_quantizer)
        layer.eval()
        return layer


class QuantizedActivation(Layer):
    """A layer without weights, such as ReLU or Tanh, whose input is rounded to the int8
    grid.

    Args:
        inner: The layer.
        config: How the range is found.

    Shape:
        As `inner`.
    """

    def __init__(self, inner: Layer, config: QuantConfig) -> None:
        super().__init__()
        self.inner = inner
        self.input_quantizer = InputQuantizer(config)

    def forward(self, x: Any) -> Any:
        """`inner` of the rounded input."""
        return self.inner(self.input_quantizer(x))


class _IntegerEngine:
    """The exported form of one layer, made again when the layer has changed."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._built_from: tuple[Any, ...] = ()

    def __deepcopy__(self, memo: object) -> _IntegerEngine:
        return _IntegerEngine()

    def run(self, layer: Any, simulated: Any, x: Any) -> Any:
        """What the integer operators give, with the gradient of `simulated`."""
        state = (*layer.parameters(), *layer.buffers())
        sizes = _symbolic_sizes(layer.inner, x.shape)
        built_from = (*sizes, *((id(t), t.inplace_version) for t in state))
        if self._engine is None or built_from != self._built_from:
            self._engine = _engine_of(layer, sizes)
            self._built_from = built_from
        if self._engine is None:
            return simulated(x)
        (array,) = self._engine.run([np.ascontiguousarray(x.numpy())])
        exact = proa.to_tensor(array)
        if not proa.is_grad_enabled():
            return exact
        y = simulated(x)
        return (y - y.detach()) + exact  # the difference is 0


def _symbolic_sizes(inner: Product, shape: Sequence[int]) -> list[int | None]:
    """Sizes of an input that the integer form depends on, None for the others."""
    sizes: list[int | None] = [None] * len(shape)
    if isinstance(inner, Conv2DTranspose):
        return [None, *shape[1:]]
    last = is_channels_last(inner)
    sizes[-1 if last else 1] = shape[-1 if last else 1]
    return sizes


def _engine_of(layer: Any, sizes: list[int | None]) -> Engine | None:
    """None if the layer has no integer form, as in float64."""
    product = layer.folded() if isinstance(layer, QuantizedConvNorm) else layer
    with proa.no_grad():
        program = recorded(product, [InputSpec(sizes, "float32", "x")])
    if lower_trained(program, layer._config) == 0:
        return None
    return engine_from_bytes(file.to_bytes(program))
