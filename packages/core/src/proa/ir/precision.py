"""Casts between the nodes of a graph, by the classes of its operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from proa.ir.attributes import row_of
from proa.ir.builder import make_node
from proa.ir.flow import bodies_of, is_flow
from proa.ir.passes.pipeline import apply
from proa.ir.passes.scaled_convolution import unfuse_norm
from proa.ir.program import Block, Node, Program, Value
from proa.ir.shapes import infer
from proa.ir.verify import verify
from proa.schema import ROWS

LOW = ("float16", "bfloat16")
#: Rows of autocast's black list that sum in float32 inside, whatever they are given.
_SUMS_WIDE = {"log_softmax", "logsumexp", "mean", "recurrent", "softmax", "sum"}


def converted(value: Value, dtype: str) -> Any:
    """The elements of a float32 constant in that dtype, as the graph holds them."""
    from proa import _core
    from proa.ir.record import to_array

    tensor = _core.from_numpy(np.asarray(value.data), True)
    return to_array(_core.ops.cast(tensor, dtype=dtype))


class Rewriter:
    """Puts casts between nodes of one program.

    Args:
        program: What is rewritten.
        classes: Those of autocast for rows, or "follow": 16 bits if an array is of 16.
        low: The 16-bit dtype.
        wide_names: Names of values; what reads or makes one stays float32.
        guarded: Whether nodes without the mark of `fp16_guard` stay float32.
        folds: Whether parameters are converted here, not by casts.
    """

    def __init__(
        self,
        program: Program,
        classes: Mapping[str, str],
        low: str,
        wide_names: Collection[str] = (),
        guarded: bool = False,
        folds: bool = False,
    ) -> None:
        self.program, self.classes, self.low = program, classes, low
        self.wide_names = frozenset(wide_names)
        self.guarded, self.folds = guarded, folds
        #: The bodies that are rewritten.
        self.bodies: set[int] = set()
        self.nodes: list[Node] = []
        self.casts: dict[tuple[Value, str], Value] = {}

    def run(self) -> None:
        self._rewrite(self.program.main)

    def _rewrite(self, block: Block) -> None:
        """Rewrite a block and the bodies in it, which give float32 where they did."""
        outer, self.nodes, self.casts = (self.nodes, self.casts), [], {}
        wide = {v for v in block.outputs if v.dtype == "float32"}
        for node in block.nodes:
            if is_flow(node):
                self._convert_flow(node)
            else:
                self._convert(node, self._kind(node))
            self.nodes.append(node)
        block.outputs = [
            self._cast(v, "float32") if v in wide and v.dtype in LOW else v
            for v in block.outputs
        ]
        block.nodes = self.nodes
        self.nodes, self.casts = outer

    def _convert_flow(self, node: Node) -> None:
        """A branch or loop takes and gives float32; its bodies cast within."""
        for index in bodies_of(node).values():
            if index not in self.bodies:
                self.bodies.add(index)
                self._rewrite(self.program.blocks[index])
        self._widen_inputs(node)

    def _widen_inputs(self, node: Node) -> None:
        """Give a branch or loop float32 where its bodies take it."""
        given = self.program.blocks[next(iter(bodies_of(node).values()))].inputs
        first = len(node.inputs) - len(given)  # a branch's condition
        wanted = [None] * first + [v.dtype for v in given]
        node.inputs = [
            self._cast(v, "float32")
            if v is not None and v.dtype in LOW and dtype == "float32"
            else v
            for v, dtype in zip(node.inputs, wanted, strict=True)
        ]

    def _kind(self, node: Node) -> str:
        row = row_of(node.op)
        names = {v.name for v in (*node.inputs, *node.outputs) if v is not None}
        if (self.guarded and not node.low) or names & self.wide_names:
            return "black"
        kind = self.classes.get(node.op, "gray")
        if "float32" in row.dtypes and self.low not in row.dtypes:
            return "black"
        dtypes = {v.dtype for v in node.inputs if v is not None and not _weak(v)}
        narrow = self.low in dtypes
        if kind == "follow":
            return "white" if narrow else "gray"
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
            fixed = value.kind == "const" or (self.folds and value.is_constant)
            if fixed and value.data is not None:
                found = self.program.constant(converted(value, dtype), dtype)
            else:
                node = make_node(self.program, "cast", [value], {"dtype": dtype})
                self.nodes.append(node)
                (found,) = node.outputs
            self.casts[value, dtype] = found
        return found


def _weak(value: Value) -> bool:
    """A number combined with a tensor, which takes the tensor's dtype."""
    return value.kind == "const" and int(np.prod(value.shape)) == 1


def narrows(node: Node) -> bool:
    """Whether a node is a cast to 16 bits."""
    return node.op == "cast" and node.outputs[0].dtype in LOW


def compute_in_bfloat16(program: Program, keep: Collection[str] = ()) -> None:
    """Let a float32 model for inference compute in bfloat16; in place.

    Products, convolutions, attention, embeddings and recurrent nets take bfloat16 and
    sum in float32. What follows them stays in bfloat16 as far as it has kernels: norms
    with float32 parameters, sums, means and softmax, which compute in float32 inside.
    Logarithms, exponentials and powers, what no product comes before (such as
    positions), and inputs and outputs are float32. Weights are converted here. Fusions
    come before, so that the constants in them stay float32; a convolution with a norm
    or a scale at its end is taken apart, as its kernels are of float32.

    Args:
        keep: Rows, or names of values that nodes make, that stay in float32.
    """
    unfuse_norm(program, keep)
    classes = dict(_INFERENCE_CLASSES)
    classes.update(dict.fromkeys((name for name in keep if name in ROWS), "black"))
    names = [value.name for value in program.main.outputs]
    wide = list(program.main.outputs)
    values = [name for name in keep if name not in ROWS]
    Rewriter(program, classes, "bfloat16", values, folds=True).run()
    for name, old, new in zip(names, wide, program.main.outputs, strict=True):
        if new is not old:  # a cast takes the name
            old.name, new.name = new.name, name
    program.metadata["precision"] = "bfloat16"
    verify(program)
    apply(program, ["remove_dead_code"])


def _inference_class(name: str) -> str:
    row = ROWS[name]
    if row.autocast == "white" or name in _NARROW:
        return "white"
    if row.autocast == "mixed":
        return "mixed"
    return "black" if row.autocast == "black" and name not in _SUMS_WIDE else "follow"


#: Rows without gradients, and those that training leaves in float32.
_NARROW = {"conv2d_act", "embedding", "linear_act", "recurrent"}
_INFERENCE_CLASSES = {name: _inference_class(name) for name in ROWS}
