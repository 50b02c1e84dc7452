"""Optimizers of 1.x that 2.x lacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import proa
from proa._core import Tensor, ops
from proa.base.mode import static_builder
from proa.optimizer import Optimizer

if TYPE_CHECKING:
    from proa.nn.clip import ClipGrad
    from proa.optimizer.lr import LRScheduler
    from proa.optimizer.optimizer import DecayLike
    from proa.optimizer.state import Step

__all__ = [
    "DecayedAdagrad", "DecayedAdagradOptimizer", "Dpsgd", "DpsgdOptimizer", "Ftrl",
    "FtrlOptimizer", "LarsMomentum", "LarsMomentumOptimizer",
]  # fmt: skip


def _rate(step: Step) -> Tensor:
    """The step's learning rate (1,), which a run of a program reads."""
    builder = static_builder()
    if builder is not None:
        return builder.rate(step.weights, step.lr)
    return ops.full(shape=[1], value=step.lr, dtype=step.weights.dtype)


def _decayed(step: Step) -> Tensor:
    """The gradient with L2 decay."""
    if not step.decay:
        return step.grad
    return ops.add(step.grad, ops.mul(step.weights, step.decay))


class DecayedAdagrad(Optimizer):
    """m = decay * m + (1 - decay) * g^2; param -= lr * g / (sqrt(m) + epsilon)."""

    _slots = ("moment",)

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        decay: float = 0.95,
        epsilon: float = 1.0e-6,
        parameter_list: Iterable[Tensor] | None = None,
        regularization: DecayLike | None = None,
        grad_clip: ClipGrad | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate, parameter_list, regularization, grad_clip, name,
            decay=float(decay), epsilon=float(epsilon),
        )  # fmt: skip

    def _update(self, step: Step) -> None:
        g, moment, share = _decayed(step), step.slot_values["moment"], step.settings
        mean = ops.add(
            ops.mul(moment, share["decay"]),
            ops.mul(ops.mul(g, g), 1.0 - share["decay"]),
        )
        moment[...] = mean
        root = ops.add(ops.sqrt(mean), share["epsilon"])
        ops.sgd_(step.weights, ops.div(g, root), lr=step.lr)


class Dpsgd(Optimizer):
    """SGD with gradients that are clipped and disturbed (Abadi et al., 2016).

    A gradient of norm n is divided by n / clip where that exceeds 1; one number of the
    normal distribution, of standard deviation sigma, over batch_size is added to all.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        clip: float = 0.9,
        batch_size: float = 0.999,
        sigma: float = 1e-8,
        parameter_list: Iterable[Tensor] | None = None,
    ) -> None:
        super().__init__(
            learning_rate, parameter_list,
            clip=float(clip), batch_size=float(batch_size), sigma=float(sigma),
        )  # fmt: skip

    def _update(self, step: Step) -> None:
        g, own = step.grad, step.settings
        norm = ops.sqrt(ops.squared_norm(g))
        scale = ops.maximum(ops.mul(norm, 1.0 / own["clip"]), 1.0)
        noise = proa.normal(0.0, own["sigma"] / own["batch_size"], [1])
        g = ops.add(ops.div(g, scale), ops.cast(noise, dtype=g.dtype))
        ops.sgd_(step.weights, g, lr=step.lr)


class Ftrl(Optimizer):
    """Follow the regularized leader (McMahan et al., 2013).

    With n the sum of squared gradients before the step and n' after it,

        z += g - (n'^-p - n^-p) / lr * w
        w = (l1 * sign(z) - z) / (n'^-p / lr + 2 * l2) where |z| > l1, else 0,

    p being lr_power. (Paddle 1.8 takes l1 in the place of l2.)
    """

    _slots = ("squared", "linear")

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        l1: float = 0.0,
        l2: float = 0.0,
        lr_power: float = -0.5,
        parameter_list: Iterable[Tensor] | None = None,
        regularization: DecayLike | None = None,
        grad_clip: ClipGrad | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate, parameter_list, regularization, grad_clip, name,
            l1=float(l1), l2=float(l2), lr_power=float(lr_power),
        )  # fmt: skip

    def _update(self, step: Step) -> None:
        g, own, slots, w = _decayed(step), step.settings, step.slot_values, step.weights
        rate, power = _rate(step), -own["lr_power"]
        before, linear = slots["squared"], slots["linear"]
        after = ops.add(before, ops.mul(g, g))
        root = ops.pow(after, power)
        change = ops.div(ops.sub(root, ops.pow(before, power)), rate)
        z = ops.sub(ops.add(linear, g), ops.mul(change, w))
        bottom = ops.add(ops.div(root, rate), 2.0 * own["l2"])
        top = ops.sub(ops.mul(ops.sign(z), own["l1"]), z)
        outer = ops.greater_than(ops.abs(z), own["l1"])
        slots["squared"][...] = after
        slots["linear"][...] = z
        w[...] = ops.where(outer, ops.div(top, bottom), 0.0)


class LarsMomentum(Optimizer):
    """Momentum whose rate each layer scales (You et al., 2017).

        v = mu * v + lr * coeff * |w| / (|g| + decay * |w|) * (g + decay * w); w -= v

    with the rate lr alone where a norm is 0.
    """

    _slots = ("velocity",)

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        momentum: float,
        lars_coeff: float = 0.001,
        lars_weight_decay: float = 0.0005,
        parameter_list: Iterable[Tensor] | None = None,
        regularization: DecayLike | None = None,
        grad_clip: ClipGrad | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate, parameter_list, regularization, grad_clip, name,
            momentum=float(momentum), lars_coeff=float(lars_coeff),
            lars_weight_decay=float(lars_weight_decay),
        )  # fmt: skip

    def _update(self, step: Step) -> None:
        g, own, w = _decayed(step), step.settings, step.weights
        decay, velocity = own["lars_weight_decay"], step.slot_values["velocity"]
        size, length = (ops.sqrt(ops.squared_norm(x)) for x in (w, g))
        both = ops.greater_than(ops.mul(size, length), 0.0)
        bottom = ops.add(length, ops.mul(size, decay))
        ratio = ops.div(ops.mul(size, own["lars_coeff"]), ops.where(both, bottom, 1.0))
        ratio = ops.where(both, ratio, 1.0)
        direction = ops.add(g, ops.mul(w, decay))
        step_size = ops.mul(_rate(step), ops.reshape(ratio, shape=[1]))
        result = ops.add(
            ops.mul(velocity, own["momentum"]), ops.mul(direction, step_size)
        )
        velocity[...] = result
        w[...] = ops.sub(w, result)


DecayedAdagradOptimizer = DecayedAdagrad
DpsgdOptimizer = Dpsgd
FtrlOptimizer = Ftrl
LarsMomentumOptimizer = LarsMomentum
