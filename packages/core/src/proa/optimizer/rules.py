"""The optimizers in most use, their steps fused operators on all parameters at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.optimizer.lr import LRScheduler
from proa.optimizer.optimizer import DecayFilter, Group, Optimizer
from proa.optimizer.state import Step
from proa.tensor.row_sparse import parts

if TYPE_CHECKING:
    from proa.nn.clip import ClipGrad
    from proa.optimizer.optimizer import DecayLike, ParametersLike
    from proa.tensor.parameter import Parameter


def check_share(where: str, name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise InvalidArgumentError(f"[{where}] {name} must be in [0, 1), got {value}")


class SGD(Optimizer):
    """param -= lr * grad."""

    _kernel = ops.sgd_

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: ParametersLike | None = None,
        weight_decay: DecayLike | None = None,
        grad_clip: ClipGrad | None = None,
        name: str | None = None,
        multi_precision: bool = False,
    ) -> None:
        super().__init__(
            learning_rate, parameters, weight_decay, grad_clip, name, multi_precision
        )

    def _rows_alone(self, step: Step) -> bool:
        return step.decay == 0

    def _update_rows(self, step: Step) -> None:
        # The step is linear in the gradient: rows that occur twice need no merging.
        found = parts(step.grad)
        assert found is not None
        ops.sgd_rows_(step.weights, *found, lr=step.lr)


class Momentum(Optimizer):
    """velocity = momentum * velocity + grad; param -= lr * velocity (or Nesterov's).

    Args:
        momentum: Share of the velocity that is kept.
        use_nesterov: Whether to look one step ahead.
        rescale_grad: A factor on gradients.
    """

    _slots = ("velocity",)
    _kernel = ops.momentum_

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        momentum: float = 0.9,
        parameters: ParametersLike | None = None,
        use_nesterov: bool = False,
        weight_decay: DecayLike | None = None,
        grad_clip: ClipGrad | None = None,
        name: str | None = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
    ) -> None:
        super().__init__(
            learning_rate, parameters, weight_decay, grad_clip, name, multi_precision,
            momentum=momentum, use_nesterov=use_nesterov,
        )  # fmt: skip
        self._rescale_grad = rescale_grad

    def _prepared(self, p: Any, g: Tensor, lr: float, group: Group) -> Step:
        step = super()._prepared(p, g, lr, group)
        if self._rescale_grad != 1.0:
            step.grad = ops.mul(step.grad, self._rescale_grad)
        return step

    def _attributes(self, step: Step) -> dict[str, Any]:
        settings = step.settings
        return {
            "lr": step.lr, "mu": settings["momentum"], "weight_decay": step.decay,
            "nesterov": settings["use_nesterov"],
        }  # fmt: skip


class Adam(Optimizer):
    """Adam (Kingma & Ba, 2015); weight_decay is a penalty in the gradient.

    Args:
        beta1: Share of the first moment that is kept.
        beta2: Share of the second moment that is kept.
        epsilon: Added to the root of the second moment.
        lazy_mode: Whether a row-sparse gradient changes its own rows alone.
        multi_precision: Whether 16-bit parameters are trained as float32 copies.
    """

    _slots = ("moment1", "moment2")
    _kernel = ops.adam_
    _powers = (("beta1_pow_acc", "beta1"), ("beta2_pow_acc", "beta2"))

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
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
    ) -> None:
        where = type(self).__name__
        beta1, beta2, epsilon = float(beta1), float(beta2), float(epsilon)
        check_share(where, "beta1", beta1)
        check_share(where, "beta2", beta2)
        if epsilon < 0:
            raise InvalidArgumentError(
                f"[{where}] epsilon must not be negative, got {epsilon}"
            )
        super().__init__(
            learning_rate, parameters, weight_decay, grad_clip, name, multi_precision,
            beta1=beta1, beta2=beta2, epsilon=epsilon,
        )  # fmt: skip
        self._lazy_mode = lazy_mode

    def _rows_alone(self, step: Step) -> bool:
        return self._lazy_mode

    def _attributes(self, step: Step) -> dict[str, Any]:
        settings = step.settings
        return {
            "lr": step.lr, "beta1": settings["beta1"], "beta2": settings["beta2"],
            "epsilon": settings["epsilon"], "step": step.slot_values["step"],
            "weight_decay": step.decay, "decoupled": self._decoupled,
        }  # fmt: skip


class AdamW(Adam):
    """Adam with decay apart from the gradient (Loshchilov & Hutter, 2019).

    Args:
        weight_decay: The coefficient, a number.
        lr_ratio: Gives each parameter a factor on the learning rate.
        apply_decay_param_fun: Says by its name whether a parameter decays.
        lazy_mode: Whether a row-sparse gradient changes its own rows alone.
        multi_precision: Whether 16-bit parameters are trained as float32 copies; they
            decay as such.
    """

    _decoupled = True

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: ParametersLike | None = None,
        weight_decay: DecayLike | None = 0.01,
        apply_decay_param_fun: DecayFilter | None = None,
        grad_clip: ClipGrad | None = None,
        lazy_mode: bool = False,
        name: str | None = None,
        lr_ratio: Callable[[Parameter], float] | None = None,
        multi_precision: bool = False,
    ) -> None:
        if isinstance(weight_decay, Tensor):
            weight_decay = float(weight_decay.item())
        if not isinstance(weight_decay, (int, float)):
            raise InvalidArgumentError(
                f"[AdamW] weight_decay must be a number, got {weight_decay!r}"
            )
        self._lr_ratio = lr_ratio
        self._decays = apply_decay_param_fun
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameters, weight_decay, grad_clip,
            name, lazy_mode, multi_precision,
        )  # fmt: skip

    def _rate_of(self, p: Any, group: Group, lr: float) -> float:
        rate = super()._rate_of(p, group, lr)
        return rate if self._lr_ratio is None else rate * float(self._lr_ratio(p))

    def _prepared(self, p: Any, g: Tensor, lr: float, group: Group) -> Step:
        step = super()._prepared(p, g, lr, group)
        if self._decays is not None and not self._decays(p.name):
            step.decay = 0.0
        return step
