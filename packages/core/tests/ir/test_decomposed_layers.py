"""Layers that a file decomposes into elementary operators become one operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from proa.ir import Builder, Program, Value, to_bytes, verify
from proa.ir.passes import apply, optimize
from proa.runtime import engine_from_bytes

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def run(program: Program, *inputs: Any) -> list[Any]:
    return engine_from_bytes(to_bytes(program), 1).run(inputs)


def optimized(program: Program, *inputs: Any, atol: float = 1e-5) -> Counter[str]:
    """The operators after the passes, which leave names and results."""
    names = [value.name for value in program.main.outputs]
    want = run(program, *inputs)
    optimize(program, 2)
    verify(program)
    assert [value.name for value in program.main.outputs] == names
    for got, expected in zip(run(program, *inputs), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=atol)
    return Counter(node.op for node in program.nodes())


def number(b: Builder, value: float) -> Value:
    return b.constant(np.float32(value))


def variance_root(b: Builder, d: Value, how: str) -> Value:
    square = {
        "product": lambda: b.mul(d, d),
        "power": lambda: b.pow(d, number(b, 2.0)),
        "square": lambda: b.square(d),
    }[how.split("-")[0]]()
    variance = b.mean(square, axis=[-1], keepdim=True)
    inside = b.add(variance, number(b, 1e-4))
    return {
        "sqrt": lambda: b.div(d, b.sqrt(inside)),
        "rsqrt": lambda: b.mul(b.rsqrt(inside), d),
        "power": lambda: b.mul(d, b.pow(inside, number(b, -0.5))),
        "inverse": lambda: b.mul(d, b.div(number(b, 1.0), b.sqrt(inside))),
    }[how.split("-")[1]]()  # type: ignore[no-any-return]


@pytest.mark.feature("L538")
@pytest.mark.parametrize("square", ["product", "power", "square"])
@pytest.mark.parametrize("root", ["sqrt", "rsqrt", "power", "inverse"])
def test_a_layer_norm_of_single_steps_is_one_operator(square: str, root: str) -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, 7, 24))
    d = b.sub(x, b.mean(x, axis=[2], keepdim=True))
    normal = variance_root(b, d, f"{square}-{root}")
    scale, shift = drawn(24), drawn(1, 1, 24)
    y = b.add(b.constant(shift), b.mul(normal, b.parameter("scale", scale)))
    y.name = "normed"
    b.output(y)
    rows = drawn(3, 7, 24) * 3 + 1
    assert optimized(b.program, rows) == {"layer_norm": 1}
    wide = rows.astype(np.float64)
    deviation = wide - wide.mean(-1, keepdims=True)
    want = deviation / np.sqrt((deviation**2).mean(-1, keepdims=True) + 1e-4)
    (got,) = run(b.program, rows)
    np.testing.assert_allclose(got, want * scale + shift, rtol=1e-4, atol=1e-5)


def test_what_is_almost_a_layer_norm_stays() -> None:
    def other_axis(b: Builder, x: Value) -> Value:
        d = b.sub(x, b.mean(x, axis=[1], keepdim=True))
        return variance_root(b, d, "square-sqrt")

    def other_mean(b: Builder, x: Value) -> Value:
        d = b.sub(x, b.mean(b.relu(x), axis=[-1], keepdim=True))
        return variance_root(b, d, "square-sqrt")

    def cube(b: Builder, x: Value) -> Value:
        d = b.sub(x, b.mean(x, axis=[-1], keepdim=True))
        third = b.mean(b.pow(d, number(b, 4.0)), axis=[-1], keepdim=True)
        return b.div(d, b.sqrt(b.add(third, number(b, 1e-4))))  # type: ignore[no-any-return]

    for almost in (other_axis, other_mean, cube):
        b = Builder()
        normal = almost(b, b.input("x", "float32", (-1, 6, 8)))
        y = b.add(b.mul(normal, b.constant(drawn(8))), b.constant(drawn(8)))
        b.output(y)
        assert optimized(b.program, drawn(2, 6, 8))["layer_norm"] == 0


def heads(b: Builder, x: Value, perm: list[int]) -> Value:
    return b.transpose(b.reshape(x, shape=[0, 0, 3, 8]), perm=perm)  # type: ignore[no-any-return]


ScoresOf = Callable[[Builder, Value, Value], Value]
SPELLINGS: dict[str, ScoresOf] = {
    "over": lambda b, q, k: b.div(b.matmul(q, k), number(b, 8**0.5)),
    "times": lambda b, q, k: b.mul(number(b, 8**-0.5), b.matmul(q, k)),
    "query": lambda b, q, k: b.matmul(b.mul(q, number(b, 8**-0.5)), k),
    "both": lambda b, q, k: b.matmul(
        b.mul(q, number(b, 8**-0.25)), b.mul(k, number(b, 8**-0.25))
    ),
    "none": lambda b, q, k: b.matmul(q, k),
}


@pytest.mark.feature("L539")
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("masked", ["", "before", "after"])
def test_attention_of_single_steps_is_one_operator(spelling: str, masked: str) -> None:
    """In any order of a sum's operands and of the products of q, k and v."""
    results = []
    for order in ("qkv", "kvq", "vqk"):
        b = Builder()
        x = b.input("x", "float32", (-1, 5, 24))
        mask = b.input("mask", "float32", (-1, 1, 1, 5))
        rng = np.random.default_rng(7)
        weights = {
            name: b.parameter(
                name, rng.standard_normal((24, 24)).astype(np.float32) / 5
            )
            for name in "qkv"
        }
        parts: dict[str, Value] = {}
        for name in order:
            perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
            parts[name] = heads(b, b.matmul(x, weights[name]), perm)
        scores = SPELLINGS[spelling](b, parts["q"], parts["k"])
        if masked:
            scores = b.add(mask, scores) if masked == "before" else b.add(scores, mask)
        joined = b.matmul(b.softmax(scores, axis=-1), parts["v"])
        y = b.reshape(b.transpose(joined, perm=[0, 2, 1, 3]), shape=[0, 0, 24])
        y.name = "y"
        b.output(y)
        rng = np.random.default_rng(8)
        rows = rng.standard_normal((2, 5, 24)).astype(np.float32)
        hidden = np.float32([[0, 0, -1e4, 0, 0], [0, 0, 0, 0, -1e4]])
        inputs = (rows, hidden.reshape(2, 1, 1, 5))
        found = optimized(b.program, *inputs)
        assert found["attention"] == 1
        assert found["softmax"] == found["matmul"] == 0
        results.append(run(b.program, *inputs)[0])
    for again in results[1:]:
        np.testing.assert_array_equal(again, results[0])


def test_scores_that_are_read_elsewhere_stay() -> None:
    b = Builder()
    q, v = (b.input(n, "float32", (2, 3, 5, 8)) for n in "qv")
    k = b.input("k", "float32", (2, 3, 8, 5))
    weights = b.softmax(b.matmul(q, k), axis=-1)
    b.output(b.matmul(weights, v), weights)
    arrays = drawn(2, 3, 5, 8), drawn(2, 3, 5, 8), drawn(2, 3, 8, 5)
    assert optimized(b.program, *arrays)["attention"] == 0


@pytest.mark.feature("L533", how="mechanism")
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_before_a_gru_is_part_of_its_gates(bias: bool) -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, 6, 12))
    first = [b.parameter("w1", drawn(12, 16) / 4)]
    second = [b.parameter("w2", drawn(16, 3 * 16) / 4)]
    if bias:
        first.append(b.parameter("b1", drawn(16)))
        second.append(b.parameter("b2", drawn(48)))
    time_first = b.transpose(b.linear(x, *first), perm=[1, 0, 2])
    gates = b.linear(time_first, *second)
    state = b.input("h0", "float32", (-1, 16))
    y, *_ = b.recurrent(gates, b.parameter("w", drawn(48, 16) / 4), state, cell="gru")
    b.output(y)
    found = optimized(b.program, drawn(3, 6, 12), drawn(3, 16))
    # 12 * 48 multiply-adds are fewer than 12 * 16 + 16 * 48.
    assert found["recurrent"] == 1
    assert found["linear"] == 1


def test_other_products_in_a_row_and_bottlenecks_stay() -> None:
    b = Builder()
    x = b.input("x", "float32", (-1, 16))
    inner = b.linear(x, b.parameter("w1", drawn(16, 16)))
    b.output(b.linear(inner, b.parameter("w2", drawn(16, 48))))
    # Pruning and quantization see the weights that were trained.
    assert not apply(b.program, ["fuse_linear_pair"])
    b = Builder()
    x = b.input("x", "float32", (6, -1, 64))
    inner = b.linear(x, b.parameter("w1", drawn(64, 4)))
    gates = b.linear(inner, b.parameter("w2", drawn(4, 48)))
    state = b.input("h0", "float32", (-1, 16))
    b.output(b.recurrent(gates, b.parameter("w", drawn(48, 16)), state, cell="gru")[0])
    assert not apply(b.program, ["fuse_linear_pair"])


@pytest.mark.feature("L533", how="mechanism")
def test_a_zero_state_does_not_keep_two_products_apart() -> None:
    """As `nn.GRU` makes the state: zeros of the shape of an element of each row."""
    b = Builder()
    x = b.input("x", "float32", (-1, 6, 16))
    inner = b.linear(x, b.parameter("w1", drawn(16, 16) / 4))
    column = b.select(b.select(inner, axis=2, index=0), axis=1, index=0)
    like = b.broadcast_to(b.reshape(column, shape=[0, 1]), shape=[-1, 16])
    state = b.full_like(like, value=0, dtype="float32")
    gates = b.linear(
        b.transpose(inner, perm=[1, 0, 2]), b.parameter("w2", drawn(16, 48))
    )
    y, *_ = b.recurrent(gates, b.parameter("w", drawn(48, 16) / 4), state, cell="gru")
    b.output(y)
    assert optimized(b.program, drawn(3, 6, 16))["linear"] == 1
