"""From a program's nodes to Paddle's operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from proa.errors import UnimplementedError
from proa.interop.paddle.exporter import ops as _rows  # noqa: F401  (rows register themselves)
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.ops.quant import KEEPING
from proa.interop.paddle.exporter.table import ROWS, NotExpressibleError
from proa.interop.paddle.exporter.writer import CODES, Ref, Writer
from proa.ir.attributes import row_of
from proa.ir.builder import make_node
from proa.ir.program import Block, Node, Program, Value

#: Operators that take float32 variables of whole numbers for those of int8.
_ROWS_OF_WHOLE = ("call", "dequantize", "conv2d_int8", "linear_int8", *KEEPING)


class _Rows:
    """The operators that a composite calls."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return lambda *inputs, **attrs: self._call.row(name, *inputs, **attrs)


class Lowering:
    """Writes a program.

    Attributes:
        writer: What it is written with.
        refused: Why operators could not be written, by name.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.writer = program, Writer()
        self.refs: dict[Value, Ref] = {}
        self.refused: dict[str, str] = {}

    def run(self) -> Writer:
        """The whole program.

        Raises:
            UnimplementedError: If some operators cannot be expressed: names all.
        """
        main, writer = self.program.main, self.writer
        for i, value in enumerate(main.inputs):
            ref = writer.variable(value.name, value.dtype, value.shape)
            self.refs[value] = ref
            writer.op("feed", {"X": ["feed"]}, {"Out": [ref.name]}, {"col": i})
        for value in self.program.constants():
            assert value.data is not None
            self.refs[value] = writer.parameter(value.name, value.data, value.dtype)
        # First, so that no other variable has their names.
        outputs = [writer.variable(v.name, v.dtype, v.shape) for v in main.outputs]
        for i, (ref, out) in enumerate(zip(self._block(main), outputs, strict=True)):
            ref = self._plain(ref)
            kind = "assign" if ref.dtype == "bool" else "scale"
            attrs = {"scale": 1.0, "bias": 0.0, "bias_after_scale": True}
            given = {} if ref.dtype == "bool" else attrs
            writer.op(kind, {"X": [ref.name]}, {"Out": [out.name]}, given)
            writer.op("fetch", {"X": [out.name]}, {"Out": ["fetch"]}, {"col": i})
        if self.refused:
            lines = [f"{op}: {why}" for op, why in sorted(self.refused.items())]
            raise UnimplementedError(
                "[paddle.save] Paddle cannot express operators of the model: "
                + "; ".join(lines)
            )
        return writer

    # -- blocks ----------------------------------------------------------------------
    def _block(self, block: Block) -> list[Ref]:
        """What a block gives, its inputs being known."""
        for node in block.nodes:
            self.writer.stem = node.outputs[0].name if node.outputs else node.op
            try:
                found = self._node(node)
            except NotExpressibleError as error:
                self.refused[node.op] = str(error)
                found = [Ref("", v.dtype, v.shape) for v in node.outputs]
            for value, ref in zip(node.outputs, found, strict=False):
                dtype = ref.dtype if ref.whole else value.dtype
                self.refs[value] = replace(ref, dtype=dtype, shape=value.shape)
        return [self.refs[v] for v in block.outputs]

    def _plain(self, ref: Ref) -> Ref:
        """A variable of the dtype that the program says."""
        if not ref.whole:
            return ref
        made = self.writer.variable(ref.name, "int8", ref.shape)
        codes = {"in_dtype": CODES[ref.dtype], "out_dtype": CODES["int8"]}
        self.writer.op("cast", {"X": [ref.name]}, {"Out": [made.name]}, codes)
        return made

    def _give(self, block: Block, given: Sequence[Ref]) -> None:
        for value, ref in zip(block.inputs, given, strict=True):
            self.refs[value] = replace(ref, shape=value.shape)

    def _node(self, node: Node) -> Sequence[Ref]:
        refs = [None if v is None else self.refs[v] for v in node.inputs]
        if node.op == "call":
            block = self.program.blocks[node.attrs["block"]]
            self._give(block, [r for r in refs if r is not None])
            return self._block(block)
        if node.op not in _ROWS_OF_WHOLE:
            refs = [None if r is None else self._plain(r) for r in refs]
        if node.op == "branch":
            return self._branch(node, [r for r in refs if r is not None])
        if node.op == "loop":
            return self._loop(node, [r for r in refs if r is not None])
        return self._written(node, refs)

    def _assign(self, source: Ref, target: Ref) -> None:
        self.writer.op("assign", {"X": [source.name]}, {"Out": [target.name]}, {})

    def _condition(self, ref: Ref) -> Ref:
        """A bool of one axis, which all versions take."""
        made = self.writer.variable(f"{self.writer.stem}.condition", "bool", [1])
        shape = self.writer.variable(f"{self.writer.stem}.xshape", "bool", None)
        outputs = {"Out": [made.name], "XShape": [shape.name]}
        self.writer.op("reshape2", {"X": [ref.name]}, outputs, {"shape": [1]})
        return made

    def _branch(self, node: Node, refs: list[Ref]) -> Sequence[Ref]:
        writer = self.writer
        condition = self._condition(refs[0])
        opposite = writer.variable(f"{writer.stem}.not", "bool", [1])
        writer.op("logical_not", {"X": [condition.name]}, {"Out": [opposite.name]}, {})
        results = {}
        for name, test in (("else", opposite), ("then", condition)):
            results[name] = self._conditional(node, name, test, refs[1:])
        mask = writer.variable(f"{writer.stem}.mask", "int32", [1])
        codes = {"in_dtype": CODES["bool"], "out_dtype": CODES["int32"]}
        writer.op("cast", {"X": [condition.name]}, {"Out": [mask.name]}, codes)
        found = []
        for i, value in enumerate(node.outputs):
            made = writer.variable(value.name, value.dtype, value.shape)
            names = [results["else"][i].name, results["then"][i].name]
            given = {"X": names, "Mask": [mask.name]}
            writer.op("select_input", given, {"Out": [made.name]}, {})
            found.append(made)
        return found

    def _conditional(
        self, node: Node, name: str, test: Ref, given: list[Ref]
    ) -> list[Ref]:
        """One branch: variables that its block writes if the test holds."""
        writer = self.writer
        block = self.program.blocks[node.attrs[f"{name}_block"]]
        outer = [
            writer.variable(f"{v.name}.{name}", v.dtype, v.shape) for v in node.outputs
        ]
        with writer.block() as inner:
            self._give(block, given)
            for ref, target in zip(self._block(block), outer, strict=True):
                self._assign(self._plain(ref), target)
        writer.stem = node.outputs[0].name
        writer.op(
            "conditional_block",
            {"Cond": [test.name], "Input": _reads(inner)},
            {"Out": [ref.name for ref in outer], "Scope": [writer.scopes()]},
            {"sub_block": inner, "is_scalar_condition": True},
        )
        return outer

    def _loop(self, node: Node, refs: list[Ref]) -> Sequence[Ref]:
        writer, blocks = self.writer, self.program.blocks
        test = blocks[node.attrs["cond_block"]]
        block = blocks[node.attrs["body_block"]]
        count = node.attrs["carried"]
        carried = []
        for value, ref in zip(block.inputs[:count], refs, strict=False):
            made = writer.variable(f"{writer.stem}.carried", value.dtype, value.shape)
            self._assign(ref, made)
            carried.append(made)
        self._give(test, [*carried, *refs[count:]])
        going = self._condition(self._block(test)[0])
        with writer.block() as inner:
            self._give(block, [*carried, *refs[count:]])
            results = [self._copied(self._plain(r)) for r in self._block(block)]
            for ref, target in zip(results, carried, strict=True):
                self._assign(ref, target)
            self._give(test, [*carried, *refs[count:]])
            self._assign(self._condition(self._block(test)[0]), going)
        writer.stem = node.outputs[0].name
        writer.op(
            "while",
            {"X": _reads(inner), "Condition": [going.name]},
            {"Out": [r.name for r in carried], "StepScopes": [writer.scopes()]},
            {"sub_block": inner, "is_test": True},
        )
        return carried

    def _copied(self, ref: Ref) -> Ref:
        """A copy, so that a variable is read before another round's value is in it."""
        made = self.writer.variable(f"{ref.name}.next", ref.dtype, ref.shape)
        self._assign(ref, made)
        return made

    # -- one operator ----------------------------------------------------------------
    def _written(self, node: Node, refs: Sequence[Ref | None]) -> Sequence[Ref]:
        call = Call(self.writer, node, self._lower, self.refs)
        rule = ROWS.get(node.op)
        if rule is not None:
            made = rule(call, *refs, **node.attrs)
        else:
            row = row_of(node.op)
            if row.composite is None:
                raise NotExpressibleError("there are no operators for it")
            made = row.composite(_Rows(call), *refs, **node.attrs)
        results = (made,) if isinstance(made, Ref) else tuple(made)
        for value in node.outputs[len(results) :]:
            if value.users or value.is_output:
                raise NotExpressibleError(f"its result {value.name} has no counterpart")
        keeps = node.op in KEEPING and refs[0] is not None and refs[0].whole
        found = []
        for ref, value in zip(results, node.outputs, strict=False):
            ref = replace(ref, shape=value.shape, whole=ref.whole or keeps)
            found.append(ref if ref.whole else call.cast(ref, value.dtype))
        return found

    def _lower(
        self, name: str, refs: Sequence[Ref | None], attrs: dict[str, Any]
    ) -> tuple[Ref, ...]:
        """What an operator that a row calls gives."""
        values = [
            None if r is None else Value(r.name, r.dtype, r.shape or (), "input")
            for r in refs
        ]
        node = make_node(Program(), name, values, attrs)
        return tuple(self._written(node, refs))


def _reads(block: Any) -> list[str]:
    """Variables of the blocks around that a block reads."""
    own = {v.name for v in block.vars}
    names = (n for op in block.ops for s in op.inputs for n in s.arguments)
    return sorted({n for n in names if n not in own})
