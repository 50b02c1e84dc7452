"""Lowering to integers against integer arithmetic in plain NumPy."""

import sys
from itertools import pairwise

import numpy as np
import pytest

from proa.ir.builder import Builder
from proa.ir.verify import verify
from proa_slim import QuantConfig
from proa_slim.quant.interpret import interpret
from proa_slim.quant.lower import lower
from proa_slim.quant.post_training import calibrate, convert

RNG = np.random.default_rng(2)


@pytest.fixture(autouse=True)
def same_numbers():
    """Tests draw the same numbers whichever ran before them."""
    RNG.bit_generator.state = np.random.default_rng(2).bit_generator.state


CONFIG = QuantConfig(activation="abs_max")


def to_int(x, scale):
    """clamp(round(x / scale), -127, 127) in float32, halves to even."""
    ratio = x.astype(np.float32) / np.float32(scale)
    return np.clip(np.rint(ratio), -127, 127).astype(np.int8)


def channel_scale(w, axis):
    peak = np.abs(w).max(axis=tuple(i for i in range(w.ndim) if i != axis))
    return (peak / np.float32(127)).astype(np.float32)


def int_linear(xq, x_scale, w, bias):
    """float32 result of the integer product, each rounding as the op defines it."""
    w_scale = channel_scale(w, 1)
    acc = xq.astype(np.int64) @ to_int(w, w_scale).astype(np.int64)
    return acc.astype(np.float32) * (np.float32(x_scale) * w_scale) + bias


def chain(shape=(6,)):
    """linear -> relu -> linear -> linear, as fused nodes; and the arrays in it."""
    sizes = [shape[0], 16, 12, 4]
    b = Builder()
    x = b.input("x", "float32", (-1, shape[0]))
    arrays = []
    value = x
    for i, (n, m) in enumerate(pairwise(sizes)):
        w = RNG.standard_normal((n, m)).astype(np.float32)
        bias = RNG.standard_normal(m).astype(np.float32)
        arrays.append((w, bias))
        act = "relu" if i == 0 else "none"
        value = b.linear_act(
            value, b.parameter(f"w{i}", w), b.parameter(f"b{i}", bias), None, act=act
        )
    b.output(value)
    return b.program, arrays


def quantized(program, batches):
    return convert(program, calibrate(program, batches, CONFIG), CONFIG, batches[0])


def test_a_chain_of_products_runs_in_integers_exactly_as_in_numpy():
    program, arrays = chain()
    batches = [[RNG.standard_normal((32, 6)).astype(np.float32)] for _ in range(3)]
    scales = [s.scale for s in calibrate(program, batches, CONFIG).values()]
    model = quantized(program, batches)
    ops = [n.op for n in model.program.main.nodes]
    assert ops == ["quantize", "linear_int8", "linear_int8", "linear_int8"]
    dtypes = [n.attrs["dtype"] for n in model.program.main.nodes[1:]]
    assert dtypes == ["int8", "int8", "float32"]
    verify(model.program)
    x = RNG.standard_normal((50, 6)).astype(np.float32)
    value = to_int(x, scales[0])
    for i, (w, bias) in enumerate(arrays):
        real = int_linear(value, scales[i], w, bias)
        if i == 0:
            real = np.maximum(real, 0)
        value = to_int(real, scales[i + 1]) if i < 2 else real
    np.testing.assert_array_equal(interpret(model.program, [x])[0], value)
    assert model(x).tobytes() == interpret(model.program, [x])[0].tobytes()


def test_scales_are_those_of_the_activations_seen():
    program, arrays = chain()
    batches = [[RNG.standard_normal((32, 6)).astype(np.float32)] for _ in range(3)]
    scales = [s.scale for s in calibrate(program, batches, CONFIG).values()]
    whole = np.concatenate([b[0] for b in batches])
    hidden = np.maximum(whole @ arrays[0][0] + arrays[0][1], 0)
    last = hidden @ arrays[1][0] + arrays[1][1]
    expect = [np.abs(a).max() / 127 for a in (whole, hidden, last)]
    np.testing.assert_allclose(scales, expect, rtol=1e-5)


def conv_net(act="relu"):
    b = Builder()
    x = b.input("x", "float32", (-1, 2, 8, 8))
    w = b.parameter("conv.weight", RNG.standard_normal((5, 2, 3, 3)).astype(np.float32))
    bias = b.parameter("conv.bias", RNG.standard_normal(5).astype(np.float32))
    y = b.conv2d_act(x, w, bias, None, padding=[1, 1, 1, 1], act=act)
    y = b.max_pool2d(y, kernel=[2, 2], stride=[2, 2])
    y = b.flatten(y, start_axis=1)
    v = b.parameter("fc.weight", RNG.standard_normal((80, 3)).astype(np.float32))
    b.output(b.linear(y, v))
    return b.program


def images(n=8):
    return RNG.standard_normal((n, 2, 8, 8)).astype(np.float32)


def test_integers_flow_through_pools_and_views():
    program = conv_net()
    model = quantized(program, [[images()]])
    nodes = model.program.main.nodes
    assert [n.op for n in nodes] == [
        "quantize",
        "conv2d_int8",
        "max_pool2d",
        "flatten",
        "linear_int8",
    ]
    assert {v.dtype for n in nodes[:-1] for v in n.outputs} == {"int8"}
    x = images(20)
    exact, got = interpret(program, [x])[0], model(x)
    assert np.abs(got - exact).max() < 0.06 * np.abs(exact).max()


def test_moving_the_rounding_before_a_pool_changes_nothing():
    program = conv_net()
    model = quantized(program, [[images()]])
    x = images(20)
    rounded = model(x)
    (conv,) = [n for n in model.program.main.nodes if n.op == "conv2d_int8"]
    scale = conv.attrs["out_scale"]
    # The same network with float32 between, rounded after the pool by NumPy.
    from proa.ir import file

    other = file.from_bytes(file.to_bytes(model.program))
    (conv,) = [n for n in other.main.nodes if n.op == "conv2d_int8"]
    conv.attrs.update(dtype="float32", out_scale=0.0)
    (linear,) = [n for n in other.main.nodes if n.op == "linear_int8"]
    seen = {}
    flat = next(n for n in other.main.nodes if n.op == "flatten")
    for node in other.main.nodes[1:-1]:
        node.outputs[0].dtype = "float32"
    other.main.nodes.remove(linear)
    other.main.outputs = [flat.outputs[0]]
    seen["pooled"] = interpret(other, [x])[0]
    again = Builder()
    q = again.input("q", "int8", (-1, 80))
    arrays = [again.constant(v.data) for v in linear.inputs[1:] if v is not None]
    again.output(again.linear_int8(q, *arrays, **linear.attrs))
    late = interpret(again.program, [to_int(seen["pooled"], scale)])[0]
    np.testing.assert_array_equal(late, rounded)


def test_a_residual_is_added_within_the_integer_product():
    b = Builder()
    x = b.input("x", "float32", (-1, 6))
    w = b.parameter("w", RNG.standard_normal((6, 6)).astype(np.float32))
    b.output(b.linear_act(x, w, None, x, act="relu"))
    batch = RNG.standard_normal((16, 6)).astype(np.float32)
    model = quantized(b.program, [[batch]])
    assert [n.op for n in model.program.main.nodes] == ["quantize", "linear_int8"]
    scale = np.abs(batch).max() / np.float32(127)
    product = int_linear(to_int(batch, scale), scale, w.data, np.float32(0))
    np.testing.assert_array_equal(
        interpret(model.program, [batch])[0], np.maximum(product + batch, 0)
    )


def test_skipped_layers_stay_in_float():
    program = conv_net()
    config = QuantConfig(activation="abs_max", skip=("conv",))
    model = convert(program, calibrate(program, [[images()]], config), config)
    ops = [n.op for n in model.program.main.nodes]
    assert "conv2d_act" in ops
    assert "linear_int8" in ops


def test_per_tensor_weights_share_one_scale():
    config = QuantConfig(activation="abs_max", weight="abs_max")
    program = conv_net()
    model = convert(program, calibrate(program, [[images()]], config), config)
    (conv,) = [n for n in model.program.main.nodes if n.op == "conv2d_int8"]
    multiplier = conv.inputs[2].data
    assert np.unique(multiplier).size == 1


def test_the_input_program_is_not_modified():
    program = conv_net()
    before = str(program)
    quantized(program, [[images()]])
    assert str(program) == before


def test_the_report_names_each_product_and_its_noise():
    program = conv_net()
    model = quantized(program, [[images()]])
    assert [r.op for r in model.report] == ["conv2d_act", "linear"]
    assert all(20 < r.sqnr_db < 60 for r in model.report)
    assert "SQNR" in model.summary()


@pytest.mark.parametrize("act", ["none", "relu", "sigmoid", "hard_swish"])
def test_activations_are_applied_in_the_integer_product(act):
    program = conv_net(act)
    model = quantized(program, [[images()]])
    x = images(12)
    exact = interpret(program, [x])[0]
    assert np.abs(model(x) - exact).max() < 0.08 * np.abs(exact).max()


@pytest.mark.parametrize(("columns", "early"), [(16, False), (30, True)])
def test_rounding_moves_before_a_slice_that_keeps_nearly_all(columns, early):
    b = Builder()
    x = b.input("x", "float32", (-1, 32))
    part = b.slice(x, axes=[1], starts=[0], ends=[columns], steps=[1])
    w = b.parameter("w", RNG.standard_normal((columns, 4)).astype(np.float32))
    b.output(b.linear(part, w, None))
    batch = RNG.standard_normal((8, 32)).astype(np.float32)
    model = quantized(b.program, [[batch]])
    ops = [n.op for n in model.program.main.nodes]
    assert ops.index("quantize") == (0 if early else 1)
    want = batch[:, :columns] @ w.data
    assert np.abs(model(batch) - want).max() < 0.03 * np.abs(want).max()


def test_lowering_twice_changes_nothing():
    program = conv_net()
    model = quantized(program, [[images()]])
    before = str(model.program)
    assert lower(model.program, CONFIG) == 0
    assert str(model.program) == before


def calls_to_lower(layers):
    """How many functions are called to lower a chain of products, ReLUs and views."""
    b = Builder()
    value = b.input("x", "float32", (-1, 4))
    scale = b.constant(np.float32(0.1))
    for i in range(layers):
        w = b.parameter(f"w{i}", RNG.standard_normal((4, 4)).astype(np.float32))
        value = b.relu(b.linear(b.fake_quant(value, scale), w, None))
        value = b.reshape(b.reshape(value, shape=(-1, 2, 2)), shape=(-1, 4))
    b.output(value)
    calls = 0

    def see(frame, event, _):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        assert lower(b.program, CONFIG) == layers
    finally:
        sys.setprofile(None)
    verify(b.program)
    quantizes = [n for n in b.program.nodes() if n.op == "quantize"]
    assert len(quantizes) == 1  # all others went into products
    return calls


def test_lowering_takes_calls_in_proportion_to_the_layers():
    few, many = calls_to_lower(10), calls_to_lower(40)
    assert many < 4.4 * few


def block_net(gated):
    """An inverted residual: 1 x 1, depthwise, perhaps squeeze-excite, 1 x 1, a sum."""

    def weight(name, *shape):
        return b.parameter(name, RNG.standard_normal(shape).astype(np.float32) * 0.3)

    b = Builder()
    x = b.input("x", "float32", (-1, 3, 8, 8))
    x = b.conv2d(x, weight("stem", 8, 3, 1, 1), None)
    y = b.conv2d_act(x, weight("wide", 16, 8, 1, 1), None, None, act="relu6")
    y = b.conv2d_act(
        y, weight("deep", 16, 1, 3, 3), None, None, padding=[1] * 4, groups=16,
        act="hard_swish",
    )  # fmt: skip
    if gated:
        s = b.adaptive_avg_pool2d(y, size=[1, 1])
        s = b.conv2d_act(s, weight("in", 4, 16, 1, 1), None, None, act="relu")
        s = b.conv2d_act(s, weight("out", 16, 4, 1, 1), None, None, act="hard_sigmoid")
        y = b.mul(y, s)
    y = b.conv2d_act(y, weight("narrow", 8, 16, 1, 1), None, x)
    b.output(b.conv2d(y, weight("head", 5, 8, 1, 1), None))
    return b.program


@pytest.mark.parametrize("gated", [False, True])
def test_images_between_convolutions_stay_int8(gated):
    program = block_net(gated)
    batch = RNG.standard_normal((4, 3, 8, 8)).astype(np.float32)
    model = quantized(program, [[batch]])
    verify(model.program)
    convolutions = [n for n in model.program.main.nodes if n.op == "conv2d_int8"]
    results = [n.attrs["dtype"] for n in convolutions]
    gates = ["int8", "float32"] if gated else []
    assert results == ["int8"] * 3 + gates + ["int8", "float32"]
    residual = convolutions[-2].inputs[4]
    assert residual is convolutions[0].outputs[0]
    exact = interpret(program, [batch])[0]
    assert np.abs(model(batch) - exact).max() < 0.08 * np.abs(exact).max()


def test_images_stay_in_float_where_they_are_not_to_be_rounded_between():
    config = QuantConfig(activation="abs_max", between=False)
    program = block_net(True)
    batch = RNG.standard_normal((4, 3, 8, 8)).astype(np.float32)
    model = convert(program, calibrate(program, [[batch]], config), config)
    ops = [n.op for n in model.program.main.nodes]
    assert "dequantize" not in ops
    stem = next(n for n in model.program.main.nodes if n.op == "conv2d_int8")
    assert stem.attrs["dtype"] == "float32"
