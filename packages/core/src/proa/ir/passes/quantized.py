from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from proa.ir.builder import make_node
from proa.ir.passes.match import number, produced_by, rewrite, same_shape
from proa.ir.passes.scaled_convolution import is_scaled
from proa.ir.program import Array, Block, Node, Program, Value

#: Integer form of a product, and the axis of its weight that counts output channels.
_PRODUCTS = {
    "conv2d": ("conv2d_int8", 0), "conv2d_norm": ("conv2d_int8", 0),
    "linear": ("linear_int8", 1),
}  # fmt: skip
#: What a product of activations may read them through.
_MOVES = ("transpose", "swap_last")
_SUMS = {"add": "add_int8", "mul": "mul_int8"}
_LIMITS = {"uint8": (0, 255), "int8": (-128, 127)}
#: How far from an integer a weight over its scale may be: some roundings of float32.
_TOLERANCE = 1e-4


class _Rounding(NamedTuple):
    """x and the constants of clip(round(x / scale) + zero)."""

    x: Value
    scale: Value
    step: float
    zero: int
    low: int  # the smallest integer
    reader: Node  # of x


class _Real(NamedTuple):
    """Integers, and the constants of (q - zero) * scale."""

    q: Value
    scale: float
    zero: int


class _End(NamedTuple):
    """What follows a product's sums: sum * factor + shift."""

    factor: Array
    shift: Array


def fuse_quantized(program: Program) -> bool:
    """Compute with the integers of a graph that rounds, as ONNX's QuantizeLinear and
    DequantizeLinear make it.

    1. cast(clip(round(x / s) + z)) to int8 or uint8 -> quantize_affine(x); a relu
       before it is a lower bound.
    2. The same of add(a, b) or mul(a, b), where a and b are (q - z) * s of such
       integers, of one shape -> add_int8 or mul_int8.
    3. conv2d or linear of (q - z) * s, or of q - z, and a constant weight whose
       elements are multiples, of up to 128, of one number for each output channel ->
       conv2d_int8 or linear_int8, which pads with z. conv2d_norm likewise, as weights
       of one scale make it: its factor and shift become those of the integers.
    4. matmul of two such (q - z) * s, perhaps transposed -> matmul_int8; a number that
       its result is multiplied by or divided by -> its scale.
    5. (q - z) * s of other readers reads the integers of 1 and 2.

    uint8 becomes int8 by taking 128 from integers and zeros. Requires constants.
    Ensures the same integers for the same x; a sum of products is exact, where the
    composite rounds it in float32.
    """
    changed = False
    for block in program.blocks:
        changed |= _Fusion(program, block).run()
    return changed


class _Fusion:
    """One walk along a block."""

    def __init__(self, program: Program, block: Block) -> None:
        self.program, self.block = program, block
        self.integers: dict[Value, Value] = {}  # of uint8: the same less 128, in int8
        self.nodes: list[Node] = []
        self.changed = False

    def run(self) -> bool:
        for node in list(self.block.nodes):
            if node.op == "cast" and node.outputs[0].dtype in _LIMITS:
                self.round(node)
            elif node.op in _PRODUCTS:
                self.multiply(node)
            elif node.op == "matmul":
                self.multiply_pair(node)
            elif node.op in ("mul", "div") and not self.scale(node):
                self.read(node)
            self.nodes.append(node)
        if self.changed:
            self.block.nodes = self.nodes
            for old, new in self.integers.items():
                if old.dtype == "int8":
                    self.block.replace(old, new)
        return self.changed

    def make(self, op: str, inputs: list[Value | None], attrs: dict[str, Any]) -> Value:
        result = make_node(self.program, op, inputs, attrs)
        self.nodes.append(result)
        self.changed = True
        return result.outputs[0]

    def int8(self, real: _Real | None) -> _Real | None:
        """The same numbers by int8, if there are such integers."""
        if real is None:
            return None
        shift = 128 if real.q.dtype == "uint8" else 0
        q = self.integers.get(real.q, real.q)
        zero = real.zero - shift
        return (
            _Real(q, real.scale, zero)
            if q.dtype == "int8" and -129 < zero < 128
            else None
        )

    def round(self, node: Node) -> None:
        """Cases 1 and 2."""
        found = _rounding(node)
        q = node.outputs[0]
        if found is None or q.is_output:
            return
        zero = found.zero - (128 if q.dtype == "uint8" else 0)
        if not -129 < zero < 128:
            return
        shift = 128 if q.dtype == "uint8" else 0
        x, low, reader = found.x, found.low - shift, found.reader
        relu = produced_by(x, "relu")
        if relu is not None and x.only_user is reader and relu.inputs[0] is not None:
            x, low, reader = relu.inputs[0], max(low, zero), relu
        both = self.sum_of(x, reader)
        if both is None:
            attrs = {"zero_point": zero, "low": low}
            self.integers[q] = self.make("quantize_affine", [x, found.scale], attrs)
            return
        op, a, b = both
        self.integers[q] = self.make(
            op,
            [a.q, b.q],
            {
                "x_scale": a.scale, "x_zero": a.zero, "y_scale": b.scale,
                "y_zero": b.zero, "out_scale": found.step, "out_zero": zero,
                "low": low,
            },
        )  # fmt: skip

    def sum_of(self, x: Value, reader: Node) -> tuple[str, _Real, _Real] | None:
        node = produced_by(x, *_SUMS)
        if node is None or x.only_user is not reader:
            return None
        a, b = (self.int8(_real(v)) for v in node.inputs)
        if a is None or b is None or not same_shape(a.q, b.q):
            return None
        return _SUMS[node.op], a, b

    def multiply(self, node: Node) -> None:
        """Case 3."""
        image, weight = node.inputs[:2]
        x = self.int8(_real(image) or _whole(image))
        end = _end(node)
        if x is None or weight is None or weight.data is None or end is None:
            return
        if weight.dtype != "float32":
            return
        op, axis = _PRODUCTS[node.op]
        found = _integer_weight(np.asarray(weight.data), axis)
        if found is None:
            return
        integers, scales = found
        multiplier = (np.float32(x.scale) * scales).astype(np.float32)
        others = tuple(i for i in range(integers.ndim) if i != axis)
        sums = integers.sum(axis=others, dtype=np.float64)
        wide = multiplier.astype(np.float64) * end.factor
        shift = end.shift - x.zero * sums * wide
        multiplier = wide.astype(np.float32)
        q, attrs = x.q, {**node.attrs, "dtype": "float32"}
        for name in ("scale", "offset"):  # 1 and 0
            attrs.pop(name, None)
        if x.zero and any(attrs.get("padding", ())):
            top, bottom, left, right = attrs["padding"]
            sides = {"low": [0, 0, top, left], "high": [0, 0, bottom, right]}
            q = self.make("pad", [q], {**sides, "value": x.zero})
            attrs["padding"] = [0, 0, 0, 0]
        arguments: list[Value | None] = [
            q,
            self.program.constant(integers, "int8", f"{weight.name}.int8"),
            self.program.constant(multiplier, name=f"{weight.name}.multiplier"),
            self.program.constant(
                shift.astype(np.float32), name=f"{weight.name}.shift"
            ),
            None,
        ]
        rewrite(node, op, arguments, attrs)
        self.changed = True

    def multiply_pair(self, node: Node) -> None:
        """Case 4: the product."""
        moves = [produced_by(v, *_MOVES) for v in node.inputs]
        values = [
            v if move is None else move.inputs[0]
            for v, move in zip(node.inputs, moves, strict=True)
        ]
        x, y = (self.int8(_real(v)) for v in values)
        if x is None or y is None or node.outputs[0].dtype != "float32":
            return
        arguments: list[Value | None] = [
            q if move is None else self.make(move.op, [q], move.attrs)
            for q, move in zip((x.q, y.q), moves, strict=True)
        ]
        scale = float(np.float32(x.scale) * np.float32(y.scale))
        zeros = {"x_zero": x.zero, "y_zero": y.zero}
        attrs = {"scale": scale, "dtype": "float32", **zeros}
        rewrite(node, "matmul_int8", arguments, attrs)
        self.changed = True

    def scale(self, node: Node) -> bool:
        """Case 4: a number after it."""
        scaled = _pair(node)
        product = None if scaled is None else produced_by(scaled[0], "matmul_int8")
        if scaled is None or product is None or product.attrs["dtype"] != "float32":
            return False
        result = product.outputs[0]
        if result.only_user is not node or result.shape != node.outputs[0].shape:
            return False
        if any(user.op == "round" for user in node.outputs[0].users):
            return False  # the quotient of case 1
        factor = np.float32(scaled[1])
        old = np.float32(product.attrs["scale"])
        scale = float(old / factor if node.op == "div" else old * factor)
        attrs = {**product.attrs, "scale": scale}
        rewrite(node, "matmul_int8", list(product.inputs), attrs)
        self.changed = True
        return True

    def read(self, node: Node) -> None:
        """Case 5."""
        real = _real(node.outputs[0])
        if real is None or real.q not in self.integers:
            return
        result = self.int8(real)
        if result is None or real.q.dtype == "int8":
            return  # `run` replaces int8 by int8
        wide = self.make("cast", [result.q], {"dtype": "int32"})
        zero = self.program.constant(np.array(result.zero, np.int32))
        centered = self.make("sub", [wide, zero], {})
        number_ = self.make("cast", [centered], {"dtype": "float32"})
        scale = self.program.constant(np.array(result.scale, np.float32))
        rewrite(node, "mul", [number_, scale], {})


def _end(product: Node) -> _End | None:
    """How a product ends by constants, if it ends with no more."""
    norm = product.op == "conv2d_norm"
    if norm and (product.attrs.get("act", "none") != "none" or is_scaled(product)):
        return None
    bias, residual = [*product.inputs[5 if norm else 2 :], None, None][:2]
    given = [*(product.inputs[2:5] if norm else ()), bias]
    if residual is not None or any(v is not None and v.data is None for v in given):
        return None
    numbers = [np.asarray(0.0 if v is None else v.data, np.float64) for v in given]
    if not norm:
        return _End(np.ones(1), numbers[0])
    center, factor, shift = numbers[:3]
    return _End(factor, (numbers[3] - center) * factor + shift)


def _pair(node: Node | None) -> tuple[Value, float] | None:
    """The other input of a node that has one constant number."""
    if node is None:
        return None
    for x, constant in (node.inputs[:2], node.inputs[1::-1]):
        found = number(constant)
        if x is not None and found is not None:
            return x, found
        if node.op in ("sub", "div"):
            break
    return None


def _rounding(cast: Node) -> _Rounding | None:
    clip = produced_by(cast.inputs[0], "clip")
    low, high = _LIMITS[cast.outputs[0].dtype]
    if clip is None or clip.attrs["max"] != high:
        return None
    if clip.attrs["min"] not in (low, -127):  # Paddle has no -128 in training
        return None
    whole, zero = clip.inputs[0], 0.0
    moved = _pair(produced_by(whole, "add"))
    if moved is not None:
        whole, zero = moved
    rounded = produced_by(whole, "round")
    division = None if rounded is None else produced_by(rounded.inputs[0], "div")
    quotient = _pair(division)
    if quotient is None or division is None or zero != int(zero):
        return None
    (x, step), scale = quotient, division.inputs[1]
    if scale is None or x.dtype != "float32" or step <= 0:
        return None
    return _Rounding(x, scale, step, int(zero), int(clip.attrs["min"]), division)


def _real(value: Value | None) -> _Real | None:
    scaled = _pair(produced_by(value, "mul"))
    return None if scaled is None else _whole(scaled[0], scaled[1])


def _whole(value: Value | None, scale: float = 1.0) -> _Real | None:
    """Integers that float32 has, as products of Paddle's quantized programs do."""
    if value is None or value.dtype != "float32":
        return None
    cast = produced_by(value, "cast")
    centered = None if cast is None else cast.inputs[0]
    zero = 0.0
    moved = _pair(produced_by(centered, "sub"))
    if moved is not None:
        centered, zero = moved
    wide = produced_by(centered, "cast")
    q = None if wide is None or wide.outputs[0].dtype != "int32" else wide.inputs[0]
    if q is None or q.dtype not in _LIMITS:
        return None
    return _Real(q, scale, int(zero))


def _integer_weight(weight: Array, axis: int) -> tuple[Array, Array] | None:
    """int8 and a scale for each output channel, if these make the weight."""
    rows = (
        np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1).astype(np.float64)
    )
    peak = np.abs(rows).max(axis=1, initial=0.0)
    scales = np.where(peak > 0, 0.0, 1.0)
    # The largest element of a channel is mostly 127 times its scale, rarely less.
    for largest in (128, *range(127, 0, -1)):
        left = np.flatnonzero(scales == 0)
        if not left.size:
            break
        step = peak[left] / largest
        ratio = rows[left] / step[:, None]
        fits = np.abs(ratio - np.rint(ratio)).max(axis=1) < _TOLERANCE
        fits &= np.rint(ratio).max(axis=1) < 128
        scales[left[fits]] = step[fits]
    if not scales.all():
        return None
    shape = [1] * weight.ndim
    shape[axis] = -1
    integers = np.rint(weight / scales.reshape(shape)).astype(np.int8)
    return integers, scales.astype(np.float32)
