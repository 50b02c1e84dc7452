"""Further optimizers that adapt the rate of each weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.optimizer.lr import LRScheduler
from proa.optimizer.optimizer import Optimizer
from proa.optimizer.rules import check_share
from proa.optimizer.state import Step

if TYPE_CHECKING:
    from proa.nn.clip import ClipGrad
    from proa.optimizer.optimizer import DecayLike, ParametersLike
    from proa.tensor.parameter import Parameter


def _check_epsilon(where: str, epsilon: float) -> None:
    if epsilon < 0:
        raise InvalidArgumentError(
            f"[{where}] epsilon must not be negative, got {epsilon}"
        )


class Adagrad(Optimizer):
    """moment += g ** 2; param -= lr * g / (sqrt(moment) + epsilon).

    Duchi et al., 2011.

    Args:
        epsilon: Added to the root.
        initial_accumulator_value: What the moment begins with.
    """

    _slots = ("moment",)
    _kernel = ops.adagrad_

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        epsilon: float = 1e-06,
        parameters: ParametersLike | None = None,
        weight_decay: DecayLike | None = None,
        grad_clip: ClipGrad | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
        multi_precision: bool = False,
    ) -> None:
        _check_epsilon("Adagrad", epsilon)
        self._start = float(initial_accumulator_value)
        super().__init__(
            learning_rate, parameters, weight_decay, grad_clip, name, multi_precision,
            epsilon=float(epsilon),
        )  # fmt: skip

    def _first(self, slot: str) -> float:
        return self._start

    def _rows_alone(self, step: Step) -> bool:
        return step.decay == 0

    def _attributes(self, step: Step) -> dict[str, Any]:
        epsilon = step.settings["epsilon"]
        return {"lr": step.lr, "epsilon": epsilon, "weight_decay": step.decay}


class Adamax(Optimizer):
    """Adam by the largest gradient in place of the second moment (Kingma & Ba, 2015).

    Args:
        beta1: Share of the first moment that is kept.
        beta2: Share of the largest gradient that is kept.
        epsilon: Added to the largest gradient.
    """

    _slots = ("moment", "inf_norm")
    _kernel = ops.adamax_
    _powers = (("beta1_pow_acc", "beta1"),)

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: ParametersLike | None = None,
        weight_decay: DecayLike | None = None,
        grad_clip: ClipGrad | None = None,
        name: str | None = None,
        multi_precision: bool = False,
    ) -> None:
        check_share("Adamax", "beta1", beta1)
        check_share("Adamax", "beta2", beta2)
        _check_epsilon("Adamax", epsilon)
        super().__init__(
            learning_rate, parameters, weight_decay, grad_clip, name, multi_precision,
            beta1=float(beta1), beta2=float(beta2), epsilon=float(epsilon),
        )  # fmt: skip

    def _attributes(self, step: Step) -> dict[str, Any]:
        settings = step.settings
        return {
            "lr": step.lr, "beta1": settings["beta1"], "beta2": settings["beta2"],
            "epsilon": settings["epsilon"], "step": step.slot_values["step"],
            "weight_decay": step.decay,
        }  # fmt: skip


class RMSProp(Optimizer):
    """Steps by the root of the mean square of gradients (Hinton, 2012).

    Args:
        rho: Share of the means that is kept.
        epsilon: Added under the root.
        momentum: Share of the last step that is added to the next.
        centered: Whether the square of the mean gradient is taken off under the root.
    """

    _slots = ("mean_square", "momentum", "mean_grad")
    _kernel = ops.rmsprop_

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        rho: float = 0.95,
        epsilon: float = 1e-06,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: ParametersLike | None = None,
        weight_decay: DecayLike | None = None,
        grad_clip: ClipGrad | None = None,
        name: str | None = None,
        multi_precision: bool = False,
    ) -> None:
        check_share("RMSProp", "rho", rho)
        _check_epsilon("RMSProp", epsilon)
        if momentum < 0:
            raise InvalidArgumentError(
                f"[RMSProp] momentum must not be negative, got {momentum}"
            )
        super().__init__(
            learning_rate, parameters, weight_decay, grad_clip, name, multi_precision,
            rho=float(rho), epsilon=float(epsilon), momentum=float(momentum),
            centered=bool(centered),
        )  # fmt: skip

    def _attributes(self, step: Step) -> dict[str, Any]:
        settings = step.settings
        return {
            "lr": step.lr, "rho": settings["rho"], "epsilon": settings["epsilon"],
            "momentum": settings["momentum"], "centered": settings["centered"],
            "weight_decay": step.decay,
        }  # fmt: skip


class Adadelta(Optimizer):
    """Steps by the ratio of mean changes to mean gradients (Zeiler, 2012).

    The learning rate is a factor on the method's own step; 1.0 is the paper's.

    Args:
        epsilon: Added under the roots.
        rho: Share of the means that is kept.
    """

    _slots = ("_avg_squared_grad", "_avg_squared_update")
    _kernel = ops.adadelta_

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        epsilon: float = 1e-06,
        rho: float = 0.95,
        parameters: ParametersLike | None = None,
        weight_decay: DecayLike | None = None,
        grad_clip: ClipGrad | None = None,
        name: str | None = None,
        multi_precision: bool = False,
    ) -> None:
        check_share("Adadelta", "rho", rho)
        _check_epsilon("Adadelta", epsilon)
        super().__init__(
            learning_rate, parameters, weight_decay, grad_clip, name, multi_precision,
            rho=float(rho), epsilon=float(epsilon),
        )  # fmt: skip

    def _attributes(self, step: Step) -> dict[str, Any]:
        settings = step.settings
        return {
            "lr": step.lr, "rho": settings["rho"], "epsilon": settings["epsilon"],
            "weight_decay": step.decay,
        }  # fmt: skip


def _norm(x: Tensor) -> float:
    return math.sqrt(ops.squared_norm(x).item())


def _ratio(weights: Tensor, direction: Tensor) -> Tensor:
    """|weights| / |direction| of a program; 1 if either is 0."""
    size, length = (ops.sqrt(ops.squared_norm(x)) for x in (weights, direction))
    one = ops.full_like(size, value=1, dtype=size.dtype)
    both = ops.greater_than(ops.mul(size, length), 0.0)
    ratio = ops.where(both, ops.div(size, ops.where(both, length, one)), one)
    return ops.cast(ratio, dtype=weights.dtype)


class Lamb(Optimizer):
    """Adam's direction with each parameter's step in proportion to its own norm: param
    -= lr * |param| / |r| * r, r being Adam's step plus decay (You et al., 2020).

    Args:
        lamb_weight_decay: The coefficient of decay.
        beta1: Share of the first moment that is kept.
        beta2: Share of the second moment that is kept.
        epsilon: Added to the root of the second moment.
        exclude_from_weight_decay_fn: Says of a parameter whether it must not decay.
        multi_precision: Whether 16-bit parameters are trained as float32 copies.
        always_adapt: Whether parameters that do not decay take the norms' ratio too.
    """

    _slots = ("moment1", "moment2")
    _powers = (("beta1_pow_acc", "beta1"), ("beta2_pow_acc", "beta2"))
    _decoupled = True

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        parameters: ParametersLike | None = None,
        grad_clip: ClipGrad | None = None,
        exclude_from_weight_decay_fn: Callable[[Parameter], bool] | None = None,
        name: str | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
    ) -> None:
        check_share("Lamb", "beta1", beta1)
        check_share("Lamb", "beta2", beta2)
        _check_epsilon("Lamb", epsilon)
        self._excluded = exclude_from_weight_decay_fn
        self._always_adapt = always_adapt
        super().__init__(
            learning_rate, parameters, None, grad_clip, name, multi_precision,
            lamb_weight_decay=float(lamb_weight_decay), beta1=float(beta1),
            beta2=float(beta2), epsilon=float(epsilon),
        )  # fmt: skip

    def _update(self, step: Step) -> None:
        slots, settings, weights = step.slot_values, step.settings, step.weights
        decay = settings["lamb_weight_decay"]
        if self._excluded is not None and self._excluded(step.param):
            decay = 0.0
        direction = ops.full_like(weights, value=0, dtype=weights.dtype)
        ops.lamb_(
            direction, slots["moment1"], slots["moment2"], weights, step.grad,
            beta1=settings["beta1"], beta2=settings["beta2"],
            epsilon=settings["epsilon"], step=slots["step"], weight_decay=decay,
        )  # fmt: skip
        ratio = 1.0
        adapts = decay or self._always_adapt
        if adapts and weights._is_symbolic:
            ops.sgd_(
                weights, ops.mul(direction, _ratio(weights, direction)), lr=step.lr
            )
            return
        if adapts:
            size, length = _norm(weights), _norm(direction)
            ratio = size / length if size > 0 and length > 0 else 1.0
        ops.sgd_(weights, direction, lr=step.lr * ratio)
