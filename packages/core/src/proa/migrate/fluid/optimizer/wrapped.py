"""Optimizers of 1.x around another one, and averages of what it trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.base.naming import unique_name
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.nn.schemes import Constant
from proa.optimizer import Optimizer
from proa.static import default_main_program
from proa.static.exporting import held_array
from proa.static.moving_average import ReplacedParameters
from proa.static.scope import Scope, global_scope
from proa.static.state import require_static

if TYPE_CHECKING:
    from proa.optimizer.optimizer import DecayLike, OptionalPairs, Pairs

__all__ = [
    "LookaheadOptimizer", "ModelAverage", "PipelineOptimizer", "RecomputeOptimizer",
]  # fmt: skip

#: How many values of a parameter `ModelAverage` adds to one sum.
_SUMMED = 16384


class LookaheadOptimizer:
    """Slow weights that go towards those of another optimizer (Zhang et al., 2019).

    Every k steps slow += alpha * (fast - slow), and fast = slow.

    Args:
        inner_optimizer: Makes the steps of the fast weights.
        alpha: How far slow weights go, in [0, 1].
        k: How many steps there are between.
    """

    def __init__(
        self, inner_optimizer: Optimizer, alpha: float = 0.5, k: int = 5
    ) -> None:
        if not 0.0 <= alpha <= 1.0 or k < 1:
            raise InvalidArgumentError(
                "[LookaheadOptimizer] expected alpha in [0, 1] and k greater than 0, "
                f"got alpha={alpha} and k={k}"
            )
        self.inner_optimizer, self.alpha, self.k = inner_optimizer, float(alpha), k
        self.type = "lookahead"

    def minimize(
        self, loss: Tensor, startup_program: object = None
    ) -> tuple[list[Tensor], Pairs]:
        """Record a step of the inner optimizer, and after it that of slow weights."""
        builder = require_static("LookaheadOptimizer")
        result = self.inner_optimizer.minimize(loss, startup_program)
        program = default_main_program()
        number = unique_name("lookahead_step")
        with NoTape(), program.role("optimize"):
            step = builder.state(number, [1], as_dtype("int64"), Constant(0))
            step[...] = ops.add(step, 1)
            due = ops.equal(ops.mod(step, self.k), 0)
            for p in program.all_parameters():
                slow = builder.copied(f"{p.name}@SLOW", p)
                fast = p.detach()
                moved = ops.add(
                    ops.mul(fast, self.alpha), ops.mul(slow, 1.0 - self.alpha)
                )
                slow[...] = ops.where(due, moved, slow)
                p[...] = ops.where(due, moved, fast)
        return result


class ModelAverage(ReplacedParameters):
    """Means of parameters over the last runs, to be tested in their place.

    A window begins again after `average_window_rate` of all runs, but not before
    `min_average_window` of them and at the latest after `max_average_window`; a mean is
    that of the window and of the one before.

    Args:
        average_window_rate: The share of all runs that a window has.
        min_average_window: The fewest runs of a window.
        max_average_window: The most of them.
        regularization: Has no meaning here.
        name: Has no meaning here.
    """

    def __init__(
        self,
        average_window_rate: float,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        regularization: DecayLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._share = float(average_window_rate)
        self._window = min_average_window, max_average_window
        self._stem = name or unique_name("model_average")
        self._names: list[str] = []
        require_static("ModelAverage")
        program = default_main_program()
        with NoTape(), program.role("optimize"):
            self._record(program.all_parameters())

    def _record(self, parameters: Iterable[Any]) -> None:
        """Counts, and for each parameter three sums: of the window's last values, of
        its older ones, and of the window before.
        """
        builder, whole = require_static("ModelAverage"), as_dtype("int64")
        runs, count, before = (
            builder.state(f"{self._stem}.{part}", [1], whole, Constant(0))
            for part in ("runs", "count", "before")
        )
        smallest, largest = self._window
        total, own = ops.add(runs, 1), ops.add(count, 1)
        wanted = ops.mul(ops.cast(total, dtype="float64"), self._share)
        limit = ops.minimum(ops.cast(wanted, dtype="int64"), largest)
        begins = ops.logical_and(
            ops.greater_equal(own, smallest), ops.greater_equal(own, limit)
        )
        moves = ops.equal(ops.mod(total, _SUMMED), 0)
        for p in parameters:
            last, older, past = (
                builder.state(f"{self._stem}.{p.name}.{part}", list(p.shape), p.dtype,
                              Constant(0.0))
                for part in ("last", "older", "past")
            )  # fmt: skip
            summed = ops.add(last, p.detach())
            shifted = ops.where(moves, ops.add(older, summed), older)
            unmoved = ops.where(moves, 0.0, summed)
            past[...] = ops.where(begins, ops.add(shifted, unmoved), past)
            last[...] = ops.where(begins, 0.0, unmoved)
            older[...] = ops.where(begins, 0.0, shifted)
            self._names.append(p.name)
        before[...] = ops.where(begins, own, before)
        count[...] = ops.where(begins, 0, own)
        runs[...] = total

    @contextmanager
    def apply(self, executor: object, need_restore: bool = True) -> Iterator[None]:
        """While open, the current scope holds means in place of parameters.

        Args:
            executor: Has no meaning here.
            need_restore: Whether the parameters come back at the end; else `restore`
                brings them.

        Raises:
            PreconditionNotMetError: If the program was not run.
        """
        scope = global_scope()
        count = sum(
            int(self._held(scope, f"{self._stem}.{part}")[0])
            for part in ("count", "before")
        )
        if not count:
            raise PreconditionNotMetError(
                "[ModelAverage.apply] expected runs of the program before, got none"
            )
        means = {}
        for name in self._names:
            parts = ("last", "older", "past")
            sums = [self._held(scope, f"{self._stem}.{name}.{part}") for part in parts]
            means[name] = np.add.reduce(sums) / count
        with self._replaced("ModelAverage.apply", means, need_restore):
            yield

    @staticmethod
    def _held(scope: Scope, name: str) -> Any:
        return held_array("ModelAverage.apply", scope, name)


class _Wrapped:
    """What does no more than the optimizer in it."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def backward(
        self,
        loss: Tensor,
        startup_program: object = None,
        parameter_list: Iterable[Tensor] | None = None,
        no_grad_set: Iterable[Tensor | str] | None = None,
        callbacks: object = None,
    ) -> Pairs:
        """The optimizer's `backward`."""
        return self._optimizer.backward(
            loss, startup_program, parameter_list, no_grad_set, callbacks
        )

    def apply_gradients(self, params_grads: OptionalPairs) -> list[Tensor]:
        """The optimizer's `apply_gradients`."""
        return self._optimizer.apply_gradients(params_grads)

    def minimize(
        self,
        loss: Tensor,
        startup_program: object = None,
        parameter_list: Iterable[Tensor] | None = None,
        no_grad_set: Iterable[Tensor | str] | None = None,
    ) -> tuple[list[Tensor], Pairs]:
        """The optimizer's `minimize`."""
        return self._optimizer.minimize(
            loss, startup_program, parameter_list, no_grad_set
        )


class PipelineOptimizer(_Wrapped):
    """An optimizer of a program in stages, which here run on one device.

    Args:
        optimizer: The optimizer.
        cut_list: Has no meaning here, and so have the others.
        place_list: See there.
        concurrency_list: See there.
        queue_size: See there.
        sync_steps: See there.
        start_cpu_core_id: See there.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        cut_list: object = None,
        place_list: object = None,
        concurrency_list: object = None,
        queue_size: int = 30,
        sync_steps: int = 1,
        start_cpu_core_id: int = 0,
    ) -> None:
        super().__init__(optimizer)


class RecomputeOptimizer(_Wrapped):
    """An optimizer whose gradients 1.x computed with less memory; the results are the
    same, the memory is that of a usual run.
    """

    def _set_checkpoints(self, checkpoints: Sequence[Any]) -> None:
        """Nothing: what to keep is for the saving of memory alone."""

    def load(self, stat_dict: object) -> None:
        """Refused, as by 1.x."""
        raise NotImplementedError(
            "[RecomputeOptimizer.load] expected load of the inner optimizer"
        )
