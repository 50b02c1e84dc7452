"""Engines release the memory of weights that they read in packed form alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from proa import _core
from proa.ir import Builder, Program, Value, from_bytes, to_bytes
from proa.ir.file import to_parts
from proa.schema import ROWS

RANDOM = np.random.default_rng(5)
PAGE = 4096


def some(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def integers(*shape: int) -> np.ndarray:
    return RANDOM.integers(-127, 128, shape, dtype=np.int8)


def _image(b: Builder, channels: int, dtype: str = "float32") -> Value:
    return b.input("x", dtype, [-1, channels, 9, 9])


def _rows(b: Builder, dtype: str = "float32") -> Value:
    return b.input("x", dtype, [-1, 160])


def _norm(b: Builder) -> list[Value]:
    return [b.parameter(name, some(96)) for name in ("mean", "factor", "shift")]


def _recurrent(b: Builder) -> Value:
    gates = b.input("x", "float32", [5, -1, 256])
    w, state = b.parameter("w", some(256, 64) / 8), b.constant(np.zeros((3, 64), "f4"))
    return b.recurrent(gates, w, state, state, cell="lstm")[0]


def _recurrent_int8(b: Builder) -> Value:
    gates = b.input("x", "float32", [5, -1, 256])
    w, state = b.parameter("w", integers(256, 64)), b.constant(np.zeros((3, 64), "f4"))
    scales = b.parameter("scales", np.full(256, 1e-4, np.float32))
    return b.recurrent_int8(
        gates, w, scales, state, state, cell="lstm", h_scale=1 / 127
    )[0]


def _int8(b: Builder, op: str, x: Value, w: np.ndarray, outs: int) -> Value:
    scales = b.parameter("scales", np.full(outs, 0.01, np.float32))
    bias = b.parameter("bias", some(outs))
    return getattr(b, op)(x, b.parameter("w", w), scales, bias, dtype="float32")


#: Programs of x, a constant w that is packed, and others.
PACKED: dict[str, Callable[[Builder], Value]] = {
    "matmul": lambda b: b.matmul(_rows(b), b.parameter("w", some(160, 192))),
    "linear": lambda b: b.linear(_rows(b), b.parameter("w", some(160, 192))),
    "linear_act": lambda b: b.linear_act(
        _rows(b), b.parameter("w", some(160, 192)), b.parameter("c", some(192)), None,
        act="gelu",
    ),
    "conv2d": lambda b: b.conv2d(_image(b, 48), b.parameter("w", some(96, 48, 3, 3))),
    "conv2d_act": lambda b: b.conv2d_act(
        _image(b, 160), b.parameter("w", some(96, 160, 1, 1)), None, None, act="relu"
    ),
    "conv2d_norm": lambda b: b.conv2d_norm(
        _image(b, 1024), b.parameter("w", some(96, 1024, 3, 3)), *_norm(b),
        stride=[2, 2],
    ),
    "conv2d_transpose": lambda b: b.conv2d_transpose(
        _image(b, 48), b.parameter("w", some(48, 96, 3, 3)), stride=[2, 2]
    ),
    "linear_dynamic": lambda b: b.linear_dynamic(
        _rows(b), b.parameter("w", integers(160, 192)),
        b.parameter("scales", np.full(192, 0.01, np.float32)), None,
    ),
    "linear_weight_only": lambda b: b.linear_weight_only(
        _rows(b), b.parameter("w", integers(192, 160).view(np.uint8)),
        b.parameter("scales", np.full((192, 5), 0.01, np.float32)), None, None,
        bits=8, group=32,
    ),
    "conv2d_grad_input": lambda b: b.conv2d_grad_input(
        _image(b, 48), b.parameter("w", some(48, 96, 3, 3)),
        b.constant(np.zeros((2, 96, 11, 11), np.float32)),
    ),
    "recurrent": _recurrent,
    "recurrent_int8": _recurrent_int8,
    "linear_int8": lambda b: _int8(
        b, "linear_int8", _rows(b, "int8"), integers(160, 192), 192
    ),
    "conv2d_int8": lambda b: _int8(
        b, "conv2d_int8", _image(b, 160, "int8"), integers(96, 160, 1, 1), 96
    ),
}  # fmt: skip
DEPTHWISE: dict[str, Callable[[Builder], Value]] = {
    "float": lambda b: b.conv2d(
        _image(b, 512), b.parameter("w", some(512, 1, 3, 3)), groups=512
    ),
    "int8": lambda b: b.conv2d_int8(
        _image(b, 2048, "int8"), b.parameter("w", integers(2048, 1, 3, 3)),
        b.parameter("scales", np.full(2048, 0.01, np.float32)),
        b.parameter("bias", some(2048)), groups=2048, dtype="float32",
    ),
}  # fmt: skip


def test_every_row_that_packs_is_here() -> None:
    assert set(PACKED) == {name for name, row in ROWS.items() if row.pack}


def as_read(program: Program) -> tuple[np.ndarray, Program]:
    """The program's file in memory of its own, and the program that reads it there."""
    raw = np.frombuffer(to_bytes(program), np.uint8)
    memory = np.empty(len(raw) + PAGE, np.uint8)
    start = -memory.ctypes.data % PAGE
    memory[start : start + len(raw)] = raw
    return memory[start : start + len(raw)], from_bytes(
        memory[start : start + len(raw)].data
    )


def example(program: Program, batch: int) -> np.ndarray:
    (spec,) = program.main.inputs
    shape = [batch if d < 0 else d for d in spec.shape]
    return integers(*shape) if spec.dtype == "int8" else some(*shape)


def pages_of(value: Value) -> np.ndarray:
    """The whole pages of a constant."""
    data = value.data.reshape(-1).view(np.uint8)
    first = -data.ctypes.data % PAGE
    return data[first : first + (data.size - first) // PAGE * PAGE]


@pytest.mark.parametrize("case", [*PACKED, *DEPTHWISE])
def test_what_is_packed_is_released_and_results_stay(case: str) -> None:
    b = Builder()
    b.output({**PACKED, **DEPTHWISE}[case](b))
    memory, program = as_read(b.program)
    (w,) = (v for v in program.constants() if v.name == "w")
    assert pages_of(w).any()
    graph, weights = to_parts(program)
    plain = _core.Engine.from_parts(graph, weights)
    batches = (3,) if case.startswith("recurrent") else (1, 2)  # the state has 3 rows
    inputs = [example(program, n) for n in batches]
    if case == "conv2d_grad_input":
        inputs = inputs[1:]
    want = [plain.run([x])[0] for x in inputs]
    engine = _core.Engine.from_parts(graph, weights, disposable=memory.data)
    assert not pages_of(w).any()
    for x, y in zip(inputs, want, strict=True):
        np.testing.assert_array_equal(engine.run([x])[0], y)
        np.testing.assert_array_equal(engine.clone().run([x])[0], y)


def readers_program(read: Callable[[Builder, Value, Value], Value]) -> Program:
    b = Builder()
    x, w = _rows(b), b.parameter("w", some(160, 192))
    b.output(read(b, b.linear(x, w), w))
    return b.program


@pytest.mark.parametrize(
    "read",
    [
        lambda b, y, w: b.add(y, b.sum(w, axis=[0], keepdim=False)),
        lambda b, y, w: b.matmul(y, b.transpose(w, perm=[1, 0])),
    ],
    ids=["elements", "view"],
)
def test_what_others_read_too_stays(
    read: Callable[[Builder, Value, Value], Value],
) -> None:
    memory, program = as_read(readers_program(read))
    (w,) = (v for v in program.constants() if v.name == "w")
    before = w.data.copy()
    graph, weights = to_parts(program)
    x = example(program, 4)
    want = _core.Engine.from_parts(graph, weights).run([x])[0]
    engine = _core.Engine.from_parts(graph, weights, disposable=memory.data)
    np.testing.assert_array_equal(w.data, before)
    np.testing.assert_array_equal(engine.run([x])[0], want)


def test_constants_that_share_memory_stay() -> None:
    shared = some(160, 192)
    b = Builder()
    y = b.linear(_rows(b), b.parameter("w", shared))
    b.output(b.mul(y, b.parameter("first", shared[0])))
    x = example(b.program, 4)
    want = x @ shared * shared[0]
    graph, weights = to_parts(b.program)
    engine = _core.Engine.from_parts(graph, weights, disposable=shared.data.cast("B"))
    np.testing.assert_allclose(engine.run([x])[0], want, rtol=1e-4, atol=1e-4)


def test_an_output_that_is_a_constant_stays() -> None:
    b = Builder()
    w = b.parameter("w", some(160, 192))
    b.output(b.linear(_rows(b), w), w)
    memory, program = as_read(b.program)
    graph, weights = to_parts(program)
    before = program.constants()[0].data.copy()
    engine = _core.Engine.from_parts(graph, weights, disposable=memory.data)
    np.testing.assert_array_equal(engine.run([example(program, 2)])[1], before)


def test_references_to_released_weights_are_dropped() -> None:
    import weakref

    class Held(np.ndarray):
        pass

    b = Builder()
    b.output(b.linear(_rows(b), b.parameter("w", some(160, 192))))
    graph, (data,) = to_parts(b.program)
    held = np.frombuffer(bytes(data), np.uint8).copy().view(Held)
    gone = weakref.ref(held)
    engine = _core.Engine.from_parts(graph, [held])
    del held
    assert gone() is None
    assert engine.run([np.ones((1, 160), np.float32)])[0].shape == (1, 192)


def test_an_engine_of_a_file_releases_its_own_copy(tmp_path) -> None:
    """Resident bytes are far below those of the file and of the packed weights."""
    b = Builder()
    b.output(b.linear(_rows(b), b.parameter("w", some(160, 131072))))
    (tmp_path / "wide.proa").write_bytes(to_bytes(b.program))
    size = 4 * 160 * 131072

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * PAGE

    before = resident()
    engine = _core.Engine.load(str(tmp_path / "wide.proa"), 1)
    assert engine.packed_bytes >= size
    assert resident() - before < 1.3 * size
