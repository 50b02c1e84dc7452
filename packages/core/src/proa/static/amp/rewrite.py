"""A float32 program -> one that computes in 16 bits where that is fast and safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from proa import _core
from proa.amp.autocast import check_level, low_dtype
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.ir import Program, verify
from proa.ir.attributes import row_of
from proa.ir.builder import make_node
from proa.ir.flow import has_flow
from proa.ir.passes import apply
from proa.ir.program import Node, Value
from proa.ir.record import to_array
from proa.ir.shapes import infer
from proa.static.amp.lists import AutoMixedPrecisionLists

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike

_LOW = ("float16", "bfloat16")


def _converted(value: Value, dtype: str) -> Any:
    """The elements of a float32 constant in that dtype, as the graph holds them."""
    tensor = _core.from_numpy(np.asarray(value.data), True)
    return to_array(_core.ops.cast(tensor, dtype=dtype))


class _Rewriter:
    """Puts casts between nodes of one program.

    Args:
        program: What is rewritten.
        lists: The classes of operators.
        low: The 16-bit dtype.
        level: "O1" or "O2".
        guarded: Whether nodes without the mark of `fp16_guard` stay float32.
    """

    def __init__(
        self,
        program: Program,
        lists: AutoMixedPrecisionLists,
        low: str,
        level: str,
        guarded: bool,
    ) -> None:
        self.program, self.lists, self.low = program, lists, low
        self.classes = lists.classes(level)
        self.guarded = guarded
        self.nodes: list[Node] = []
        self.casts: dict[tuple[Value, str], Value] = {}
        #: What the program gave in float32 when it began.
        self.wide = [v for v in program.main.outputs if v.dtype == "float32"]

    def run(self) -> None:
        for node in self.program.main.nodes:
            self._convert(node, self._kind(node))
            self.nodes.append(node)
        block = self.program.main
        wide = set(self.wide)
        block.outputs = [
            self._cast(v, "float32") if v in wide and v.dtype in _LOW else v
            for v in block.outputs
        ]
        block.nodes = self.nodes

    def _kind(self, node: Node) -> str:
        row = row_of(node.op)
        names = {v.name for v in (*node.inputs, *node.outputs) if v is not None}
        if (self.guarded and not node.low) or names & self.lists.black_varnames:
            return "black"
        kind = self.classes.get(node.op, "gray")
        if "float32" in row.dtypes and self.low not in row.dtypes:
            return "black"
        dtypes = {v.dtype for v in node.inputs if v is not None and not _weak(v)}
        narrow = self.low in dtypes
        if kind == "gray" and narrow and "float32" in dtypes:
            return "black"  # they meet in the wider
        if kind == "gray" and narrow:
            return "white"  # for numbers combined with 16-bit tensors
        return kind

    def _convert(self, node: Node, kind: str) -> None:
        if kind in ("white", "black"):
            old, new = (
                ("float32", self.low) if kind == "white" else (self.low, "float32")
            )
            node.inputs = [
                self._cast(v, new) if v is not None and v.dtype == old else v
                for v in node.inputs
            ]
        specs = infer(node.op, node.inputs, node.attrs)
        for value, (dtype, _) in zip(node.outputs, specs, strict=True):
            value.dtype = dtype

    def _cast(self, value: Value, dtype: str) -> Value:
        found = self.casts.get((value, dtype))
        if found is None:
            if value.kind == "const" and value.data is not None:
                found = self.program.constant(_converted(value, dtype), dtype)
            else:
                node = make_node(self.program, "cast", [value], {"dtype": dtype})
                self.nodes.append(node)
                (found,) = node.outputs
            self.casts[value, dtype] = found
        return found


def _weak(value: Value) -> bool:
    """A number combined with a tensor, which takes the tensor's dtype."""
    return value.kind == "const" and int(np.prod(value.shape)) == 1


def rewrite(
    where: str,
    program: Any,
    lists: AutoMixedPrecisionLists | None,
    low: Any,
    level: str,
    guarded: bool,
) -> set[str]:
    """Rewrite in place; the names of parameters that are read in 16 bits alone."""
    if not isinstance(program, Program):
        raise InvalidArgumentError(
            f"[{where}] program must be a recorded Program, got "
            f"{type(program).__name__}"
        )
    if has_flow(program):
        raise UnimplementedError(
            f"[{where}] program must have no branches and loops, got some"
        )
    check_level(where, level)
    dtype = low_dtype(where, low).name
    chosen = lists if lists is not None else AutoMixedPrecisionLists(dtype=dtype)
    if level != "O0":
        _Rewriter(program, chosen, dtype, level, guarded).run()
        verify(program)
        apply(program, ["remove_dead_code"])
    return {
        value.name
        for value in program.main.constants()
        if value.kind == "param" and value.users and all(map(_narrows, value.users))
    }


def _narrows(node: Node) -> bool:
    return node.op == "cast" and node.outputs[0].dtype in _LOW


def store_low(where: str, program: Any, names: Iterable[str] | None, low: Any) -> None:
    """Hold parameters in 16 bits that are read so alone: all such, or these."""
    dtype = low_dtype(where, low).name
    wanted = None if names is None else set(names)
    block = program.main
    narrowed: set[Node] = set()
    for value in block.constants():
        chosen = wanted is None or value.name in wanted
        own = value.users
        if value.kind != "param" or not chosen or not all(map(_narrows, own)):
            continue
        if own and value.dtype == "float32":
            value.data, value.dtype = _converted(value, dtype), dtype
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
    """Let a recorded program compute in 16 bits; in place.

    What it is given and gives stays float32. Parameters do too, until
    `cast_parameters_to_fp16`.

    Args:
        program: What `to_static` recorded: a ``StaticFunction``'s ``main_program`` or a
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
    program: Program,
    scope: Any = None,
    to_fp16_var_names: Iterable[str] | None = None,
    dest_type: DTypeLike = "float16",
    rewrite_master_weight: bool = False,
    master_weights: Mapping[str, Any] | None = None,
) -> None:
    """Hold the parameters of a rewritten program in 16 bits, which halves them.

    Args:
        place: Ignored: a program holds its parameters itself.
        program: What `cast_model_to_fp16` rewrote.
        scope: Ignored.
        to_fp16_var_names: What that gave; None takes all that are read so alone.
        dest_type: The dtype it was rewritten to.
        rewrite_master_weight: Ignored.
        master_weights: Ignored.
    """
    store_low("cast_parameters_to_fp16", program, to_fp16_var_names, dest_type)
