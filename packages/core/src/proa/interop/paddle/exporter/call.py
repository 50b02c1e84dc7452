"""What a row of the table is called with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from proa.interop.exporter import call
from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.writer import (
    CODES,
    Given,
    Longs,
    Writer,
    as_array,
)
from proa.ir.program import Node

if TYPE_CHECKING:
    from proa.interop.exporter.lowering import Lowering


class Call(call.Call):
    """One operator to be written as operators of Paddle.

    Attributes:
        writer: Where they go.
    """

    def __init__(self, writer: Writer, node: Node, lowering: Lowering) -> None:
        super().__init__(node, lowering)
        self.writer = writer

    # -- operators -------------------------------------------------------------------
    def op(
        self, kind: str, inputs: Given, size: Sequence[int] | None, *,
        dtype: str | None = None, out: str = "Out", more: Sequence[str] = (),
        **attrs: Any,
    ) -> Ref:  # fmt: skip
        """An operator with one output that is read.

        Args:
            size: The output's shape; None if it is not known.
            dtype: The output's; None for the first input's.
            out: The output's slot.
            more: Slots of outputs that nobody reads.
        """
        given = {
            slot: [ref] if isinstance(ref, Ref) else list(ref)
            for slot, ref in inputs.items()
            if ref is not None
        }
        if dtype is None:
            dtype = next(iter(given.values()))[0].dtype
        result = self.writer.variable(self.writer.stem, dtype, size)
        outputs = {out: [result.name]}
        for slot in more:
            unread = self.writer.variable(f"{self.writer.stem}.{slot}", dtype, None)
            outputs[slot] = [unread.name]
        names = {slot: [ref.name for ref in refs] for slot, refs in given.items()}
        # `dtype_` is an attribute of the operator, `dtype` that of the output
        named = {name.rstrip("_"): value for name, value in attrs.items()}
        self.writer.op(kind, names, outputs, named)
        return result

    def ops(
        self, kind: str, inputs: Given,
        outputs: Mapping[str, tuple[str, Sequence[int] | None]], **attrs: Any,
    ) -> list[Ref]:  # fmt: skip
        """An operator with several outputs that are read.

        Args:
            outputs: The dtype and the shape of what is in each slot.
        """
        results = {
            slot: self.writer.variable(self.writer.stem, dtype, size)
            for slot, (dtype, size) in outputs.items()
        }
        given = {
            slot: [ref.name] if isinstance(ref, Ref) else [r.name for r in ref]
            for slot, ref in inputs.items()
            if ref is not None
        }
        names = {slot: [ref.name] for slot, ref in results.items()}
        self.writer.op(kind, given, names, attrs)
        return list(results.values())

    def unary(self, kind: str, x: Ref, *, dtype: str | None = None, **attrs: Any
              ) -> Ref:  # fmt: skip
        """An operator that keeps the shape."""
        return self.op(kind, {"X": x}, x.shape, dtype=dtype, **attrs)

    def binary(self, kind: str, x: Ref, y: Ref, *, dtype: str | None = None) -> Ref:
        """An operator of two arrays that are broadcast."""
        shape = None
        if x.shape is not None and y.shape is not None:
            shape = _broadcast(x.shape, y.shape)
        return self.op(kind, {"X": x, "Y": y}, shape, dtype=dtype, axis=-1)

    def cast(self, x: Ref, dtype: str) -> Ref:
        """x in another dtype."""
        if x.dtype == dtype:
            return x
        codes = {"in_dtype": CODES[x.dtype], "out_dtype": CODES[dtype]}
        return self.unary("cast", x, dtype=dtype, **codes)

    def reshape(self, x: Ref, shape: Sequence[int | Ref]) -> Ref:
        """x under a shape of numbers, of which one may be -1, and of sizes."""
        known = [n if isinstance(n, int) else -1 for n in shape]
        each = None
        if known.count(-1) > 1:
            each = [n if isinstance(n, Ref) else self.ints([n]) for n in shape]
        given: Given = {"X": x, "ShapeTensor": each}
        return self.op("reshape2", given, known, more=["XShape"], shape=known)

    def transpose(self, x: Ref, perm: Sequence[int]) -> Ref:
        """x with its axes in another order."""
        shape = None if x.shape is None else [x.shape[i] for i in perm]
        return self.op("transpose2", {"X": x}, shape, more=["XShape"], axis=perm)

    def unsqueeze(self, x: Ref, axes: Sequence[int]) -> Ref:
        """x with new axes, counted in the result."""
        shape = list(x.shape or ())
        for axis in sorted(axes):
            shape.insert(axis, 1)
        return self.op(
            "unsqueeze2", {"X": x}, shape, more=["XShape"], axes=sorted(axes)
        )

    # -- constants -------------------------------------------------------------------
    def const(self, data: Any, dtype: str) -> Ref:
        """A constant of a dtype other than bfloat16."""
        return self.writer.constant(as_array(data, dtype), dtype)

    def number(self, value: float, like: Ref) -> Ref:
        """A number of the array's dtype, without axes."""
        if like.dtype == "bfloat16":
            return self.cast(self.const(value, "float32"), "bfloat16")
        return self.const(value, like.dtype)

    def ints(self, values: Sequence[int]) -> Ref:
        """A list of int32."""
        return self.const(list(values), "int32")

    # -- sizes -----------------------------------------------------------------------
    def _shape_of(self, x: Ref) -> Ref:
        rank = None if x.shape is None else [x.rank]
        return self.op("shape", {"Input": x}, rank, dtype="int32")

    def _element(self, x: Ref, at: int) -> Ref:
        return self.op(
            "slice", {"Input": x}, [1], axes=[0], starts=[at], ends=[at + 1],
            infer_flags=[1], decrease_axis=[],
        )  # fmt: skip

    def _times(self, a: Ref, b: Ref) -> Ref:
        return self.binary("elementwise_mul", a, b)

    def vector(self, sizes: Sequence[int | Ref]) -> Ref:
        """Sizes as one list of int32."""
        if not sizes:
            return self.ints([])
        parts = [n if isinstance(n, Ref) else self.ints([n]) for n in sizes]
        return self.op("concat", {"X": parts}, [len(parts)], axis=0)

    def filled(self, sizes: Sequence[int | Ref], value: float, dtype: str) -> Ref:
        """An array of one number."""
        known = [n if isinstance(n, int) else -1 for n in sizes]
        each = None
        if -1 in known:
            each = [n if isinstance(n, Ref) else self.ints([n]) for n in sizes]
        number = float(value)
        text = repr(int(number)) if number.is_integer() else repr(number)
        return self.op(
            "fill_constant", {"ShapeTensorList": each}, known, dtype=dtype,
            dtype_=CODES[dtype], shape=Longs(known), value=number, str_value=text,
        )  # fmt: skip


def _broadcast(x: Sequence[int], y: Sequence[int]) -> list[int]:
    rank = max(len(x), len(y))
    x, y = ([*[1] * (rank - len(v)), *v] for v in (x, y))
    return [
        b if a == 1 else a if b in (1, a) else -1 for a, b in zip(x, y, strict=True)
    ]
