"""Elements of fewer than 8 bits, and floats of 8: weights that are made wide.

Tensors have no such dtypes, so that wider ones hold their numbers. A value does not say
so afterwards: only nodes that widen elements, move them or round to their dtype may
read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
#: The names of element types of messages.
KINDS = {
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2",
    20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn",
    25: "uint2", 26: "int2",
}  # fmt: skip
#: The attribute of nodes whose results are narrow: NumPy's name of their dtype.
RESULT = "narrow result"
#: Operators that leave elements as they are.
_MOVE = {
    "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Shape", "Size",
    "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
#: Inputs of operators that widen narrow elements, or say which the result has.
_READ = {
    "Cast": (0,), "CastLike": (0, 1), "DequantizeLinear": (0, 1, 2),
    "QuantizeLinear": (2,),
}  # fmt: skip


def widened(array: Array) -> Array:
    """The array with elements that tensors have."""
    wide = HELD.get(array.dtype.name)
    return array if wide is None else array.astype(wide)


def check_readers(graph: Graph, narrow: Mapping[str, str], inner: bool = True) -> None:
    """Mark nodes whose results are narrow, and refuse those of a graph that would
    compute with narrow values as with wide ones.

    Args:
        narrow: The dtypes of such values that the graph is given or has.
        inner: Whether the graph is part of another, whose readers of its outputs would
            not know that they are narrow.

    Raises:
        UnimplementedError: If there are some, or an output of an inner graph is narrow.
    """
    known = dict(narrow)
    for node in graph.nodes:
        read = {i: n for i, n in enumerate(node.inputs) if n in known}
        kind = None if node.domain else _result(node, read, known)
        if kind is not None:
            known.update(dict.fromkeys(node.outputs, kind))
            if node.op not in _MOVE:
                node.attributes[RESULT] = kind
        if not node.domain and node.op in _MOVE:
            read = {}
        allowed = () if node.domain else _READ.get(node.op, ())
        if refused := [name for i, name in read.items() if i not in allowed]:
            raise _refused(f"{node.op} {node.name!r}", refused)
        for part in node.graphs():
            if not part.is_function:
                check_readers(part, known)
    results = known.keys() & {info.name for info in graph.outputs}
    if inner and results:
        raise _refused("an output of a part of the graph", results)


def _result(
    node: Node, read: Mapping[int, str], known: Mapping[str, str]
) -> str | None:
    """The narrow dtype of a node's results, if it is one."""
    if node.op in _MOVE and node.op not in ("Shape", "Size"):
        return known[read[0]] if 0 in read else None
    if node.op == "Cast":
        return KINDS.get(node.attributes.get("to", 0))
    if node.op == "CastLike":
        return known[read[1]] if 1 in read else None
    if node.op == "QuantizeLinear":
        named = KINDS.get(node.attributes.get("output_dtype", 0))
        return known[read[2]] if 2 in read else named
    return None


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
