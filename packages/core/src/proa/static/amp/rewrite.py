"""A float32 program -> one that computes in 16 bits where that is fast and safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from proa.amp.autocast import check_level, low_dtype
from proa.errors import InvalidArgumentError
from proa.ir import Program, verify
from proa.ir.passes import apply
from proa.ir.precision import Rewriter, converted, narrows
from proa.ir.program import Node
from proa.static.amp.built import rewrite_built, store_built_low
from proa.static.amp.lists import AutoMixedPrecisionLists
from proa.static.program import Program as StaticProgram
from proa.static.scope import Scope, global_scope

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike


def rewrite(
    where: str,
    program: Any,
    lists: AutoMixedPrecisionLists | None,
    low: Any,
    level: str,
    guarded: bool,
) -> set[str]:
    """Rewrite in place; the names of parameters that are read in 16 bits alone."""
    if isinstance(program, StaticProgram):
        check_level(where, level)
        kind = low_dtype(where, low).name
        own = lists or AutoMixedPrecisionLists(dtype=kind)
        return rewrite_built(where, program, own, kind, level, guarded)
    if not isinstance(program, Program):
        raise InvalidArgumentError(
            f"[{where}] program must be a static or recorded Program, got "
            f"{type(program).__name__}"
        )
    check_level(where, level)
    dtype = low_dtype(where, low).name
    chosen = lists if lists is not None else AutoMixedPrecisionLists(dtype=dtype)
    if level != "O0":
        wide = chosen.black_varnames
        Rewriter(program, chosen.classes(level), dtype, wide, guarded).run()
        verify(program)
        apply(program, ["remove_dead_code"])
    return {
        value.name
        for value in program.main.constants()
        if value.kind == "param" and value.users and all(map(narrows, value.users))
    }


def store_low(
    where: str,
    program: Any,
    names: Iterable[str] | None,
    low: Any,
    scope: Scope | None = None,
) -> None:
    """Hold parameters in 16 bits that are read so alone: all such, or these."""
    dtype = low_dtype(where, low).name
    wanted = None if names is None else set(names)
    if isinstance(program, StaticProgram):
        store_built_low(where, program, wanted, dtype, scope or global_scope())
        return
    block = program.main
    narrowed: set[Node] = set()
    for value in block.constants():
        chosen = wanted is None or value.name in wanted
        own = value.users
        if value.kind != "param" or not chosen or not all(map(narrows, own)):
            continue
        if own and value.dtype == "float32":
            value.data, value.dtype = converted(value, dtype), dtype
            for node in own:
                block.replace(node.outputs[0], value)
                narrowed.add(node)
    block.nodes = [n for n in block.nodes if n not in narrowed]
    verify(program)


def cast_model_to_fp16(
    program: Any,
    amp_lists: AutoMixedPrecisionLists | None = None,
    use_fp16_guard: bool = True,
    dest_type: DTypeLike = "float16",
    level: str = "O2",
    use_promote: bool = False,
) -> set[str]:
    """Let a program for inference compute in 16 bits; in place.

    What it is given and gives stays float32. Parameters do too, until
    `cast_parameters_to_fp16`. For training `decorate` does that as gradients need it.

    Args:
        program: A static program without gradients, such as a clone for tests; or what
            `to_static` recorded: a ``StaticFunction``'s ``main_program`` or a
            ``TracedLayer``'s ``program``.
        amp_lists: The classes of operators; None takes the rows' own.
        use_fp16_guard: Rewrite what was recorded in `fp16_guard` alone.
        dest_type: "float16" or "bfloat16".
        level: "O2" (all arithmetic that is not of the black list), "O1" (the white list
            and what follows it) or "O0" (nothing).
        use_promote: Kept for callers; unlike dtypes always meet in the wider.

    Returns:
        The names of parameters that are read in 16 bits alone.

    Raises:
        InvalidArgumentError: If program is no Program, or dest_type or level unknown.
    """
    where = "cast_model_to_fp16"
    return rewrite(where, program, amp_lists, dest_type, level, use_fp16_guard)


def cast_parameters_to_fp16(
    place: Any,
    program: Program | StaticProgram,
    scope: Scope | None = None,
    to_fp16_var_names: Iterable[str] | None = None,
    dest_type: DTypeLike = "float16",
    rewrite_master_weight: bool = False,
    master_weights: Mapping[str, Any] | None = None,
) -> None:
    """Hold the parameters of a rewritten program in 16 bits, which halves them.

    Args:
        place: Ignored.
        program: What `cast_model_to_fp16` rewrote.
        scope: Where a static program's parameters are; None is the current one. A
            recorded program holds them itself.
        to_fp16_var_names: What that gave; None takes all that are read so alone.
        dest_type: The dtype it was rewritten to.
        rewrite_master_weight: Ignored.
        master_weights: Ignored.
    """
    where = "cast_parameters_to_fp16"
    store_low(where, program, to_fp16_var_names, dest_type, scope)
