"""`proa.static.amp` with bfloat16."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proa import _core
from proa.ir import Program
from proa.ir.record import to_array
from proa.optimizer import Optimizer
from proa.static.amp.decorator import OptimizerWithMixedPrecision
from proa.static.amp.guard import fp16_guard
from proa.static.amp.lists import AutoMixedPrecisionLists
from proa.static.amp.rewrite import rewrite, store_low
from proa.static.program import Program as StaticProgram
from proa.static.scope import Scope

__all__ = [
    "AutoMixedPrecisionListsBF16", "bf16_guard", "cast_model_to_bf16",
    "cast_parameters_to_bf16", "convert_float_to_uint16", "decorate_bf16",
    "rewrite_program_bf16",
]  # fmt: skip


class AutoMixedPrecisionListsBF16(AutoMixedPrecisionLists):
    """Operators by class; ``bf16_list`` compute in bfloat16, ``fp32_list`` in float32.

    Args:
        custom_bf16_list: Operators to compute in bfloat16.
        custom_fp32_list: Operators to compute in float32.
        custom_fp32_varnames: Names of values; what reads or makes one stays float32.
    """

    def __init__(
        self,
        custom_bf16_list: Iterable[str] | None = None,
        custom_fp32_list: Iterable[str] | None = None,
        custom_fp32_varnames: Iterable[str] | None = None,
    ) -> None:
        super().__init__(
            custom_bf16_list, custom_fp32_list, custom_fp32_varnames, "bfloat16"
        )
        self.bf16_list, self.fp32_list = self.white_list, self.black_list


def bf16_guard() -> AbstractContextManager[None]:
    """Mark the operators recorded in the block as such that may run in bfloat16."""
    return fp16_guard()


def decorate_bf16(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    use_pure_bf16: bool = False,
    use_bf16_guard: bool | None = None,
) -> OptimizerWithMixedPrecision:
    """`proa.static.amp.decorate` with bfloat16, whose range needs no scaled losses.

    Args:
        optimizer: Takes the steps.
        amp_lists: The classes of operators; None takes the rows' own.
        use_pure_bf16: Level O2 instead of O1.
        use_bf16_guard: At level O2, compute in 16 bits within `bf16_guard` alone; None
            means yes.
    """
    level = "O2" if use_pure_bf16 else "O1"
    return OptimizerWithMixedPrecision(
        optimizer, amp_lists, level, "bfloat16", use_bf16_guard, None
    )


def rewrite_program_bf16(
    main_prog: Program | StaticProgram, amp_lists: AutoMixedPrecisionLists | None = None
) -> None:
    """Let the white list's operators, and what follows them, compute in bfloat16."""
    rewrite("rewrite_program_bf16", main_prog, amp_lists, "bfloat16", "O1", False)


def cast_model_to_bf16(
    program: Program | StaticProgram,
    startup_prog: Any = None,
    amp_lists: AutoMixedPrecisionLists | None = None,
    use_bf16_guard: bool = True,
) -> set[str]:
    """`proa.static.amp.cast_model_to_fp16` with bfloat16, at level O2.

    Args:
        program: A static or recorded program, rewritten in place.
        startup_prog: Ignored.
        amp_lists: The classes of operators; None takes the rows' own.
        use_bf16_guard: Rewrite what was recorded in `bf16_guard` alone.

    Returns:
        The names of parameters that are read in bfloat16 alone.
    """
    where = "cast_model_to_bf16"
    return rewrite(where, program, amp_lists, "bfloat16", "O2", use_bf16_guard)


def cast_parameters_to_bf16(
    place: Any,
    program: Program | StaticProgram,
    scope: Scope | None = None,
    to_bf16_var_names: Iterable[str] | None = None,
) -> None:
    """`proa.static.amp.cast_parameters_to_fp16` with bfloat16."""
    where = "cast_parameters_to_bf16"
    store_low(where, program, to_bf16_var_names, "bfloat16", scope)


def convert_float_to_uint16(in_list: ArrayLike) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16 of each number."""
    wide = np.asarray(in_list, np.float32)
    tensor = _core.ops.cast(_core.from_numpy(wide, True), dtype="bfloat16")
    return to_array(tensor).reshape(wide.shape)
