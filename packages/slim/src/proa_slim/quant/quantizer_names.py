"""Paddle's names of quantizers, and what they are called in a `QuantConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from proa.errors import InvalidArgumentError
from proa_slim.config import ActivationObserver, WeightObserver

T = TypeVar("T")

#: Names for weights.
WEIGHTS: Mapping[str, WeightObserver] = {
    "abs_max": "abs_max",
    "channel_wise_abs_max": "channel_abs_max",
}
#: Names for activations of layers that are trained.
TRAINED_ACTIVATIONS: Mapping[str, ActivationObserver] = {
    "moving_average_abs_max": "moving_average",
    "abs_max": "abs_max",
}
#: Names for activations of static programs that are trained.
STATIC_ACTIVATIONS: Mapping[str, ActivationObserver] = {
    **TRAINED_ACTIVATIONS,
    "range_abs_max": "abs_max",
}
#: Names for activations that are calibrated by a model file and samples.
CALIBRATED_ACTIVATIONS: Mapping[str, ActivationObserver] = {
    "KL": "kl", "hist": "hist", "avg": "avg", "mse": "mse", "emd": "emd",
    "abs_max": "abs_max", "min_max": "abs_max",
}  # fmt: skip
#: Classes for activations that are calibrated by calls of a network.
ACTIVATION_CLASSES: Mapping[str, ActivationObserver] = {
    "KLQuantizer": "kl",
    "HistQuantizer": "hist",
    "AbsmaxQuantizer": "abs_max",
}
#: Classes for weights.
WEIGHT_CLASSES: Mapping[str, WeightObserver] = {
    "PerChannelAbsmaxQuantizer": "channel_abs_max",
    "AbsmaxQuantizer": "abs_max",
}


def quantizer(api: str, argument: str, value: str, known: Mapping[str, T]) -> T:
    """What one of the names stands for.

    Raises:
        InvalidArgumentError: If `value` is none of `known`; names `api` and `argument`.
    """
    if value not in known:
        raise InvalidArgumentError(
            f"[{api}] {argument} must be one of {', '.join(known)}, got {value!r}"
        )
    return known[value]
