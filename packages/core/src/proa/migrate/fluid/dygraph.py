"""`paddle.fluid.dygraph`: files, layers and schedules that 2.x has changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import proa
from proa._core import Tensor
from proa.base.public import publish as _publish
from proa.errors import MissingFileError
from proa.migrate.fluid.layers.recurrent import gru_step
from proa.migrate.fluid.schedules import (
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    natural_exp_decay,
)
from proa.optimizer.lr import LambdaDecay

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "CosineDecay", "ExponentialDecay", "GRUUnit", "InverseTimeDecay",
    "NaturalExpDecay", "load_dygraph",
]  # fmt: skip


def load_dygraph(
    model_path: str | os.PathLike[str], **configs: object
) -> tuple[Any, Any]:
    """(state of a network, state of an optimizer) of ``PATH.pdparams`` and
    ``PATH.pdopt``; None for what is not there.

    Raises:
        MissingFileError: If neither is there.
    """
    prefix = os.fspath(model_path)
    for ending in (".pdparams", ".pdopt"):
        prefix = prefix.removesuffix(ending)
    found = [
        proa.load(prefix + ending, allow_pickle=True)
        if os.path.isfile(prefix + ending)
        else None
        for ending in (".pdparams", ".pdopt")
    ]
    if found == [None, None]:
        raise MissingFileError(
            f"[load_dygraph] expected {prefix}.pdparams or {prefix}.pdopt"
        )
    return found[0], found[1]


class GRUUnit(proa.nn.Layer):
    """One step of a GRU, as `layers.gru_unit` has it.

    Args:
        size: Three times the length of the state.
        param_attr: How the weight (size / 3, size) is made.
        bias_attr: How the bias (1, size) is made.
        activation: The activation of the candidate.
        gate_activation: That of gates.
        origin_mode: Whether the update gate is the share that is kept.
        dtype: The dtype of weights.
    """

    def __init__(
        self,
        size: int,
        param_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        activation: str = "tanh",
        gate_activation: str = "sigmoid",
        origin_mode: bool = False,
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__()
        self.weight = self.create_parameter([size // 3, size], param_attr, dtype)
        self.bias = self.create_parameter([1, size], bias_attr, dtype, is_bias=True)
        self._acts, self._origin = (gate_activation, activation), origin_mode

    def forward(self, input: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return gru_step(input, hidden, self.weight, self.bias, self._acts, self._origin)


def CosineDecay(
    learning_rate: float,
    step_each_epoch: int,
    epochs: int,
    begin: int = 0,
    step: int = 1,
    dtype: DTypeLike = "float32",
) -> LambdaDecay:
    """`layers.cosine_decay`."""
    return cosine_decay(learning_rate, step_each_epoch, epochs)


def ExponentialDecay(
    learning_rate: float,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    begin: int = 0,
    step: int = 1,
    dtype: DTypeLike = "float32",
) -> LambdaDecay:
    """`layers.exponential_decay`."""
    return exponential_decay(learning_rate, decay_steps, decay_rate, staircase)


def NaturalExpDecay(
    learning_rate: float,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    begin: int = 0,
    step: int = 1,
    dtype: DTypeLike = "float32",
) -> LambdaDecay:
    """`layers.natural_exp_decay`."""
    return natural_exp_decay(learning_rate, decay_steps, decay_rate, staircase)


def InverseTimeDecay(
    learning_rate: float,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    begin: int = 0,
    step: int = 1,
    dtype: DTypeLike = "float32",
) -> LambdaDecay:
    """`layers.inverse_time_decay`."""
    return inverse_time_decay(learning_rate, decay_steps, decay_rate, staircase)


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
