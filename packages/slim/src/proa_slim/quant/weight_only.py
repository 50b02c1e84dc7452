"""Weights stored in 16, 8 or 4 bits without calibration; products stay in float32.

    model = quant_post_dynamic(network, spec, weight_bits=4)
    model.save("net.int4.proa")

The file holds integers and scales, and the graph turns them into float32 before each
product: 16 and 8 bits by one or two operators, 4 bits by unpacking two integers of a
byte. A row of an embedding table is converted after it was looked up, alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.ir.builder import make_node
from proa.ir.passes import apply
from proa.ir.passes.quantize_recurrent import quantize_recurrent
from proa.ir.program import Array, Node, Program, Value
from proa_slim.config import QuantConfig, WeightObserver
from proa_slim.loading import as_network
from proa_slim.quant.gptq import gptq, hessians
from proa_slim.quant.input_check import require_finite_weight
from proa_slim.quant.layer_paths import is_in
from proa_slim.quant.lower import PRODUCTS
from proa_slim.quant.model import QuantizedModel
from proa_slim.quant.recording import arrays_of, program_of
from proa_slim.quant.scales import weight_scale

WeightBits = Literal[4, 8, 16]
#: Axis of the second input, the weight, that counts output channels (rows of a table).
_AXES = {op: axis for op, (_, axis) in PRODUCTS.items()} | {
    "conv2d_transpose": 1,
    "matmul": 1,
    "recurrent": 0,
    "embedding": 0,
}
#: Passes that let products of integers take the place of those of floats.
_DYNAMIC = ("round_linear", "quantize_recurrent", "remove_dead_code")
#: Operators whose weights alone `quant_post_static` stores in 8 bits.
WEIGHT_ALONE = ("embedding", "recurrent")
_LEVELS = {8: 127, 16: 32767}
#: Smaller weights stay in float32: scales and operators would outweigh what is saved.
_SMALLEST = 128
#: Likewise of 4 bits against 8 in a compressed file, and the fewest weights of a
#: channel: depthwise filters lose 1 to 3 points on Fashion-MNIST for 1 % of the bytes.
_SMALLEST_4_BITS, _SMALLEST_CHANNEL = 1024, 16
#: Integers at which the greatest magnitude of a group is tried.
_PEAKS = np.linspace(8.0, 10.0, 9, dtype=np.float32)


class Grouped(NamedTuple):
    """Integers of a weight and the scale of each group of them.

    `integers` has the weight's channels and, before or after them, (groups, members);
    `scale` is of one member.
    """

    integers: NDArray[np.integer[Any]]
    scale: NDArray[np.float32]


def quant_post_dynamic(
    network: proa.nn.Layer,
    input_spec: Sequence[Any],
    weight_bits: WeightBits = 8,
    group_size: int = 32,
    weight: WeightObserver = "channel_abs_max",
    skip: tuple[str, ...] = (),
    calibration: Iterable[Any] | None = None,
    products: Literal["float32", "int8"] = "float32",
) -> QuantizedModel:
    """Store the weights of a trained network in fewer bits, without data.

    Args:
        network: Is not changed.
        input_spec: As for `proa.jit.save`.
        weight_bits: 16 or 8, q = clamp(round(w / scale)) with one scale for an output
            channel; or 4, two to a byte, w = scale * q with q in [-8, 7] and one
            float16 scale for a group: of those that have the greatest magnitude at -8
            to -10, the one with the least square error. 8 bits instead of 4 for
            embedding tables, weights of less than 1,024 elements (the operators that
            unpack them would outweigh the other half of their bytes) and of less than
            16 elements for a channel (depthwise convolutions).
        group_size: Weights of one channel that share a scale of 4 bits. Where it does
            not divide them, the greatest smaller size that does and is at least half
            of it, or else all of the channel.
        weight: How the scales of 8 and 16 bits are found, as in `QuantConfig`.
        skip: Layers whose weights stay in float32: full names or paths.
        calibration: Batches of real input, if any: 4-bit weights of linear layers and
            1 x 1 convolutions are then rounded one after the other, each making up for
            the errors before it (GPTQ, Frantar et al., 2023).
        products: "int8" with weights of 8 bits also multiplies in int8: each row of
            the input of a linear layer is rounded by a scale of its own as it comes,
            and so are the states of LSTM, GRU and tanh cells, by 1/127. Convolutions
            stay in float32.

    Returns:
        A model without a report; its `unquantized` names weights that are too small.

    Raises:
        InvalidArgumentError: If weight_bits is none of these or group_size below 2, or
            products are int8 of weights that do not have 8 bits, or if a weight or a
            value of `calibration` is not finite.
        NotFoundError: If `skip` names a layer that the network does not have.
        PreconditionNotMetError: If no weight can be stored in fewer bits.
    """
    _check(weight_bits, group_size, products)
    network = as_network(network, input_spec)
    config = QuantConfig(weight=weight, skip=skip)
    config = replace(config, skip=tuple(config.skipped(network)))
    program = program_of(network, input_spec)
    found: Mapping[str, Array] = {}
    if calibration is not None and weight_bits == 4:
        count = len(program.main.inputs)
        found = hessians(program, [arrays_of(b, count) for b in calibration])
    left = {}
    make = _Nodes(program)
    done: dict[tuple[Value, int], Value] = {}
    for node in list(program.main.nodes):
        value = _weight(node)
        if value is None or (path := _path(value)) in config.skip:
            continue
        require_finite_weight(value.name, np.asarray(value.data), "quant_post_dynamic")
        if int(np.prod(value.shape)) < _SMALLEST:
            left[path] = f"its weight has less than {_SMALLEST} elements"
        elif node.op == "embedding":
            _store_table(make, node, value, max(weight_bits, 8), config)
        else:
            hessian = found.get(node.outputs[0].name)
            _store(make, node, value, (weight_bits, group_size), config, hessian, done)
    if not done and not any(n.op == "embedding" for n in program.main.nodes):
        raise PreconditionNotMetError(
            "[quant_post_dynamic] expected a weight to store in fewer bits, got "
            f"{left or 'a network without weights'}"
        )
    program.metadata["quantization"] = f"weights int{weight_bits}"
    if products == "int8":
        apply(program, _DYNAMIC)
        program.metadata["quantization"] = "dynamic int8"
    return QuantizedModel(program, [], left)


def store_in_8_bits(program: Program, config: QuantConfig) -> None:
    """Store weights of `WEIGHT_ALONE` in 8 bits, as far as ``config.ops`` has them, and
    multiply states of recurrent cells as integers if it wants that.
    """
    make = _Nodes(program)
    done: dict[tuple[Value, int], Value] = {}
    for node in list(program.main.nodes):
        value = _weight(node)
        if value is None or node.op not in WEIGHT_ALONE or node.op not in config.ops:
            continue
        if is_in(value.name, config.skip) or int(np.prod(value.shape)) < _SMALLEST:
            continue
        require_finite_weight(value.name, np.asarray(value.data), "quant_post_static")
        if node.op == "embedding":
            _store_table(make, node, value, 8, config)
        else:
            _store(make, node, value, (8, 0), config, None, done)
    if config.recurrent_states:
        stored = set(done.values())
        quantize_recurrent(program, lambda node: node.inputs[1] in stored)
        apply(program, ("remove_dead_code",))


def _check(weight_bits: int, group_size: int, products: str) -> None:
    if products not in ("float32", "int8") or (products == "int8" and weight_bits != 8):
        raise InvalidArgumentError(
            "[quant_post_dynamic] products must be 'float32', or 'int8' with "
            f"weight_bits=8, got {products!r} with weight_bits={weight_bits}"
        )
    if weight_bits not in (4, *_LEVELS):
        raise InvalidArgumentError(
            f"[quant_post_dynamic] weight_bits must be 4, 8 or 16, got {weight_bits}"
        )
    if group_size < 2:
        raise InvalidArgumentError(
            f"[quant_post_dynamic] group_size must be at least 2, got {group_size}"
        )


def _weight(node: Node) -> Value | None:
    if node.op not in _AXES or len(node.inputs) < 2:
        return None
    value = node.inputs[1]
    if value is None or not value.is_constant or value.dtype != "float32":
        return None
    return value if len(value.shape) >= 2 else None


def _path(weight: Value) -> str:
    return weight.name.rpartition(".")[0]


class _Nodes:
    """Appends nodes of one output, and puts them before another.

    Results have the name of the weight that they are, in parts and by steps: one string
    of the file for all.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.nodes, self.name = program, list[Node](), ""
        self._numbers: dict[tuple[int, str], Value] = {}

    def __call__(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        node = make_node(self.program, op, list(inputs), attrs)
        self.nodes.append(node)
        node.outputs[0].name = self.name or node.outputs[0].name
        return node.outputs[0]

    def number(self, value: int, dtype: str) -> Value:
        """A constant of one element, one for the program."""
        key = value, dtype
        if key not in self._numbers:
            self._numbers[key] = self.program.constant(np.array(value, dtype), dtype)
        return self._numbers[key]

    def insert_before(self, node: Node) -> None:
        """Put the nodes into the program, and begin again."""
        at = self.program.main.nodes.index(node)
        self.program.main.nodes[at:at] = self.nodes
        self.nodes = []

    def constant(self, array: Array, dtype: str, name: str) -> Value:
        """A named array."""
        return self.program.constant(array, dtype, name)


def _store(
    make: _Nodes,
    node: Node,
    weight: Value,
    size: tuple[int, int],
    config: QuantConfig,
    hessian: Array | None,
    done: dict[tuple[Value, int], Value],
) -> None:
    """Let the node read the weight from integers, which are stored once."""
    axis = _AXES[node.op]
    key = weight, axis
    if key not in done:
        bits, group_size = size
        make.name = weight.name
        array = np.asarray(weight.data)
        if bits == 4 and _suits_four_bits(array, axis):
            grouped = four_bits(array, axis, group_size, hessian)
            done[key] = _unpacked(make, weight, grouped, axis)
        else:
            done[key] = _converted(make, weight, axis, max(bits, 8), config)
        make.insert_before(node)
    node.inputs[1] = done[key]


def _suits_four_bits(array: Array, axis: int) -> bool:
    return (
        array.size % 2 == 0
        and array.size >= _SMALLEST_4_BITS
        and array.size // array.shape[axis] >= _SMALLEST_CHANNEL
    )


def _integers(
    array: Array, axis: int, bits: int, kind: WeightObserver
) -> tuple[Array, Array]:
    """(integers, scales) of 8 or 16 bits."""
    levels = _LEVELS[bits]
    scale = weight_scale(array, axis, kind, levels)
    along = [1] * array.ndim
    along[axis] = -1
    steps = np.broadcast_to(scale, (array.shape[axis],)).reshape(along)
    whole = np.clip(np.rint(array / steps), -levels, levels)
    return whole.astype(f"int{bits}"), scale


def _converted(
    make: _Nodes, weight: Value, axis: int, bits: int, config: QuantConfig
) -> Value:
    """int8 by `dequantize`, int16 by a cast and a product."""
    array = np.asarray(weight.data)
    whole, scale = _integers(array, axis, bits, config.weight)
    stored = make.constant(whole, f"int{bits}", f"{weight.name}.int{bits}")
    if bits == 8:
        steps = make.constant(scale, "float32", f"{weight.name}.scale")
        return make("dequantize", stored, steps, axis=axis if scale.size > 1 else -1)
    along = [1] * array.ndim
    along[axis] = scale.size
    steps = make.constant(scale.reshape(along), "float32", f"{weight.name}.scale")
    return make("mul", make("cast", stored, dtype="float32"), steps)


def four_bits(
    array: Array, axis: int, group_size: int, hessian: Array | None = None
) -> Grouped:
    """Integers in [-8, 7] and float16 scales, in groups along the input of a channel.

    Args:
        array: The weight; with axis 0 (out, ...), else (in, out, ...).
        axis: That counts output channels, 0 or 1.
        group_size: As for `quant_post_dynamic`.
        hessian: (in, in), of a weight with `in` elements for each channel.
    """
    rows = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    size = _members(rows.shape[1], group_size)
    groups = rows.reshape(len(rows), -1, size)  # (out, groups, members)
    scale = _group_scales(groups)
    if hessian is None or len(hessian) != rows.shape[1]:
        whole = np.clip(np.rint(groups / scale), -8, 7)
    else:
        whole = gptq(rows, np.repeat(scale[:, :, 0], size, axis=1), hessian, -8, 7)
        whole = whole.reshape(groups.shape)
    if axis == 0:
        return Grouped(whole.astype(np.int8), scale)
    # Columns stay columns: (groups, members, out).
    return Grouped(np.moveaxis(whole, 0, -1).astype(np.int8), np.moveaxis(scale, 0, -1))


def _group_scales(groups: Array) -> NDArray[np.float32]:
    """The scale of each group, (out, groups, 1): the greatest magnitude is at the
    integer of `_PEAKS` that makes the square error least.
    """
    at = np.abs(groups).argmax(axis=2, keepdims=True)
    peak = np.take_along_axis(groups, at, axis=2)
    best = np.zeros_like(peak)
    lowest = np.full_like(peak, np.inf)
    for integer in _PEAKS:
        scale = (peak / -integer).astype(np.float16).astype(np.float32)
        scale = np.where(scale == 0, np.float32(1), scale)
        real = np.clip(np.rint(groups / scale), -8, 7) * scale
        error = ((groups - real) ** 2).sum(axis=2, keepdims=True)
        best, lowest = np.where(error < lowest, scale, best), np.minimum(error, lowest)
    result: NDArray[np.float32] = best
    return result


def _members(count: int, group_size: int) -> int:
    """Size of the groups of a channel of `count` weights."""
    sizes = range(group_size, (group_size + 1) // 2 - 1, -1)
    return next((size for size in sizes if count % size == 0), count)


def _unpacked(make: _Nodes, weight: Value, grouped: Grouped, axis: int) -> Value:
    """float32 from bytes: the first half of the integers in the low four bits."""
    shape = list(grouped.integers.shape)
    shifted = (grouped.integers + 8).astype(np.uint8).reshape(2, -1)
    halves = shifted[0] | (shifted[1] << 4)
    in_shape = shape[0] % 2 == 0  # then halves join to the shape along the first axis
    if in_shape:
        halves = halves.reshape(shape[0] // 2, *shape[1:])
    packed = make.constant(halves, "uint8", f"{weight.name}.int4")
    scale = make.constant(
        grouped.scale.astype(np.float16), "float16", f"{weight.name}.scale"
    )
    low = make("bitwise_and", packed, make.number(15, "uint8"))
    high = make("floor_div", packed, make.number(16, "uint8"))
    whole = make("cast", make("concat", low, high), dtype="float32")
    centred = make("sub", whole, make.number(8, "float32"))
    if not in_shape:
        centred = make("reshape", centred, shape=shape)
    real = make("mul", centred, make("cast", scale, dtype="float32"))
    if axis == 0 or len(weight.shape) == 2:
        return make("reshape", real, shape=list(weight.shape))
    # (in * rest, out) back to (in, out, rest), of a transposed convolution.
    split = [weight.shape[0], *weight.shape[2:], weight.shape[1]]
    order = [0, len(split) - 1, *range(1, len(split) - 1)]
    return make("transpose", make("reshape", real, shape=split), perm=order)


def _store_table(
    make: _Nodes, node: Node, weight: Value, bits: int, config: QuantConfig
) -> None:
    """Look rows up in integers, and multiply each by its own scale."""
    kind: WeightObserver = "channel_abs_max"
    if config.weight.endswith("mse"):
        kind = "channel_mse"
    whole, scale = _integers(np.asarray(weight.data), 0, bits, kind)
    table = make.constant(whole, f"int{bits}", f"{weight.name}.int{bits}")
    steps = make.constant(scale[:, None], "float32", f"{weight.name}.scale")
    ids = node.inputs[0]
    assert ids is not None
    make.name = ""
    rows = make("cast", make("embedding", ids, table, **node.attrs), dtype="float32")
    scales = make("embedding", ids, steps)
    make.insert_before(node)
    node.op, node.attrs, node.inputs = "mul", {}, [rows, scales]
