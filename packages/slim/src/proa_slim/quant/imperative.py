"""`ImperativeQuantAware`: quantization-aware training with Paddle's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from proa import nn
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.nn.layer.activation import __all__ as activation_layers
from proa_slim.config import QuantConfig
from proa_slim.quant.quantizer_names import TRAINED_ACTIVATIONS, WEIGHTS, quantizer
from proa_slim.quant.training import QAT

#: The kinds of product of layers with weights.
_OPS: Mapping[str, Any] = {"Conv2D": "conv2d", "Linear": "linear"}
_WITHOUT_WEIGHTS = frozenset(activation_layers) - {"PReLU"}


class ImperativeQuantAware:
    """Rounds the layers of a network in place, then saves its int8 model.

        aware = ImperativeQuantAware(weight_quantize_type="channel_wise_abs_max")
        aware.quantize(network)            # train it as any network
        aware.save_quantized_model(network, "net.int8.proa", input_spec)

    A layer with an attribute ``skip_quant`` that is true is left alone. `QAT` has the
    other options: a copy, learned steps, folded norms, patterns of layers to skip.

    Args:
        quantizable_layer_type: Names of classes in `proa.nn`, or the classes: Conv2D
            and Linear, and layers without weights, such as ReLU or Tanh, whose input is
            rounded.
        weight_quantize_type: ``abs_max``, one scale for a weight, or
            ``channel_wise_abs_max``, one for each output channel.
        activation_quantize_type: ``moving_average_abs_max`` or ``abs_max``.
        weight_bits, activation_bits: 8.
        moving_rate: Share of the old value in the moving average, in [0, 1).

    Raises:
        InvalidArgumentError: If an argument is none of the above.
        UnimplementedError: If a layer with weights is of another class, or it should
            have other bits than 8.
    """

    def __init__(
        self,
        quantizable_layer_type: Sequence[str | type[nn.Layer]] = ("Conv2D", "Linear"),
        weight_quantize_type: str = "abs_max",
        activation_quantize_type: str = "moving_average_abs_max",
        weight_bits: int = 8,
        activation_bits: int = 8,
        moving_rate: float = 0.9,
    ) -> None:
        for name, bits in (("weight", weight_bits), ("activation", activation_bits)):
            if bits != 8:
                raise UnimplementedError(
                    f"[ImperativeQuantAware] {name}_bits must be 8, got {bits}"
                )
        ops, activations = _kinds(quantizable_layer_type)
        api = type(self).__name__
        self._qat = QAT(
            QuantConfig(
                quantizer(
                    api,
                    "activation_quantize_type",
                    activation_quantize_type,
                    TRAINED_ACTIVATIONS,
                ),
                quantizer(api, "weight_quantize_type", weight_quantize_type, WEIGHTS),
                moving_rate=moving_rate,
                ops=ops,
                activations=activations,
            )
        )

    def quantize(self, model: nn.Layer) -> nn.Layer:
        """Let the layers of `model` round while it trains; returns `model`.

        Raises:
            PreconditionNotMetError: If it has none of them.
        """
        return self._qat.quantize(model, inplace=True)

    def save_quantized_model(
        self, model: nn.Layer, path: str | PathLike[str], input_spec: Sequence[Any]
    ) -> None:
        """Write the int8 model of the trained network.

        Raises:
            PreconditionNotMetError: If a quantized layer never saw a training batch.
        """
        self._qat.save_quantized_model(model, path, input_spec)


def _kinds(
    given: Sequence[str | type[nn.Layer]],
) -> tuple[tuple[Any, ...], tuple[type[nn.Layer], ...]]:
    """Kinds of products, and classes without weights."""
    ops, activations = [], []
    for kind in given:
        name = kind if isinstance(kind, str) else kind.__name__
        found = getattr(nn, name, None)
        if not (isinstance(found, type) and issubclass(found, nn.Layer)):
            raise InvalidArgumentError(
                "[ImperativeQuantAware] quantizable_layer_type must have classes of "
                f"proa.nn, got {name!r}"
            )
        if name in _OPS:
            ops.append(_OPS[name])
        elif name in _WITHOUT_WEIGHTS:
            activations.append(found)
        else:
            raise UnimplementedError(
                "[ImperativeQuantAware] quantizable_layer_type must be among "
                f"{', '.join(_OPS)} and activations without weights, got {name!r}"
            )
    return tuple(ops), tuple(activations)
