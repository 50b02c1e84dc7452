"""Layers that round activations and weights to the int8 grid while a network trains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.nn import Layer
from proa.runtime import call_operator
from proa_slim.config import QuantConfig
from proa_slim.quant.observers import LEVELS, NO_RANGE
from proa_slim.quant.scales import Scale, weight_scale

#: Batches whose moving average is the first value of a learned step of an activation.
_FIRST_BATCHES = 20
#: A learned step stays above this.
_SMALLEST_STEP = 1e-9


def learned_fake_quant(
    x: Any, step: Any, axis: int = -1, count: int = 0, clips: bool = False
) -> Any:
    """Rounding to a grid whose step is learned (LSQ, Esser et al., 2020).

    y = s * clamp(round(x / s), -127, 127). The gradient of y with respect to x is 1
    inside the range and 0 outside; with respect to s it is g * (round(x / s) - x / s)
    inside and g * -127 or g * 127 outside, where g = 1 / sqrt(count * 127). With
    `clips` it is 0 inside and -127 or 127 outside (PACT, Choi et al., 2018), which with
    respect to the range 127 * s is -1 or 1.

    Args:
        x: Array of any shape.
        step: s, of one element, or of the size of `axis`.
        axis: Axis of the channels, if there are several steps.
        count: Elements that share a step; 0 for as many as x has for each.
        clips: Whether the step is that of a learned range.
    """
    along = [1] * x.ndim
    if step.size > 1:
        along[axis] = -1
    steps = proa.maximum(step.abs(), proa.to_tensor(np.float32(_SMALLEST_STEP)))
    fixed = steps.detach()
    channels = axis if step.size > 1 else -1
    (y,) = call_operator("fake_quant", x, fixed, axis=channels)
    with proa.no_grad():
        ratio = x.detach() / fixed.reshape(along)
        error = y.detach() / fixed.reshape(along) - ratio
        outside = proa.sign(ratio) * float(LEVELS)
        inside = proa.zeros_like(error) if clips else error
        slope = proa.where(ratio.abs() <= float(LEVELS), inside, outside)
        if not clips:
            slope = slope * (1 / math.sqrt((count or x.size / step.size) * LEVELS))
    # The difference is 0: y has the bits of the rounding, and s the gradient above.
    return y + (steps - fixed).reshape(along) * slope


class InputQuantizer(Layer):
    """Rounds an activation to a grid for its range: the moving average of each batch's
    greatest magnitude, the greatest of all, or one that is learned.

    Args:
        config: ``activation="abs_max"`` takes the greatest of all; any other counts as
            ``moving_average``. With ``symmetric=False`` positive and negative values
            have a range each. With ``learn_steps`` or ``learn_ranges`` the moving
            average of the first 20 batches is where learning begins.

    Shape:
        As the input.
    """

    def __init__(self, config: QuantConfig) -> None:
        super().__init__()
        self._config = config
        signs = 1 if config.symmetric else 2
        # The state of the moving average and its weight, as in MovingAverageObserver.
        self.register_buffer("threshold", proa.zeros([signs]))
        self.register_buffer("total", proa.zeros([1]))
        self.register_buffer("batches", proa.zeros([1], "int64"))
        #: Path of the layer, for errors.
        self.layer = ""
        self.step: Any = None
        #: The greatest magnitude that is not clipped, 127 steps.
        self.limit: Any = None
        if config.learn_steps:
            self.step = _parameter(self, np.ones(1, np.float32), config)
        if config.learn_ranges:
            self.limit = self.create_parameter([1], dtype="float32")

    def forward(self, x: Any) -> Any:
        learns = self._config.learn_steps or self._config.learn_ranges
        if self.training and not (learns and int(self.batches) >= _FIRST_BATCHES):
            self._observe(x)
        elif learns and self.training:
            count = x.size // max(int(x.shape[0]), 1)
            if self.limit is not None:
                return learned_fake_quant(x, self.limit / float(LEVELS), clips=True)
            return learned_fake_quant(x, self.step, count=count)
        scale = self.scale()
        step = proa.to_tensor(np.array([scale.scale], np.float32))
        if not scale.offset:
            (rounded,) = call_operator("fake_quant", x, step)
            return rounded
        offset = proa.to_tensor(np.array([scale.offset], np.float32))
        (rounded,) = call_operator("fake_quant", x - offset, step)
        return rounded + offset

    def _observe(self, x: Any) -> None:
        array = x.numpy()
        if not np.isfinite(array).all():
            raise InvalidArgumentError(
                f"[QAT] expected finite inputs of the layer {self.layer!r}, got "
                f"{int((~np.isfinite(array)).sum())} NaN or infinities"
            )
        if self._config.symmetric:
            peaks = [np.abs(array).max(initial=0.0)]
        else:
            peaks = [array.max(initial=0.0), -array.min(initial=0.0)]
        peak = np.array(peaks, np.float64)
        learns = self._config.learn_steps or self._config.learn_ranges
        if self._config.activation == "abs_max" and not learns:
            state, total = np.maximum(self.threshold.numpy(), peak), 1.0
        else:
            rate = self._config.moving_rate
            state = rate * self.threshold.numpy().astype(np.float64) + (1 - rate) * peak
            total = rate * float(self.total) + (1 - rate)
        self.threshold.set_value(state.astype(np.float32))
        self.total.set_value(np.array([total], np.float32))
        self.batches.set_value(self.batches.numpy() + 1)
        scale = self._observed().scale
        if self.step is not None:
            self.step.set_value(np.array([scale], np.float32))
        if self.limit is not None:
            self.limit.set_value(np.array([scale * LEVELS], np.float32))

    def scale(self) -> Scale:
        """Real value of one integer step, and the offset.

        Raises:
            PreconditionNotMetError: If no training batch was seen.
        """
        if float(self.total) <= 0:
            raise PreconditionNotMetError(
                f"[QAT] the quantized layer {self.layer!r} must see a training batch "
                "before it is evaluated, got none"
            )
        if self.step is not None:
            return Scale(max(abs(float(self.step)), _SMALLEST_STEP))
        if self.limit is not None:
            return Scale(max(abs(float(self.limit)) / LEVELS, _SMALLEST_STEP))
        return self._observed()

    def _observed(self) -> Scale:
        thresholds = self.threshold.numpy().astype(np.float64) / float(self.total)
        if thresholds.sum() <= 0:
            return Scale(NO_RANGE)
        if self._config.symmetric:
            return Scale(float(thresholds[0]) / LEVELS)
        high, low = map(float, thresholds)
        step = (high + low) / (2 * LEVELS)
        return Scale(step, step * round((high - low) / 2 / step))


class WeightQuantizer(Layer):
    """Rounds a weight to a grid: by its greatest magnitude or least square error again
    in each step, or by steps that are learned.

    Args:
        weight: What learned steps begin with: an array.
        axis: Axis of its output channels.
        config: ``weight`` and ``learn_steps`` say how.

    Shape:
        As the weight.
    """

    def __init__(self, weight: Any, axis: int, config: QuantConfig) -> None:
        super().__init__()
        self._axis, self._config = axis, config
        self.step: Any = None
        if config.learn_steps:
            first = weight_scale(weight, axis, config.weight)
            self.step = _parameter(self, first, config)

    def forward(self, weight: Any) -> Any:
        if self.step is not None and self.training:
            return learned_fake_quant(weight, self.step, self._axis)
        scale = self.scale(weight)
        axis = self._axis if scale.size > 1 else -1
        (rounded,) = call_operator(
            "fake_quant", weight, proa.to_tensor(scale), axis=axis
        )
        return rounded

    def scale(self, weight: Any) -> Any:
        """The steps of a weight, an array of (1,) or (channels,)."""
        if self.step is None:
            return weight_scale(weight.numpy(), self._axis, self._config.weight)
        return np.maximum(np.abs(self.step.numpy()), np.float32(_SMALLEST_STEP))


def _parameter(layer: Layer, value: Any, config: QuantConfig) -> Any:
    """A step as a parameter: optimizers take `step_learning_rate` times their rate."""
    result: Any = layer.create_parameter([value.size], dtype="float32")
    result.set_value(value.reshape(-1).astype(np.float32))
    result.optimize_attr["learning_rate"] = config.step_learning_rate
    return result
