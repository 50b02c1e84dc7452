"""A schedule that goes by a measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.optimizer.lr.base import LRScheduler


class ReduceOnPlateau(LRScheduler):
    """Multiply by factor when a measure has not improved for more than patience steps.

    Args:
        learning_rate: The rate to begin with.
        mode: Whether "min" or "max" is better.
        factor: What the rate is multiplied by.
        patience: Steps without improvement to put up with.
        threshold: The least improvement that counts.
        threshold_mode: Whether threshold is "rel" or "abs".
        cooldown: Steps after a reduction that do not count.
        min_lr: The least rate.
        epsilon: Reductions below this are left out.
        verbose: Whether to print each new rate.
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise InvalidArgumentError(
                "[ReduceOnPlateau] mode must be min or max and threshold_mode rel or "
                f"abs, got {mode!r} and {threshold_mode!r}"
            )
        if factor >= 1.0:
            raise InvalidArgumentError(
                f"[ReduceOnPlateau] factor must be below 1, got {factor}"
            )
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.min_lr, self.epsilon = cooldown, min_lr, epsilon
        self.cooldown_counter, self.num_bad_epochs = 0, 0
        self.best: float | None = None
        # The base's constructor would call step, which needs a measure here.
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch, self.verbose = 0, verbose

    def state_keys(self) -> list[str]:
        own = ["cooldown_counter", "best", "num_bad_epochs"]
        return [*own, *super().state_keys()]

    def get_lr(self) -> float:
        return self.last_lr

    def _better(self, value: float) -> bool:
        if self.best is None:
            return True
        sign = -1.0 if self.mode == "min" else 1.0
        margin = self.threshold
        if self.threshold_mode == "rel":
            margin *= self.best
            return sign * value > sign * (self.best + sign * margin)
        return sign * value > sign * self.best + margin

    def step(  # type: ignore[override]  # as in Paddle
        self,
        metrics: float | Sequence[float] | Tensor | None = None,
        epoch: int | None = None,
    ) -> None:
        """Move on with the measure of this epoch."""
        if metrics is None:
            raise InvalidArgumentError(
                "[ReduceOnPlateau.step] expected metrics, got None"
            )
        value: Any = metrics.item() if isinstance(metrics, Tensor) else metrics
        if hasattr(value, "__len__"):
            (value,) = value
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self._better(float(value)):
            self.best, self.num_bad_epochs = float(value), 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            reduced = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - reduced > self.epsilon:
                self.last_lr = reduced
                if self.verbose:
                    print(f"Epoch {self.last_epoch}: ReduceOnPlateau sets {reduced}.")
