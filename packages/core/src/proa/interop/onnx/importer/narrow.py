"""Elements of fewer than 8 bits, and floats of 8: weights that are made wide.

Tensors have no such dtypes, so that wider ones hold their numbers. A value does not say
so afterwards: only nodes that widen elements or move them may read it.
"""

from __future__ import annotations

from collections.abc import Iterable

from proa.errors import UnimplementedError
from proa.interop.graph.node import Graph, Node
from proa.interop.graph.values import Array

#: What holds elements of a dtype, by NumPy's name.
HELD = {
    "int2": "int8", "int4": "int8", "uint2": "uint8", "uint4": "uint8",
    "float4_e2m1fn": "float32", "float8_e4m3fn": "float32",
    "float8_e4m3fnuz": "float32", "float8_e5m2": "float32",
    "float8_e5m2fnuz": "float32", "float8_e8m0fnu": "float32",
}  # fmt: skip
#: Operators that make wide elements of them.
_WIDEN = {"Cast", "DequantizeLinear"}
#: Operators that leave elements as they are.
_MOVE = {
    "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Shape", "Size",
    "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip


def widened(array: Array) -> Array:
    """The array with elements that tensors have."""
    wide = HELD.get(array.dtype.name)
    return array if wide is None else array.astype(wide)


def check_readers(graph: Graph, narrow: Iterable[str]) -> None:
    """Refuse nodes of a graph that would compute with narrow values as with wide ones.

    Args:
        narrow: The names of such values that the graph is given or has.

    Raises:
        UnimplementedError: If there are some, or a result of the graph is narrow.
    """
    known = set(narrow)
    if not known:
        return
    for node in graph.nodes:
        read = known.intersection(node.inputs)
        if not node.domain and node.op in _MOVE and read:
            known.update(node.outputs)
        elif read and (node.domain or node.op not in _WIDEN):
            raise _refused(f"{node.op} {node.name!r}", read)
        for inner in node.graphs():
            if not inner.is_function:
                check_readers(inner, known)
    results = known.intersection(info.name for info in graph.outputs)
    if results:
        raise _refused("a graph's output", results)


def check_attributes(node: Node) -> None:
    """Refuse narrow arrays among a node's attributes, unless it is a constant."""
    if node.op == "Constant" and not node.domain:
        return
    for name, value in node.attributes.items():
        dtype = getattr(getattr(value, "dtype", None), "name", "")
        if dtype in HELD:
            raise _refused(f"{node.op} {node.name!r}", [f"{name} ({dtype})"])


def _refused(what: str, names: Iterable[str]) -> UnimplementedError:
    return UnimplementedError(
        f"[onnx.load] {what} is not supported with elements of 8-bit floats or fewer "
        f"than 8 bits: {', '.join(sorted(names)[:3])}"
    )
