"""The ONNX graph while it is written: nodes, initializers and names.

What an operator takes and gives is read from the standard's own schema at the opset:
where it does not admit a dtype, it has casts to one that it admits around the node.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proa.interop.exporter.target import NotExpressibleError, Ref, Target
from proa.ir.program import NUMPY_TYPES, Array

#: A dtype's name in schemas.
SCHEMA_NAMES = {
    "bool": "tensor(bool)",
    "uint8": "tensor(uint8)",
    "int8": "tensor(int8)",
    "int16": "tensor(int16)",
    "int32": "tensor(int32)",
    "int64": "tensor(int64)",
    "float16": "tensor(float16)",
    "bfloat16": "tensor(bfloat16)",
    "float32": "tensor(float)",
    "float64": "tensor(double)",
}
_NAMES = {schema: name for name, schema in SCHEMA_NAMES.items()}
#: What a node computes in where it does not admit a dtype, best first.
_INSTEAD = {
    "bool": ("int32", "int64", "float32"),
    "uint8": ("int32", "int64", "float32"),
    "int8": ("int32", "int64", "float32"),
    "int16": ("int32", "int64", "float32"),
    "int32": ("int64", "float64"),
    "int64": ("float64",),
    "float16": ("float32",),
    "bfloat16": ("float32",),
}


@dataclass(eq=False)
class OnnxNode:
    """A node. Attributes may hold a `Body`."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any]

    def reads(self) -> set[str]:
        """The names that the node or the bodies in it read."""
        found = set(self.inputs)
        for value in self.attrs.values():
            if isinstance(value, Body):
                found |= value.reads()
        return found


@dataclass(eq=False)
class Body:
    """A graph that is an attribute of a node; it may read values of the outer graph."""

    inputs: list[Ref]
    nodes: list[OnnxNode]
    outputs: list[Ref]

    def reads(self) -> set[str]:
        """Every name that is read in it."""
        found = {ref.name for ref in self.outputs}
        return found.union(*(node.reads() for node in self.nodes))


@dataclass
class _Scope:
    nodes: list[OnnxNode] = field(default_factory=list)
    produced: set[str] = field(default_factory=set)


@functools.cache
def _schema(op: str, opset: int) -> Any:
    import onnx.defs

    try:
        schema = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        schema = None
    if schema is None or schema.deprecated:
        raise NotExpressibleError(f"opset {opset} has no {op}")
    return schema


class Graph(Target):
    """Collects the nodes of a model for one opset."""

    def __init__(self, opset: int) -> None:
        super().__init__("graph")
        self.opset = opset
        self.initializers: dict[str, Ref] = {}
        #: Names that arrays have in the end, by those that they were produced under.
        self.renamed: dict[str, str] = {}
        self._scopes = [_Scope()]

    # -- names and constants ---------------------------------------------------------
    def rename(self, ref: Ref, name: str) -> None:
        """Let what a node of this scope produced have a name of its own in the end."""
        if ref.name in self._scopes[-1].produced and ref.name not in self.renamed:
            self.renamed[ref.name] = self.take(name)

    def input(self, name: str, dtype: str, shape: tuple[int, ...]) -> Ref:
        """An array that is given."""
        return Ref(self.take(name), dtype, shape)

    def named_constant(self, name: str, data: Array, dtype: str) -> Ref:
        """A constant with a name."""
        ref = Ref(self.take(name), dtype, data.shape, data)
        self.initializers[ref.name] = ref
        return ref

    def number(self, value: float, dtype: str) -> Ref:
        """A constant without axes."""
        if dtype == "bfloat16":
            bits = int(np.array(value, np.float32).view(np.uint32))
            half = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            return self.constant(np.array(half, np.uint16), dtype)
        return self.constant(np.array(value, NUMPY_TYPES[dtype]), dtype)

    # -- scopes ----------------------------------------------------------------------
    @contextmanager
    def body(self) -> Iterator[list[OnnxNode]]:
        """While open, nodes are those of a body."""
        scope = _Scope()
        self._scopes.append(scope)
        try:
            with self.own_sizes():
                yield scope.nodes
        finally:
            self._scopes.pop()

    def owned(self, ref: Ref, taken: Sequence[Ref] = ()) -> Ref:
        """The array itself if a node of this scope produced it, else a copy."""
        if ref.name in self._scopes[-1].produced and all(
            ref.name != other.name for other in taken
        ):
            return ref
        copy = self.emit("Identity", [ref], {})[0]
        return Ref(copy.name, ref.dtype, ref.shape)

    def nodes(self) -> list[OnnxNode]:
        """The outermost nodes."""
        return self._scopes[0].nodes

    # -- nodes -----------------------------------------------------------------------
    def append(self, op: str, inputs: list[str], attrs: dict[str, Any], count: int
               ) -> list[str]:  # fmt: skip
        """Add a node as it is; the names of its outputs."""
        outputs = [self.take(f"{self.stem}/{op}") for _ in range(count)]
        scope = self._scopes[-1]
        scope.nodes.append(OnnxNode(op, inputs, outputs, attrs))
        scope.produced.update(outputs)
        return outputs

    def emit(
        self,
        op: str,
        inputs: Sequence[Ref | None],
        attrs: dict[str, Any],
        count: int = 1,
        dtype: str | None = None,
    ) -> list[Ref]:
        """Add a node of the standard.

        Args:
            dtype: Dtype of outputs where it follows from no input.

        Raises:
            NotExpressibleError: If the opset has no such operator, or one that takes
                fewer inputs, or none that admits the dtype or another in its place.
        """
        schema = _schema(op, self.opset)
        unknown = [a for a in attrs if a not in schema.attributes]
        if unknown:
            raise NotExpressibleError(
                f"{op} of opset {self.opset} has no attributes {', '.join(unknown)}"
            )
        if len(inputs) > schema.max_input:
            raise NotExpressibleError(
                f"{op} of opset {self.opset} takes at most {schema.max_input} inputs, "
                f"got {len(inputs)}"
            )
        groups = _groups(schema, inputs)
        chosen = {
            group: _admitted(op, self.opset, dtype, types)
            for group, (dtype, types) in groups.items()
        }
        names = []
        for at, ref in enumerate(inputs):
            if ref is None:
                names.append("")
                continue
            names.append(self.cast(ref, chosen[_formal(schema, at).type_str]).name)
        while names and not names[-1]:
            names.pop()
        output = self.append(op, names, attrs, count)
        found = []
        for at, name in enumerate(output):
            formal = schema.outputs[min(at, len(schema.outputs) - 1)]
            group = formal.type_str
            if group in groups:
                result = self.cast(Ref(name, chosen[group]), groups[group][0])
            else:
                result = Ref(name, _given(op, self.opset, formal.types, dtype))
            found.append(result)
        return found

    def cast(self, ref: Ref, dtype: str) -> Ref:
        """The array in another dtype."""
        if ref.dtype == dtype:
            return ref
        import onnx

        code = onnx.TensorProto.DataType.Value(_proto_name(dtype))
        result = self.emit("Cast", [ref], {"to": code}, dtype=dtype)[0]
        return Ref(result.name, dtype, ref.shape)


def _formal(schema: Any, at: int) -> Any:
    return schema.inputs[min(at, len(schema.inputs) - 1)]


def _groups(
    schema: Any, inputs: Sequence[Ref | None]
) -> dict[str, tuple[str, set[str]]]:
    """The dtype and admitted types of each type variable."""
    found: dict[str, tuple[str, set[str]]] = {}
    for at, ref in enumerate(inputs):
        if ref is None:
            continue
        formal = _formal(schema, at)
        dtype, _ = found.setdefault(formal.type_str, (ref.dtype, formal.types))
        if dtype != ref.dtype:
            raise AssertionError(
                f"{schema.name} takes arrays of one dtype, got {dtype} and {ref.dtype}"
            )
    return found


def _admitted(op: str, opset: int, dtype: str, types: set[str]) -> str:
    """The dtype itself if the types have it, else what replaces it."""
    instead = () if op == "Cast" else _INSTEAD.get(dtype, ())
    for candidate in (dtype, *instead):
        if SCHEMA_NAMES.get(candidate) in types:
            return candidate
    raise NotExpressibleError(f"{op} of opset {opset} does not admit {dtype}")


def _given(op: str, opset: int, types: set[str], dtype: str | None) -> str:
    if dtype is None:
        (only,) = types
        return _NAMES[only]
    if SCHEMA_NAMES.get(dtype) not in types:
        raise NotExpressibleError(f"{op} of opset {opset} does not give {dtype}")
    return dtype


def _proto_name(dtype: str) -> str:
    return {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())


def element_type(dtype: str) -> int:
    """The standard's number of a dtype.

    Raises:
        NotExpressibleError: If it has none.
    """
    import onnx

    if dtype not in SCHEMA_NAMES:
        raise NotExpressibleError(f"ONNX has no operators for {dtype}")
    number: int = onnx.TensorProto.DataType.Value(_proto_name(dtype))
    return number
