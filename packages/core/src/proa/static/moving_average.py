"""`ExponentialMovingAverage`: smoothed parameters of a static program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.base.naming import unique_name
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.nn.schemes import Constant
from proa.static.exporting import held_array
from proa.static.mode import default_main_program
from proa.static.scope import Scope, global_scope
from proa.static.state import require_static


class ReplacedParameters:
    """Parameters of the current scope that averages replace until `restore`."""

    def __init__(self) -> None:
        self._saved: dict[str, Any] = {}

    @contextmanager
    def _replaced(
        self, where: str, averages: Mapping[str, Any], need_restore: bool
    ) -> Iterator[None]:
        """While open, the current scope holds these arrays, by names of parameters."""
        scope = global_scope()
        self._saved = {n: held_array(where, scope, n).copy() for n in averages}
        for name, array in averages.items():
            self._put(scope, name, array)
        try:
            yield
        finally:
            if need_restore:
                self.restore(None)

    @staticmethod
    def _put(scope: Scope, name: str, array: Any) -> None:
        found = scope.find_var(name)
        assert found is not None and found.tensor is not None
        found.set(np.asarray(array), found.tensor.dtype)

    def restore(self, executor: object) -> None:
        """Let the current scope hold the parameters again that `apply` replaced."""
        scope = global_scope()
        for name, array in self._saved.items():
            self._put(scope, name, array)
        self._saved = {}


class ExponentialMovingAverage(ReplacedParameters):
    """Averages of the program's trained parameters, to be tested in their place.

        average = decay * average + (1 - decay) * parameter,

    and `apply` divides by 1 - decay^n after n updates, as averages begin with zeros.

    Args:
        decay: Share of the old average, in [0, 1).
        thres_steps: A Variable that counts steps: then the share is the smaller of
            decay and (1 + thres_steps) / (10 + thres_steps). None for decay alone.
        name: What names of the averages begin with.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If decay is not in [0, 1).
    """

    def __init__(
        self,
        decay: float = 0.999,
        thres_steps: Tensor | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        require_static("ExponentialMovingAverage")
        if not 0 <= decay < 1:
            raise InvalidArgumentError(
                "[static.ExponentialMovingAverage] decay must be in [0, 1), got "
                f"{decay!r}"
            )
        self._decay, self._thres_steps = float(decay), thres_steps
        self._name = name or unique_name("ema")
        self._counter = f"{self._name}.step"
        self._rate = f"{self._name}.decay"
        #: Names of averages, by those of parameters.
        self._averages: dict[str, str] = {}

    def update(self) -> None:
        """Record what updates the averages, after what is recorded so far; once."""
        builder = require_static("ExponentialMovingAverage.update")
        program = default_main_program()
        kind = as_dtype("float32")
        step = builder.state(self._counter, [1], as_dtype("int64"), Constant(0))
        rate = builder.state(self._rate, [1], kind, Constant(self._decay))
        trained = [p for p in program.all_parameters() if p.trainable]
        with NoTape(), program.role("optimize"):
            step[...] = ops.add(step, 1)
            if self._thres_steps is not None:
                steps = ops.cast(self._thres_steps, dtype=kind)
                share = ops.div(ops.add(steps, 1.0), ops.add(steps, 10.0))
                share = ops.minimum(share, self._decay)
                rate[...] = ops.reshape(share, shape=[1])
            for p in trained:
                own = f"{self._name}.{p.name}"
                average = builder.state(own, list(p.shape), p.dtype, Constant(0.0))
                self._averages[p.name] = own
                share = ops.cast(ops.reshape(rate, shape=[]), dtype=p.dtype)
                other = ops.sub(1.0, share)
                average[...] = ops.add(
                    ops.mul(average, share), ops.mul(p.detach(), other)
                )

    @contextmanager
    def apply(self, executor: object, need_restore: bool = True) -> Iterator[None]:
        """While open, the current scope holds averages in place of parameters.

        Args:
            executor: Has no meaning here.
            need_restore: Whether the parameters come back at the end; else `restore`
                brings them.

        Raises:
            PreconditionNotMetError: If `update` was not called, or its program not run.
        """
        where = "ExponentialMovingAverage.apply"
        if not self._averages:
            raise PreconditionNotMetError(
                f"[static.{where}] expected averages, which update() makes, got none"
            )
        averages = self._corrected(where, global_scope())
        with self._replaced(where, averages, need_restore):
            yield

    def _corrected(self, where: str, scope: Scope) -> dict[str, Any]:
        """The averages, without what they began with."""
        steps = int(held_array(where, scope, self._counter)[0])
        rate = float(held_array(where, scope, self._rate)[0])
        factor = 1 - rate**steps if steps else 1.0
        return {
            name: held_array(where, scope, own) / factor
            for name, own in self._averages.items()
        }
