from __future__ import annotations

import numpy as np

from proa.ir.passes.match import number, plain_linear, produced_by, rewrite
from proa.ir.program import Array, Node, Program, Value

#: Elements below which rounding an input takes longer than what its product saves.
_SMALLEST = 128


def round_linear(program: Program) -> bool:
    """Multiply in int8 what is rounded as it comes, a scale for each row.

    1. linear(x, w, bias) -> linear_dynamic, with a scale for each column of w.
    2. linear(x, dequantize(q, scale), bias) -> linear_dynamic with these integers.

    linear_act without a residual is a linear, too.

    Requires float32 and a constant weight of at least 128 elements. Results change by
    the rounding of w and x.
    """
    changed = False
    for block in program.blocks:
        for node in block.nodes:
            product = plain_linear(node)
            found = None if product is None else _integers(node.inputs[1])
            if found is None:
                continue
            whole, scale, name = found
            bias = node.inputs[2] if len(node.inputs) > 2 else None
            constants = [
                program.constant(whole, "int8", f"{name}.int8"),
                program.constant(scale, name=f"{name}.scale"),
            ]
            attrs = {"act": node.attrs.get("act", "none")}
            rewrite(node, "linear_dynamic", [node.inputs[0], *constants, bias], attrs)
            changed = True
    return changed


def _integers(weight: Value | None) -> tuple[Array, Array, str] | None:
    """int8 and the scale of each column of a constant weight."""
    wide = produced_by(weight, "dequantize")
    if wide is not None:
        q, steps = wide.inputs[:2]
        if q is None or steps is None or q.data is None or steps.data is None:
            return None
        if q.dtype != "int8" or len(q.shape) != 2 or q.data.size < _SMALLEST:
            return None
        if steps.data.size > 1 and wide.attrs["axis"] % 2 != 1:
            return None
        scale = np.asarray(steps.data, np.float32).reshape(-1)
        return (
            np.asarray(q.data),
            np.ascontiguousarray(np.broadcast_to(scale, (q.shape[1],))),
            q.name.removesuffix(".int8"),
        )
    if weight is None or weight.data is None or weight.dtype != "float32":
        return None
    if weight.data.size < _SMALLEST:
        return None
    real = np.asarray(weight.data)
    peak = np.abs(real).max(axis=0)
    scale = np.where(peak > 0, peak / np.float32(127), np.float32(1)).astype(np.float32)
    whole = np.clip(np.rint(real / scale), -127, 127).astype(np.int8)
    return whole, scale, weight.name


def fuse_dynamic_quantized(program: Program) -> bool:
    """Compute with integers what an ONNX graph rounds as it comes, as ONNX's
    DynamicQuantizeLinear, MatMulInteger, Cast and Mul make it.

    1. cast(matmul(q - zero, w)) * (scale * w_scale), where q, scale and zero are those
       of a float32 x as a whole, w (in, out) constant integers of int8 and w_scale a
       constant for a column or for all -> linear_dynamic(x).
    2. add(linear_dynamic, c) with a constant c for each column -> its bias.

    Requires that the results of 1 and 2 alone read what they read. Ensures the same
    integers; composite: the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        nodes: list[Node] = []
        for node in block.nodes:
            if node.op == "mul":
                changed |= _fuse_scaled(program, node, nodes)
            elif node.op == "add":
                changed |= _fuse_bias(node)
            nodes.append(node)
        block.nodes = nodes
    return changed


def _fuse_scaled(program: Program, node: Node, nodes: list[Node]) -> bool:
    """Case 1; `nodes` are those before."""
    for sums, factor in (node.inputs[:2], node.inputs[1::-1]):
        scales = _pair_of_scales(factor)
        product = _product(sums)
        if scales is None or product is None:
            continue
        step, w_scale = scales
        left, weight = product.inputs[:2]
        x, whole = _rounded(left, step), _whole(weight)
        if x is None or whole is None or len(x.shape) < 2:
            continue
        if whole.ndim != 2 or whole.min() < -128 or whole.max() > 127:
            continue
        scale = np.broadcast_to(w_scale.reshape(-1), (whole.shape[1],))
        constants = [
            program.constant(whole.astype(np.int8), "int8"),
            program.constant(np.ascontiguousarray(scale)),
        ]
        attrs = {"per_row": False, "symmetric": False}
        rewrite(node, "linear_dynamic", [x, *constants], attrs)
        return True
    return False


def _fuse_bias(node: Node) -> bool:
    """Case 2."""
    for value, bias in (node.inputs[:2], node.inputs[1::-1]):
        result = produced_by(value, "linear_dynamic")
        if result is None or bias is None or not bias.is_constant:
            continue
        if result.outputs[0].only_user is not node or bias.dtype != "float32":
            continue
        inputs = [*result.inputs, None][:4]
        w = inputs[1]
        if inputs[3] is not None or w is None or result.attrs.get("act") != "none":
            continue
        if bias.shape == (w.shape[1],):
            rewrite(node, result.op, [*inputs[:3], bias], result.attrs)
            return True
    return False


def _pair_of_scales(factor: Value | None) -> tuple[Value, Array] | None:
    """x's scale, and the constant of the weight that it is multiplied by."""
    both = produced_by(factor, "mul")
    if both is None:
        return None
    for step, constant in (both.inputs[:2], both.inputs[1::-1]):
        if step is None or constant is None or constant.data is None:
            continue
        if constant.dtype == "float32" and step.data is None:
            return step, np.asarray(constant.data)
    return None


def _product(sums: Value | None) -> Node | None:
    """The product in float64 whose integers are cast to float32."""
    wide = produced_by(sums, "cast")
    whole = None if wide is None else produced_by(wide.inputs[0], "cast")
    if whole is None or whole.outputs[0].dtype != "int32":
        return None
    product = produced_by(whole.inputs[0], "matmul", "linear")
    if product is None or product.outputs[0].dtype != "float64":
        return None
    return None if len(product.inputs) > 2 and product.inputs[2] else product


def _rounded(left: Value | None, step: Value) -> Value | None:
    """The x whose integers less their zero these are, if `step` is its scale."""
    cast = produced_by(left, "cast")
    centred = None if cast is None else produced_by(cast.inputs[0], "sub")
    if centred is None:
        return None
    wide, zero = (produced_by(v, "cast") for v in centred.inputs[:2])
    if wide is None or zero is None:
        return None
    q = produced_by(wide.inputs[0], "cast")
    clip = None if q is None else produced_by(q.inputs[0], "clip")
    moved = None if clip is None else produced_by(clip.inputs[0], "add")
    if clip is None or moved is None or q is None or q.outputs[0].dtype != "uint8":
        return None
    rounded = produced_by(moved.inputs[0], "round")
    division = None if rounded is None else produced_by(rounded.inputs[0], "div")
    point = produced_by(moved.inputs[1], "cast")
    if division is None or point is None or point.inputs[0] is not zero.inputs[0]:
        return None
    x = division.inputs[0]
    if x is None or x.dtype != "float32" or _source(division.inputs[1]) is not step:
        return None
    return x if _is_range(step, x) else None


def _source(value: Value | None) -> Value | None:
    """The value itself, or what a cast to its own dtype or a reshape made it of."""
    while (result := produced_by(value, "reshape", "assign")) is not None:
        value = result.inputs[0]
    return value


def _is_range(step: Value, x: Value) -> bool:
    """Whether `step` is (max(x, 0) - min(x, 0)) / 255."""
    division = produced_by(step, "div")
    width = None if division is None else produced_by(division.inputs[0], "sub")
    if division is None or width is None or number(division.inputs[1]) != 255.0:
        return False
    for bound, op, reduction in zip(
        width.inputs[:2], ("maximum", "minimum"), ("max", "min"), strict=True
    ):
        clamped = produced_by(bound, op)
        if clamped is None or number(clamped.inputs[1]) != 0.0:
            return False
        extreme = produced_by(clamped.inputs[0], reduction)
        if extreme is None or extreme.inputs[0] is not x:
            return False
        if extreme.outputs[0].shape != ():
            return False
    return True


def _whole(value: Value | None) -> Array | None:
    """The integers of a constant that is cast and moved by constants."""
    if value is None:
        return None
    if value.data is not None:
        return np.asarray(value.data)
    cast = produced_by(value, "cast")
    if cast is not None:
        return _whole(cast.inputs[0])
    moved = produced_by(value, "sub")
    if moved is None:
        return None
    a, b = (_whole(v) for v in moved.inputs[:2])
    return None if a is None or b is None else a.astype(np.int64) - b.astype(np.int64)
