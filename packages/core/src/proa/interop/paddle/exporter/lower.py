"""From a program's nodes to Paddle's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa.errors import UnimplementedError
from proa.interop.exporter.lowering import Lowering, Rule
from proa.interop.exporter.quantized import KEEPING
from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter import ops as _rows  # noqa: F401  (rows register themselves)
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.table import ROWS
from proa.interop.paddle.exporter.writer import CODES, Writer
from proa.ir.program import Node, Program, Value

#: Operators that take float32 variables of whole numbers for those of int8.
_ROWS_OF_WHOLE = (
    "dequantize",
    "conv2d_int8",
    "linear_int8",
    "matmul_int8",
    "attention_int8",
    "gate_int8",
    "mean_int8",
    *KEEPING,
)


class _Lowering(Lowering):
    format = "Paddle"

    def __init__(self, program: Program) -> None:
        self.writer = Writer()
        super().__init__(program, self.writer)

    def run(self) -> Writer:
        main, writer = self.program.main, self.writer
        for i, value in enumerate(main.inputs):
            ref = writer.variable(value.name, value.dtype, value.shape)
            self.refs[value] = ref
            writer.op("feed", {"X": ["feed"]}, {"Out": [ref.name]}, {"col": i})
        for value in self.program.constants():
            assert value.data is not None
            self.refs[value] = writer.named_constant(
                value.name, value.data, value.dtype
            )
        # First, so that no other variable has their names.
        outputs = [writer.variable(v.name, v.dtype, v.shape) for v in main.outputs]
        for i, (ref, out) in enumerate(zip(self.block(main), outputs, strict=True)):
            ref = self._plain(ref)
            kind = "assign" if ref.dtype == "bool" else "scale"
            attrs = {"scale": 1.0, "bias": 0.0, "bias_after_scale": True}
            given = {} if ref.dtype == "bool" else attrs
            writer.op(kind, {"X": [ref.name]}, {"Out": [out.name]}, given)
            writer.op("fetch", {"X": [out.name]}, {"Out": ["fetch"]}, {"col": i})
        if self.refused:
            lines = sorted({f"{op}: {why}" for op, why in self.refused.values()})
            raise UnimplementedError(
                "[paddle.save] Paddle cannot express operators of the model: "
                + "; ".join(lines)
            )
        return writer

    # -- one operator ----------------------------------------------------------------
    def rule_of(self, op: str) -> Rule | None:
        return ROWS.get(op)

    def call(self, node: Node) -> Call:
        return Call(self.writer, node, self)

    def inputs_of(self, node: Node) -> list[Ref | None]:
        refs = super().inputs_of(node)
        if node.op in _ROWS_OF_WHOLE:
            return refs
        return [None if r is None else self._plain(r) for r in refs]

    def _plain(self, ref: Ref) -> Ref:
        """A variable of the dtype that the program says."""
        if not ref.whole:
            return ref
        result = self.writer.variable(ref.name, "int8", ref.shape)
        codes = {"in_dtype": CODES[ref.dtype], "out_dtype": CODES["int8"]}
        self.writer.op("cast", {"X": [ref.name]}, {"Out": [result.name]}, codes)
        return result

    # -- branches and loops ----------------------------------------------------------
    def _assign(self, source: Ref, target: Ref) -> None:
        self.writer.op("assign", {"X": [source.name]}, {"Out": [target.name]}, {})

    def _condition(self, ref: Ref) -> Ref:
        """A bool of one axis, which all versions take."""
        result = self.writer.variable(f"{self.writer.stem}.condition", "bool", [1])
        shape = self.writer.variable(f"{self.writer.stem}.xshape", "bool", None)
        outputs = {"Out": [result.name], "XShape": [shape.name]}
        self.writer.op("reshape2", {"X": [ref.name]}, outputs, {"shape": [1]})
        return result

    def branch(self, node: Node, values: Sequence[Value]) -> Sequence[Ref]:
        writer = self.writer
        condition = self._condition(self.refs[values[0]])
        opposite = writer.variable(f"{writer.stem}.not", "bool", [1])
        writer.op("logical_not", {"X": [condition.name]}, {"Out": [opposite.name]}, {})
        results = {}
        for name, test in (("else", opposite), ("then", condition)):
            results[name] = self._conditional(node, name, test, values[1:])
        mask = writer.variable(f"{writer.stem}.mask", "int32", [1])
        codes = {"in_dtype": CODES["bool"], "out_dtype": CODES["int32"]}
        writer.op("cast", {"X": [condition.name]}, {"Out": [mask.name]}, codes)
        found = []
        for i, value in enumerate(node.outputs):
            result = writer.variable(value.name, value.dtype, value.shape)
            names = [results["else"][i].name, results["then"][i].name]
            given = {"X": names, "Mask": [mask.name]}
            writer.op("select_input", given, {"Out": [result.name]}, {})
            found.append(result)
        return found

    def _conditional(
        self, node: Node, name: str, test: Ref, given: Sequence[Value]
    ) -> list[Ref]:
        """One branch: variables that its block writes if the test holds."""
        writer = self.writer
        block = self.program.blocks[node.attrs[f"{name}_block"]]
        outer = [
            writer.variable(f"{v.name}.{name}", v.dtype, v.shape) for v in node.outputs
        ]
        with writer.block() as inner:
            self.give(block, given)
            for ref, target in zip(self.block(block), outer, strict=True):
                self._assign(self._plain(ref), target)
        writer.stem = node.outputs[0].name
        writer.op(
            "conditional_block",
            {"Cond": [test.name], "Input": _reads(inner)},
            {"Out": [ref.name for ref in outer], "Scope": [writer.scopes()]},
            {"sub_block": inner, "is_scalar_condition": True},
        )
        return outer

    def loop(self, node: Node, values: Sequence[Value]) -> Sequence[Ref]:
        writer, blocks = self.writer, self.program.blocks
        test = blocks[node.attrs["cond_block"]]
        block = blocks[node.attrs["body_block"]]
        count = node.attrs["carried"]
        carried = []
        for value, first in zip(block.inputs[:count], values, strict=False):
            result = writer.variable(f"{writer.stem}.carried", value.dtype, value.shape)
            self._assign(self._plain(self.refs[first]), result)
            carried.append(result)
        self.give(test, [*carried, *values[count:]])
        going = self._condition(self.block(test)[0])
        with writer.block() as inner:
            self.give(block, [*carried, *values[count:]])
            results = [self._copied(self._plain(r)) for r in self.block(block)]
            for ref, target in zip(results, carried, strict=True):
                self._assign(ref, target)
            self.give(test, [*carried, *values[count:]])
            self._assign(self._condition(self.block(test)[0]), going)
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
        result = self.writer.variable(f"{ref.name}.next", ref.dtype, ref.shape)
        self._assign(ref, result)
        return result


def written(program: Program) -> Writer:
    """The whole program.

    Raises:
        UnimplementedError: If some operators cannot be expressed: names all.
    """
    return _Lowering(program).run()


def _reads(block: Any) -> list[str]:
    """Variables of the blocks around that a block reads."""
    own = {v.name for v in block.vars}
    names = (n for op in block.ops for s in op.inputs for n in s.arguments)
    return sorted({n for n in names if n not in own})
