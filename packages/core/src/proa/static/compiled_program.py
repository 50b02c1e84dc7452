"""What programs for several devices and graph optimizers name; there is one engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa.base.device import check_place
from proa.errors import InvalidTypeError
from proa.static.program import Program


class _Options:
    """Settings that are kept for callers: plans are optimised in any case."""

    def __init__(self) -> None:
        self.__dict__["_values"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["_values"][name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__["_values"].get(name)


class BuildStrategy(_Options):
    """How Paddle optimises a graph. Any setting is taken and has no effect: what can be
    fused is.
    """

    class ReduceStrategy:
        """How devices add gradients; there is one device."""

        AllReduce, Reduce, _NoReduce = 0, 1, 2

    class GradientScaleStrategy:
        """How the loss's own gradient is scaled; there is one device."""

        CoeffNumDevice, One, Customized = 0, 1, 2


class ExecutionStrategy(_Options):
    """How Paddle runs a graph: threads, iterations. Any setting is taken and has no
    effect.
    """


class CompiledProgram:
    """A program for `Executor.run`, which plans every program; the same as the program
    itself.

    Args:
        program_or_graph: The program.
        build_strategy: Kept for callers.

    Raises:
        InvalidTypeError: If it is no Program.
    """

    def __init__(
        self, program_or_graph: Any, build_strategy: BuildStrategy | None = None
    ) -> None:
        found = getattr(program_or_graph, "program", program_or_graph)
        if not isinstance(found, Program):
            raise InvalidTypeError(
                "[static.CompiledProgram] expected a Program, got "
                f"{type(program_or_graph).__name__}"
            )
        self.program = found
        self.build_strategy = build_strategy
        #: How many places of inference have a part of the batch each.
        self.place_count = 1

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: object = None,
        places: Sequence[object] | object = None,
    ) -> CompiledProgram:
        """The same program, for several places.

        A program that updates Variables runs with the whole batch, as one step: the
        CPU's cores share the work of every operator. Another one runs once for each
        place with its part of the batch, and results are merged; see `Executor.run`.

        Args:
            loss_name: Kept for callers.
            build_strategy: Kept for callers.
            exec_strategy: Kept for callers.
            share_vars_from: Kept for callers.
            places: As `cpu_places` gives them; None is one.

        Raises:
            UnavailableError: If one of them is not the CPU.
        """
        given = places if isinstance(places, (list, tuple)) else [places]
        for place in given:
            check_place("static.CompiledProgram.with_data_parallel", place)
        self.place_count = max(len(given), 1)
        return self

    def with_inference_optimize(self, config: object) -> CompiledProgram:
        """The same: plans for inference are optimised in any case."""
        return self
