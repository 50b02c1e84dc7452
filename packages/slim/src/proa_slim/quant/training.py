"""Quantization-aware training: train with the rounding in place, then convert.

Weights and the inputs of products go through fake quantization in the forward pass; the
gradient goes straight through it (Bengio et al., 2013; Jacob et al., 2018).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

import proa
from proa.errors import PreconditionNotMetError
from proa.nn import Conv2D, Layer, Linear
from proa.runtime import call_operator
from proa_slim.config import QuantConfig
from proa_slim.quant.lower import lower
from proa_slim.quant.model import QuantizedModel
from proa_slim.quant.observers import LEVELS
from proa_slim.quant.post_training import program_of
from proa_slim.quant.scales import weight_scale

#: Output-channel axis of the weight of each layer that is quantized.
_CHANNEL_AXIS: dict[type[Layer], int] = {Conv2D: 0, Linear: 1}
_OP: dict[type[Layer], str] = {Conv2D: "conv2d", Linear: "linear"}


class QuantizedLayer(Layer):
    """A Linear or Conv2D whose input and weight are rounded to the int8 grid.

    Args:
        inner: The layer, whose parameters go on being trained.
        config: How ranges are found; activations by their moving average or greatest
            value (any other needs calibration and counts as moving average here).

    Shape:
        As `inner`.
    """

    def __init__(self, inner: Conv2D | Linear, config: QuantConfig) -> None:
        super().__init__()
        self.inner = inner
        self._config = config
        self._axis = next(
            a for kind, a in _CHANNEL_AXIS.items() if isinstance(inner, kind)
        )
        # The state of the moving average and its weight, as in MovingAverageObserver.
        self.register_buffer("threshold", proa.zeros([1]))
        self.register_buffer("total", proa.zeros([1]))

    def forward(self, x: Any) -> Any:
        if self.training:
            self._observe(x)
        if float(self.total) <= 0:
            raise PreconditionNotMetError(
                f"[{self.inner.full_name()}] a quantized layer must see a training "
                "batch before it is evaluated, got none"
            )
        scale = proa.to_tensor(np.array([self.input_scale()], np.float32))
        (rounded,) = call_operator("fake_quant", x, scale)
        weight = self.inner.weight
        w_scale = weight_scale(weight.numpy(), self._axis, self._config.weight)
        axis = self._axis if w_scale.size > 1 else -1
        (rounded_weight,) = call_operator(
            "fake_quant", weight, proa.to_tensor(w_scale), axis=axis
        )
        return self.inner.forward_with_weight(rounded, rounded_weight)

    def _observe(self, x: Any) -> None:
        peak = float(np.abs(x.numpy()).max(initial=0.0))
        if self._config.activation == "abs_max":
            state, total = max(float(self.threshold), peak), 1.0
        else:
            rate = self._config.moving_rate
            state = rate * float(self.threshold) + (1 - rate) * peak
            total = rate * float(self.total) + (1 - rate)
        self.threshold.set_value(np.array([state], np.float32))
        self.total.set_value(np.array([total], np.float32))

    def input_scale(self) -> float:
        """Real value of one integer step of the input."""
        threshold = float(self.threshold) / float(self.total)
        return threshold / LEVELS if threshold > 0 else 1.0


class QAT:
    """Quantization-aware training.

        qat = QAT(QuantConfig(activation="moving_average"))
        student = qat.quantize(network)   # train it as any network
        model = qat.convert(student, input_spec)

    Args:
        config: How; `QuantConfig(activation="moving_average")` if not given.
    """

    def __init__(self, config: QuantConfig | None = None) -> None:
        self.config = config or QuantConfig(activation="moving_average")

    def quantize(self, network: Layer, inplace: bool = False) -> Layer:
        """A copy of `network` (itself if `inplace`) that trains with the rounding in
        place.

        Every Linear and Conv2D is wrapped, but for those named in ``config.skip`` and
        kinds that ``config.ops`` does not have.
        """
        student = network if inplace else copy.deepcopy(network)
        wrapped: dict[Layer, QuantizedLayer] = {}
        # By path: a copy's layers have full names of their own.
        skipped = self.config.skipped(network)
        for path, parent in list(student.named_sublayers(include_self=True)):
            if isinstance(parent, QuantizedLayer):
                continue
            for name, child in list(parent.named_children()):
                own = f"{path}.{name}" if path else name
                if own not in skipped and self._chosen(child):
                    if child not in wrapped:
                        wrapped[child] = QuantizedLayer(child, self.config)
                    setattr(parent, name, wrapped[child])
        return student

    def _chosen(self, layer: Layer) -> TypeGuard[Conv2D | Linear]:
        return any(
            isinstance(layer, kind) and op in self.config.ops
            for kind, op in _OP.items()
        )

    def convert(self, student: Layer, input_spec: Sequence[Any]) -> QuantizedModel:
        """The int8 model of a trained student.

        Raises:
            PreconditionNotMetError: If a quantized layer never saw a training batch.
        """
        program = program_of(student, input_spec)
        lower(program, self.config)
        program.metadata["quantization"] = f"int8 trained {self.config.weight}"
        return QuantizedModel(program, [])
