"""The planned engine against NumPy: memory, views, shapes, clones, errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from proa import _core
from proa.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from proa.ir import Builder, to_bytes

from .built_programs import draw, load

Array = np.ndarray


def close(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


UNARY: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "neg": lambda x: -x,
    "sin": np.sin,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "maximum": np.maximum,
}


@pytest.mark.parametrize("seed", range(40))
def test_a_random_graph_gives_what_numpy_gives(seed: int) -> None:
    """Many values of few shapes: buffers are shared, taken over, viewed, copied."""
    random = np.random.default_rng(seed)
    b = Builder()
    x = b.input("x", "float32", [-1, 4, 6])
    data = draw(3, 4, 6, seed=seed)
    values: list[tuple[Any, Array]] = [
        (x, data),
        (b.constant(draw(3, 4, 6)), draw(3, 4, 6)),
    ]
    for _ in range(25):
        value, array = values[random.integers(max(0, len(values) - 6), len(values))]
        choice = random.integers(6)
        if choice <= 1:
            name = str(random.choice(list(UNARY)))
            values.append((getattr(b, name)(value), UNARY[name](array)))
        elif choice == 2:
            perm = [int(p) for p in random.permutation(3)]
            values.append((b.transpose(value, perm=perm), array.transpose(perm)))
        elif choice == 3:
            shape = [array.shape[1], -1, array.shape[2]]
            values.append((b.reshape(value, shape=shape), array.reshape(shape)))
        elif choice == 4:
            axis = int(random.integers(3))
            key = [slice(None)] * 3
            key[axis] = slice(None, None, -1)
            flip = {"axes": [axis], "starts": [-1], "ends": [-(2**63)], "steps": [-1]}
            values.append((b.slice(value, **flip), array[tuple(key)]))
        else:
            others = [v for v in values if v[1].shape == array.shape]
            other, more = others[random.integers(len(others))]
            name = str(random.choice(list(BINARY)))
            values.append((getattr(b, name)(value, other), BINARY[name](array, more)))
    chosen = [
        values[-1],
        values[-1],
        *[values[random.integers(len(values))] for _ in "ab"],
    ]
    b.output(*[v for v, _ in chosen])
    engine = load(b)
    for given in (data, np.asfortranarray(data), data[::-1][::-1]):
        for got, (_, want) in zip(engine.run([given]), chosen, strict=True):
            close(got, want)


def test_a_run_keeps_its_input() -> None:
    b = Builder()
    b.output(b.relu(b.neg(b.input("x", "float32", [-1]))))
    x = draw(64)
    before = x.copy()
    close(load(b).run([x])[0], np.maximum(-before, 0))
    np.testing.assert_array_equal(x, before)


def test_memory_is_shared_over_time() -> None:
    b = Builder()
    h = b.input("x", "float32", [256, 256])
    for _ in range(12):
        h = b.tanh(b.add(h, b.transpose(h, perm=[1, 0])))
    b.output(h)
    engine = load(b)
    engine.run([draw(256, 256)])
    assert engine.arena_bytes < 5 * 256 * 256 * 4


def test_outputs_may_be_inputs_constants_or_equal() -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 2])
    y = b.relu(x)
    b.output(x, b.constant(draw(3)), y, y, b.transpose(y, perm=[1, 0]))
    given = draw(5, 2)
    first, second, third, fourth, fifth = load(b).run([given])
    close(first, given)
    close(second, draw(3))
    close(third, np.maximum(given, 0))
    close(fourth, third)
    close(fifth, third.T)


def test_any_batch_runs_and_the_plans_are_bounded() -> None:
    b = Builder()
    b.output(b.tanh(b.input("x", "float32", [-1, 3])))
    engine = load(b, max_plans=2)
    sizes = []
    for n in (1, 7, 3, 0, 1, 40, 40, 2):
        close(engine.run([draw(n, 3)])[0], np.tanh(draw(n, 3)))
        sizes.append(engine.arena_bytes)
    assert sizes[-1] == sizes[-2] == sizes[-3]


def test_a_flattened_channels_last_image_is_put_in_order() -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 3, 6, 5])
    w = draw(4, 3, 1, 1)
    y = b.conv2d(x, b.parameter("w", w), None)
    b.output(b.flatten(b.relu(y), start_axis=1))
    given = draw(2, 3, 6, 5)
    want = np.einsum("nchw,oc->nohw", given, w[:, :, 0, 0])
    close(load(b).run([given])[0], np.maximum(want, 0).reshape(2, -1))


def test_views_of_weights_cost_nothing_at_run_time() -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 4])
    w = draw(6, 4)
    b.output(b.matmul(x, b.transpose(b.parameter("w", w), perm=[1, 0])))
    engine = load(b)
    close(engine.run([draw(3, 4)])[0], draw(3, 4) @ w.T)
    assert [op for op, _, _ in engine.profile([draw(3, 4)])] == ["matmul"]


@pytest.mark.parametrize("threads", [1, 2])
def test_clones_run_at_once_on_shared_weights(threads: int) -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 64])
    w = draw(64, 64)
    b.output(b.tanh(b.matmul(x, b.parameter("w", w))))
    engine = load(b, threads=threads)
    wrong: list[int] = []

    def work(k: int) -> None:
        clone = engine.clone()
        for i in range(20):
            given = draw(1 + (i + k) % 5, 64, seed=k)
            if not np.allclose(clone.run([given])[0], np.tanh(given @ w), atol=1e-4):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_errors_name_the_input() -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 1, 28, 28])
    b.output(b.relu(x))
    engine = load(b)
    message = r"\[Engine\] input 'x' must have shape \(-1, 1, 28, 28\), got \(3, 28\)"
    with pytest.raises(InvalidArgumentError, match=message):
        engine.run([draw(3, 28)])
    with pytest.raises(InvalidArgumentError, match="'x' must be float32, got float64"):
        engine.run([np.zeros((1, 1, 28, 28))])
    with pytest.raises(InvalidArgumentError, match="expected 1 inputs, got 2"):
        engine.run([draw(1), draw(1)])
    with pytest.raises(
        (NotFoundError, InvalidArgumentError), match=r"cannot open|no such"
    ):
        _core.Engine.load("/nowhere/m.proa")


def test_an_error_about_shapes_names_the_op() -> None:
    b = Builder()
    x, y = b.input("x", "float32", [-1, -1]), b.input("y", "float32", [-1, -1])
    b.output(b.matmul(x, y))
    with pytest.raises(InvalidArgumentError, match=r"'matmul'.*got \(2, 3\), \(4, 5\)"):
        load(b).run([draw(2, 3), draw(4, 5)])


def test_random_ops_of_training_need_no_special_care() -> None:
    b = Builder()
    x = b.input("x", "float32", [8, 8])
    b.output(b.dropout(x, p=0.5, seed=1, offset=0))
    engine = load(b)
    first, second = engine.run([draw(8, 8)])[0], engine.run([draw(8, 8)])[0]
    np.testing.assert_array_equal(first, second)  # the key is part of the graph


@pytest.mark.parametrize("act", ["none", "relu"])
def test_a_product_with_residual_may_have_a_weight_that_is_computed(act: str) -> None:
    w, bias = draw(32, 24, seed=1).astype(np.float16), draw(24, seed=2)
    b = Builder()
    x, residual = b.input("x", "float32", [9, 32]), b.input("r", "float32", [9, 24])
    wide = b.cast(b.constant(w), dtype="float32")
    b.output(b.linear_act(x, wide, b.constant(bias), b.relu(residual), act=act))
    rows, more = draw(9, 32, seed=3), draw(9, 24, seed=4)
    want = rows @ w.astype(np.float32) + bias + np.maximum(more, 0)
    want = want if act == "none" else np.maximum(want, 0)
    close(load(b).run([rows, more])[0], want)


def test_a_changed_file_is_refused() -> None:
    b = Builder()
    b.output(b.relu(b.input("x", "float32", [4])))
    raw = bytearray(to_bytes(b.program))
    raw[-1] ^= 1
    with pytest.raises((InvalidArgumentError, UnimplementedError)):
        _core.Engine.from_bytes(raw)
    with pytest.raises(InvalidArgumentError, match="not a valid model file"):
        _core.Engine.from_bytes(b"not a model at all, but long enough to look")
