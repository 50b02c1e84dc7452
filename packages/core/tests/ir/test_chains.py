"""Elementwise ops that run together, block by block, give the bits of one after the
other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proa
from proa import _core
from proa.errors import InvalidArgumentError
from proa.ir import Builder, Program, to_bytes, verify
from proa.ir.passes import apply, chain_spans
from proa.ir.program import NUMPY_TYPES, Value
from proa.schema import ROWS

Array = np.ndarray
UNARY = ("relu", "tanh", "neg", "silu", "gelu", "square", "scale", "cast")
BINARY = ("add", "mul", "sub", "maximum", "relu_grad", "where")

#: The shape of the results, and shapes that broadcast to it.
SHAPES = [
    ((3, 257, 130), [(130,), (257, 1), (3, 1, 1), (), (1, 257, 130)]),
    ((70001,), [(1,), ()]),
    ((300, 1, 400), [(400,), (300, 1, 1), (1, 1)]),
    ((2, 5, 90, 91), [(5, 1, 1), (91,), (2, 1, 1, 91)]),
]


#: (op, how far back its first array is, which second array) of a chain.
OPS = st.lists(
    st.tuples(st.sampled_from(UNARY + BINARY), st.integers(0, 3), st.integers(0, 6)),
    min_size=2,
    max_size=9,
)


def build(
    shape: tuple[int, ...], others: list[tuple[int, ...]], ops: list[Any]
) -> tuple[Program, list[Array]]:
    """The program and arrays for its inputs."""
    random = np.random.default_rng(len(ops))
    b = Builder()
    sizes = [shape, shape, *others]
    arrays = [np.asarray(random.standard_normal(s), np.float32) for s in sizes]
    inputs = [b.input(f"x{i}", "float32", s) for i, s in enumerate(sizes)]
    results: list[Value] = [inputs[0]]
    for op, back, other in ops:
        x = results[-1 - back % len(results)]
        y = inputs[other % len(inputs)]
        if op in ("relu_grad", "where") and y.shape != shape:
            y = inputs[1]
        if op == "cast":
            half = b.cast(x, dtype="bfloat16")
            results.append(b.cast(half, dtype="float32"))
        elif op == "scale":
            results.append(b.scale(x, scale=0.5, bias=-1.0))
        elif op == "where":
            results.append(b.where(b.less_than(x, y), x, y))
        else:
            results.append(getattr(b, op)(*((x, y) if op in BINARY else (x,))))
    b.output(results[-1])
    if len(results) > 3 and results[-3] is not inputs[0]:
        b.output(results[-3])  # read outside of the chain too
    return b.program, arrays


def eager(program: Program, arrays: list[Array]) -> list[Array]:
    """The outputs by one eager op after the other."""
    known = {
        v: proa.to_tensor(a) for v, a in zip(program.main.inputs, arrays, strict=True)
    }
    for v in program.main.constants():
        known[v] = proa.to_tensor(v.data)
    for node in program.main.nodes:
        inputs = [None if v is None else known[v] for v in node.inputs]
        result = getattr(_core.ops, node.op)(*inputs, **node.attrs)
        known[node.outputs[0]] = result
    return [known[v].numpy() for v in program.main.outputs]


def engine_of(program: Program, threads: int = 0) -> Any:
    return _core.Engine.from_bytes(
        to_bytes(program),
        verify=False,
        threads=threads,
        chains=chain_spans(program),
    )


def steps_of(engine: Any, arrays: list[Array]) -> list[str]:
    return [op for op, _, _ in engine.profile(arrays)]


@pytest.mark.feature("L180", how="mechanism")
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_chain_gives_every_bit_of_its_ops(data: st.DataObject) -> None:
    shape, others = data.draw(st.sampled_from(SHAPES))
    program, arrays = build(shape, others, data.draw(OPS))
    want = eager(program, arrays)
    apply(program, ["remove_dead_code", "chain_elementwise"])
    verify(program)
    for threads in (1, 0):
        got = engine_of(program, threads).run(arrays)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)


def one_chain(shape: tuple[int, ...]) -> tuple[Program, Value]:
    """relu(x * w + x) / 2, whose intermediates nothing else reads."""
    b = Builder()
    x = b.input("x", "float32", shape)
    w = b.parameter("w", np.linspace(-1, 1, shape[-1], dtype=np.float32))
    y = b.scale(b.relu(b.add(b.mul(x, w), x)), scale=0.5)
    b.output(y)
    apply(b.program, ["chain_elementwise"])
    return b.program, y


@pytest.mark.feature("L180", how="mechanism")
def test_a_chain_is_one_step_without_arrays_between() -> None:
    program, _ = one_chain((512, 256))
    assert chain_spans(program) == [(0, 4)]
    assert str(program).count(" in chain 1") == 4
    x = np.random.default_rng(0).standard_normal((512, 256)).astype(np.float32)
    engine = engine_of(program)
    assert steps_of(engine, [x]) == ["chain"]
    one_by_one = _core.Engine.from_bytes(to_bytes(program), verify=False)
    assert steps_of(one_by_one, [x]) == ["mul", "add", "relu", "scale"]
    assert engine.arena_bytes <= one_by_one.arena_bytes


@pytest.mark.parametrize("batch", [0, 1, 7, 1000, 2001])
def test_a_chain_of_any_batch(batch: int) -> None:
    program, _ = one_chain((-1, 100))
    x = np.random.default_rng(0).standard_normal((batch, 100)).astype(np.float32)
    engine = engine_of(program)
    assert ("chain" in steps_of(engine, [x])) == (batch >= 1000)
    np.testing.assert_array_equal(engine.run([x])[0], eager(program, [x])[0])


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 1, 0, 2)])
def test_a_chain_follows_strides(order: tuple[int, ...]) -> None:
    b = Builder()
    x = b.input("x", "float32", (4, 32, 33, 35))
    y = b.input("y", "float32", (4, 32, 33, 35))
    bias = b.input("b", "float32", (32, 1, 1))
    b.output(b.tanh(b.mul(b.add(x, bias), y)))
    apply(b.program, ["chain_elementwise"])
    random = np.random.default_rng(0)
    shape = tuple((4, 32, 33, 35)[a] for a in order)
    held = random.standard_normal(shape).astype(np.float32)
    arrays = [
        held.transpose(np.argsort(order)),
        random.standard_normal((4, 32, 33, 35)).astype(np.float32)[:, :, ::-1],
        random.standard_normal((32, 1, 1)).astype(np.float32),
    ]
    engine = engine_of(b.program)
    assert steps_of(engine, arrays) == ["chain", "copy"]  # to row-major order
    np.testing.assert_array_equal(engine.run(arrays)[0], eager(b.program, arrays)[0])


def test_what_must_run_between_ends_a_chain() -> None:
    b = Builder()
    x = b.input("x", "float32", (300, 300))
    h = b.relu(x)
    total = b.sum(h, axis=(0,), keepdim=True)
    b.output(b.tanh(b.sub(h, total)))  # cannot be where relu is
    apply(b.program, ["chain_elementwise"])
    assert [(n.op, n.chain) for n in b.program.main.nodes] == [
        ("relu", 0), ("sum", 0), ("sub", 1), ("tanh", 1),
    ]  # fmt: skip


def test_what_need_not_run_between_moves() -> None:
    b = Builder()
    x = b.input("x", "float32", (300, 300))
    h = b.relu(x)
    total = b.sum(h)
    left = b.matmul(x, x)
    b.output(b.add(h, left), total)
    apply(b.program, ["chain_elementwise"])
    assert [(n.op, n.chain) for n in b.program.main.nodes] == [
        ("matmul", 0), ("relu", 1), ("add", 1), ("sum", 0),
    ]  # fmt: skip


def test_the_order_of_changes_stays() -> None:
    b = Builder()
    w, x = b.input("w", "float32", (300, 300)), b.input("x", "float32", (300, 300))
    before = b.relu(w)
    b.node("sgd_", [w, x], {"lr": 0.5})
    b.output(b.add(before, x), b.mul(w, x))
    apply(b.program, ["chain_elementwise"])
    ops = [n.op for n in b.program.main.nodes]
    assert ops.index("relu") < ops.index("sgd_") < ops.index("mul")


def test_chains_are_verified() -> None:
    program, _ = one_chain((512, 256))
    nodes = program.main.nodes
    nodes[1].chain = 2
    with pytest.raises(InvalidArgumentError, match="must be consecutive"):
        verify(program)
    with pytest.raises(InvalidArgumentError, match="expected chains of nodes in order"):
        _core.Engine.from_bytes(to_bytes(program), chains=[(2, 2), (1, 2)])
    with pytest.raises(InvalidArgumentError, match="expected chains of nodes in order"):
        _core.Engine.from_bytes(to_bytes(program), chains=[(3, 2)])


#: Attributes of the rows that have no defaults.
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "cast": {"dtype": "float32"},
    "clip": {"min": -0.5, "max": 0.75},
    "clip_grad": {"min": -0.5, "max": 0.75},
    "elu_grad": {"alpha": 1.5},
    "hard_sigmoid_grad": {"slope": 0.2},
    "leaky_relu_grad": {"negative_slope": 0.1},
    "silu_grad": {"beta": 1.5},
    "softplus_grad": {"beta": 1.5, "threshold": 2.0},
}
ROWS_IN_BLOCKS = sorted(
    r.name for r in ROWS.values() if r.elementwise and r.kind == "kernel"
)


def values_of(dtype: str, count: int, random: np.random.Generator) -> Array:
    """Numbers of either sign, zeros and, of floats, what is no number."""
    x = np.asarray(random.standard_normal(count) * 3)
    x[::17] = 0
    if not dtype.startswith(("float", "complex")):
        return x.astype(NUMPY_TYPES[dtype])
    x[5::1001], x[7::1001] = np.nan, np.inf
    return x.astype(NUMPY_TYPES[dtype])


@pytest.mark.parametrize("op", ROWS_IN_BLOCKS)
def test_every_elementwise_row_gives_its_bits_in_blocks(op: str) -> None:
    """In each dtype, on what an op before it left in a block's buffer."""
    row, random = ROWS[op], np.random.default_rng(1)
    chained = set()
    for dtype in row.dtypes:
        if dtype == "bfloat16":
            continue  # is computed as float16 is
        if row.promote == "float" and not dtype.startswith(("float", "complex")):
            continue  # never comes here
        count = (1 << 18) // np.dtype(NUMPY_TYPES[dtype]).itemsize * 2 + 7
        later = "float32" if op == "where" else dtype
        kinds = [dtype, *[later] * (len(row.arrays) - 1)]
        b = Builder()
        inputs = [b.input(f"x{i}", k, (count,)) for i, k in enumerate(kinds)]
        given = [b.assign(inputs[0]), *inputs[1:]]
        b.output(b.assign(b.node(op, given, ATTRIBUTES.get(op, {})).outputs[0]))
        apply(b.program, ["chain_elementwise"])
        arrays = [values_of(k, count, random) for k in kinds]
        (want,) = eager(b.program, arrays)
        engine = engine_of(b.program)
        chained.add("chain" in steps_of(engine, arrays))
        got = np.asarray(engine.run(arrays)[0])
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    assert chained == {op != "pow"}  # which tests whether the exponent is one number
