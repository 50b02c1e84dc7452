from __future__ import annotations

import numpy as np

from proa.ir.builder import make_node
from proa.ir.passes.attention_heads import (
    have_same_heads,
    replace_by_attention,
    step_before,
)
from proa.ir.passes.match import number, produced_by, rewrite
from proa.ir.program import Array, Block, Node, Program, Value


def fuse_layer_norm(program: Program) -> bool:
    """Replace a decomposed layer norm by one operator.

    1. (x - m) / sqrt(v + e) * w + b -> layer_norm(x, w, b, epsilon=e), with m the mean
       of x over the last axis and v that of (x - m) ** 2. The quotient may be a product
       with rsqrt or with the power -0.5, the square a product or a power.

    Requires constant w and b of the last axis' size, e > 0, and float32 or float64.
    Results differ by rounding. Composite: the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        for node in list(block.nodes):
            if node.op == "add":
                changed |= _fuse_norm(program, block, node)
    return changed


def _fuse_norm(program: Program, block: Block, add: Node) -> bool:
    for product, bias in (add.inputs[:2], add.inputs[1::-1]):
        scaled = produced_by(product, "mul")
        if scaled is None or bias is None or bias.data is None:
            continue
        for normal, weight in (scaled.inputs[:2], scaled.inputs[1::-1]):
            found = _normal(normal)
            if found is None or weight is None or weight.data is None:
                continue
            x, epsilon = found
            flat = [_last_axis(v, x) for v in (weight, bias)]
            if flat[0] is None or flat[1] is None:
                continue
            constants = [program.constant(array) for array in flat if array is not None]
            result = make_node(
                program, "layer_norm", [x, *constants], {"epsilon": epsilon}
            )
            block.nodes.insert(block.nodes.index(add), result)
            _take_place(block, add.outputs[0], result.outputs[0])
            return True
    return False


def _take_place(block: Block, old: Value, new: Value) -> None:
    new.name = old.name
    block.replace(old, new)


def _last_axis(value: Value, x: Value) -> Array | None:
    """The constant as an array of x's last axis, if it is one."""
    data = np.asarray(value.data)
    size = x.shape[-1]
    if value.dtype != x.dtype or data.size != size or value.shape[-1:] != (size,):
        return None
    return data.reshape(-1)


def _normal(value: Value | None) -> tuple[Value, float] | None:
    """x and e of (x - m) / sqrt(v + e)."""
    node = produced_by(value, "div", "mul")
    if node is None or value is None or value.dtype not in ("float32", "float64"):
        return None
    for part, factor in (node.inputs[:2], node.inputs[1::-1]):
        root = _root(factor, inverse=node.op == "mul")
        centered = produced_by(part, "sub")
        if root is not None and centered is not None:
            x = _centered(centered)
            variance, epsilon = root
            if x is not None and _is_variance(variance, x) and epsilon > 0:
                return x, epsilon
        if node.op == "div":
            break
    return None


def _root(value: Value | None, inverse: bool) -> tuple[Value, float] | None:
    """v and e of sqrt(v + e), or of its inverse."""
    inside: Value | None = None
    if inverse:
        power = produced_by(value, "pow")
        division = produced_by(value, "div")
        if produced_by(value, "rsqrt") is not None and value is not None:
            assert value.producer is not None
            inside = value.producer.inputs[0]
        elif power is not None and number(power.inputs[1]) == -0.5:
            inside = power.inputs[0]
        elif division is not None and number(division.inputs[0]) == 1.0:
            return _root(division.inputs[1], inverse=False)
    else:
        power, root = produced_by(value, "pow"), produced_by(value, "sqrt")
        if root is not None:
            inside = root.inputs[0]
        elif power is not None and number(power.inputs[1]) == 0.5:
            inside = power.inputs[0]
    shifted = produced_by(inside, "add")
    if shifted is None:
        return None
    for variance, constant in (shifted.inputs[:2], shifted.inputs[1::-1]):
        epsilon = number(constant)
        if variance is not None and epsilon is not None:
            return variance, epsilon
    return None


def _centered(sub: Node) -> Value | None:
    """x of x - mean(x)."""
    x, mean = sub.inputs[:2]
    return x if x is not None and _mean_of(mean) is x else None


def _mean_of(value: Value | None) -> Value | None:
    """x of mean(x) over the last axis, which stays with size 1."""
    node = produced_by(value, "mean")
    x = None if node is None else node.inputs[0]
    if node is None or x is None or not node.attrs.get("keepdim"):
        return None
    axes = [a % len(x.shape) for a in node.attrs.get("axis") or ()]
    return x if axes == [len(x.shape) - 1] else None


def _is_variance(value: Value, x: Value) -> bool:
    """Whether the value is the mean of (x - mean(x)) ** 2."""
    square = _mean_of(value)
    node = produced_by(square, "square", "pow", "mul")
    if node is None:
        return False
    base = node.inputs[0]
    if node.op == "mul" and node.inputs[1] is not base:
        return False
    if node.op == "pow" and number(node.inputs[1]) != 2.0:
        return False
    centered = produced_by(base, "sub")
    return centered is not None and _centered(centered) is x


def fuse_attention(program: Program) -> bool:
    """Replace decomposed attention by one operator.

    1. matmul(softmax(s), v) -> attention(q, k, v, mask), with s the product of q and
       the transposed k, times or over a number, plus a mask, if there is one. The
       number may be a factor of q or of k instead.

    Requires four axes (batch, heads, length, width), one softmax over the last, that
    each step is read by the next alone, and float32. Results differ by rounding.
    Composite: the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        for node in list(block.nodes):
            if node.op == "matmul":
                changed |= _fuse_attention(program, block, node)
    return changed


def _fuse_attention(program: Program, block: Block, node: Node) -> bool:
    softmax = step_before(node.inputs[0], node, "softmax")
    v = node.inputs[1]
    if softmax is None or v is None or len(v.shape) != 4 or v.dtype != "float32":
        return False
    scores = softmax.outputs[0]
    if len(scores.shape) != 4 or softmax.attrs["axis"] not in (-1, 3):
        return False
    found = _scores(softmax.inputs[0], softmax)
    if found is None:
        return False
    q, keys, scale, mask = found
    if not have_same_heads(q, keys, v):
        return False
    if mask is not None and (mask.dtype != "float32" or len(mask.shape) > 4):
        return False
    replace_by_attention(
        program, block, node, "attention", (q, keys, v), mask, {"scale": scale}
    )
    return True


def _scores(
    value: Value | None, reader: Node
) -> tuple[Value, Value, float, Value | None] | None:
    """q, the transposed k, the scale and the mask of a softmax's input."""
    add = step_before(value, reader, "add")
    if add is not None:
        for scores, mask in (add.inputs[:2], add.inputs[1::-1]):
            found = _product(scores, add)
            if found is not None and mask is not None:
                return *found, mask
        return None
    product = _product(value, reader)
    return None if product is None else (*product, None)


def _product(value: Value | None, reader: Node) -> tuple[Value, Value, float] | None:
    """q, the transposed k and the scale of their product."""
    scaled, scale = _scaled(value, reader)
    matmul = produced_by(scaled, "matmul")
    if matmul is None:
        return None
    last = reader if scaled is value else produced_by(value, "mul", "div")
    if last is None or matmul.outputs[0].only_user is not last:
        return None
    (q, q_scale), (keys, k_scale) = (_scaled(v, matmul) for v in matmul.inputs[:2])
    if q is None or keys is None:
        return None
    return q, keys, scale * q_scale * k_scale


def _scaled(value: Value | None, reader: Node) -> tuple[Value | None, float]:
    """x and c of x * c or x / (1 / c) that `reader` alone reads, or the value and 1."""
    node = step_before(value, reader, "mul", "div")
    if node is not None:
        for x, constant in (node.inputs[:2], node.inputs[1::-1]):
            factor = number(constant)
            if x is not None and factor:
                return x, factor if node.op == "mul" else 1.0 / factor
            if node.op == "div":
                break
    return value, 1.0


def fuse_linear_pair(program: Program) -> bool:
    """Multiply the weights of two consecutive products before recurrent gates.

    1. linear(linear(x, w1, b1?), w2, b2?) -> linear(x, w1 @ w2, b1 @ w2 + b2).
    2. The same with a transpose between them that leaves the last axis: it comes first.

    Requires that recurrent operators alone read the result (other weights stay those
    that were trained, which pruning and quantization see), constants of float32, that
    the second alone reads the first (but for the shape of a zero state, which then is
    x's), and that both multiply-adds and weights become fewer. Weights are multiplied
    in float64; results differ by rounding. Composite: the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        for node in list(block.nodes):
            if node.op != "linear" or not _makes_gates(node.outputs[0]):
                continue
            moved = step_before(node.inputs[0], node, "transpose")
            if moved is not None and moved.attrs["perm"][-1] != len(_shape(moved)) - 1:
                continue
            reader = node if moved is None else moved
            first = produced_by(reader.inputs[0], "linear")
            if first is None or not _read_by(first, reader):
                continue
            one, two = _held(first), _held(node)
            if one is None or two is None:
                continue
            (w1, b1), (w2, b2) = one, two
            if w1.shape[0] * w2.shape[1] > w1.size + w2.size:
                continue
            whole, bias = w1 @ w2, b2
            if b1 is not None:
                bias = b1 @ w2 + (0 if b2 is None else b2)
            name = node.inputs[1].name if node.inputs[1] is not None else "pair"
            constants: list[Value | None] = [
                program.constant(whole.astype(np.float32), name=name)
            ]
            if bias is not None:
                constants.append(program.constant(bias.astype(np.float32)))
            x = first.inputs[0]
            for other in first.outputs[0].users:
                if other is not reader:
                    other.inputs[0] = x
            if moved is not None:
                early = make_node(program, "transpose", [x], moved.attrs)
                block.nodes.insert(block.nodes.index(node), early)
                x = early.outputs[0]
            rewrite(node, "linear", [x, *constants], {})
            changed = True
    return changed


def _makes_gates(value: Value) -> bool:
    """Whether recurrent operators alone read the value, maybe after it is moved."""
    return not value.is_output and all(
        user.op == "recurrent"
        or (user.op in ("transpose", "reshape") and _makes_gates(user.outputs[0]))
        for user in value.users
    )


def _read_by(linear: Node, reader: Node) -> bool:
    """Whether the reader alone reads the product, or others the shape without its last
    axis.
    """
    y = linear.outputs[0]
    others = [user for user in y.users if user is not reader]
    last = len(y.shape) - 1
    return not y.is_output and all(
        user.op == "select"
        and user.attrs["axis"] == last
        and _is_shape(user.outputs[0])
        for user in others
    )


def _is_shape(value: Value) -> bool:
    """Whether only the shape of the value matters."""
    return not value.is_output and all(
        user.op == "full_like"
        or (
            user.op in ("select", "reshape", "broadcast_to")
            and _is_shape(user.outputs[0])
        )
        for user in value.users
    )


def _shape(node: Node) -> tuple[int, ...]:
    return node.outputs[0].shape


def _held(linear: Node) -> tuple[Array, Array | None] | None:
    """The weight and the bias of a product, if they are constants, in float64."""
    w, b = [*linear.inputs, None][1:3]
    if w is None or w.data is None or w.dtype != "float32":
        return None
    if b is not None and b.data is None:
        return None
    bias = None if b is None else np.asarray(b.data, np.float64)
    return np.asarray(w.data, np.float64), bias
