"""`ParallelExecutor`: an Executor of one program, by its older name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proa.errors import UnavailableError
from proa.static.compiled_program import BuildStrategy, ExecutionStrategy
from proa.static.executor import Executor
from proa.static.mode import default_main_program
from proa.static.program import Program
from proa.static.scope import Scope


class ParallelExecutor:
    """Runs one program; the CPU's cores share the work of every operator.

    Args:
        use_cuda: Must be False.
        loss_name: Kept for callers.
        main_program: The program; None is `default_main_program`.
        share_vars_from: Another one, whose scope is taken.
        exec_strategy: Kept for callers.
        build_strategy: Kept for callers.
        num_trainers: Must be 1.
        trainer_id: Must be 0.
        scope: Where persistable Variables are; None is the current one of each run.

    Raises:
        UnavailableError: If a GPU or several trainers are requested.
    """

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: ParallelExecutor | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Scope | None = None,
    ) -> None:
        if use_cuda or num_trainers != 1 or trainer_id:
            raise UnavailableError(
                "[static.ParallelExecutor] expected the CPU and one trainer, got "
                f"use_cuda={use_cuda}, num_trainers={num_trainers}"
            )
        self._program = default_main_program() if main_program is None else main_program
        self._scope = scope
        if share_vars_from is not None:
            self._scope = share_vars_from._scope
        self._executor = Executor()

    @property
    def device_count(self) -> int:
        """1."""
        return 1

    def run(
        self,
        fetch_list: Any,
        feed: Mapping[str, Any] | None = None,
        feed_dict: Mapping[str, Any] | None = None,
        return_numpy: bool = True,
    ) -> list[Any]:
        """Run the program once; see `Executor.run`.

        Args:
            fetch_list: Variables or their names.
            feed: Arrays or Tensors by the inputs' names.
            feed_dict: The same by its older name.
            return_numpy: Whether arrays are returned, or Tensors.
        """
        return self._executor.run(
            self._program,
            feed if feed is not None else feed_dict,
            fetch_list,
            scope=self._scope,
            return_numpy=return_numpy,
        )

    def drop_local_exe_scopes(self) -> None:
        """Forget what runs keep for the next: nothing but plans."""
        self._executor.close()
