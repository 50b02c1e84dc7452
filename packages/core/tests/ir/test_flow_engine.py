"""Programs with control flow in the engine, against NumPy."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core
from proa.errors import InvalidArgumentError, UnavailableError, UnimplementedError
from proa.ir import Builder, to_bytes
from proa.ir.attributes import row_of

from .built_programs import draw, load
from .flow_programs import (
    ONES,
    Spec,
    chosen,
    collatz,
    collatz_of,
    counted,
    counting,
    flow,
    growing,
    grown,
    new_block,
    scalar,
)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_a_loop_runs_as_often_as_its_input_says(threads: int) -> None:
    engine = load(counting(), threads=threads)
    for rows, n in [(3, 4), (3, 0), (1, 7), (0, 2), (3, 1), (5, 40)]:
        x = draw(rows, 4, seed=n)
        got, rounds = engine.run([x, np.int64(n)])
        assert rounds == n
        np.testing.assert_allclose(got, counted(x, n), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("max_plans", [1, 8])
def test_what_a_loop_carries_may_grow(max_plans: int) -> None:
    engine = load(growing(), max_plans=max_plans)
    for n in (0, 1, 12, 3):
        x = np.arange(1, 4, dtype=np.float32)
        np.testing.assert_array_equal(engine.run([x, np.int64(n)])[0], grown(x, n))


@pytest.mark.parametrize("n", [1, 2, 7, 27])
def test_a_branch_in_a_loop(n: int) -> None:
    got = load(collatz()).run([np.int64(n)])
    assert tuple(int(g) for g in got) == collatz_of(n)


def test_a_branch_gives_what_its_block_gives() -> None:
    engine = load(chosen())
    x = draw(4, 3)
    first, same = engine.run([np.array([True]), x])
    np.testing.assert_array_equal(first, np.maximum(x, 0))
    np.testing.assert_array_equal(same, x)
    assert not np.shares_memory(same, x)
    first, constant = engine.run([np.array([False]), x])
    np.testing.assert_allclose(first, x.sum(0, keepdims=True), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(constant, ONES)


def test_a_call_reads_constants_and_gives_an_input_on() -> None:
    b = Builder()
    spec: Spec = ("float32", (-1,))
    x = b.input("x", *spec)
    k, body, (y, w) = new_block(b.program, spec, spec)
    body.output(w, body.add(y, w), y)
    result = flow(b, "call", [x, b.constant(ONES[0])], [spec] * 3, block=k)
    b.output(*result, result[1])
    data = draw(3)
    got = load(b).run([data])
    for array, want in zip(got, (ONES[0], data + 1, data, data + 1), strict=True):
        np.testing.assert_array_equal(array, want)


def test_clones_run_apart_and_profiles_tell_the_steps_of_leaves() -> None:
    engine = load(counting())
    clone = engine.clone()
    x = draw(2, 4)
    first, second = engine.run([x, np.int64(2)])[0], clone.run([x, np.int64(3)])[0]
    np.testing.assert_allclose(first, counted(x, 2), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(second, counted(x, 3), rtol=2e-5, atol=1e-6)
    ops = [op for op, _, _ in engine.profile([x, np.int64(2)])]
    assert [ops.count(op) for op in ("less_than", "matmul", "tanh")] == [3, 2, 2]
    assert engine.packed_bytes > 0 and engine.arena_bytes > 0


def test_blocks_share_the_packed_form_of_a_weight() -> None:
    def calls(*weights: np.ndarray) -> Any:
        b = Builder()
        spec: Spec = ("float32", (-1, 64))
        value = b.input("x", *spec)
        held = {id(w): b.parameter(f"w{i}", w) for i, w in enumerate(weights)}
        for w in weights:
            k, body, (x,) = new_block(b.program, spec)
            body.output(body.linear(x, held[id(w)]))
            (value,) = flow(b, "call", [value], [spec], block=k)
        b.output(value)
        return load(b)

    one, two = draw(64, 64) / 8, draw(64, 64, seed=1) / 8
    once, twice, both = calls(one), calls(one, one), calls(one, two)
    assert once.packed_bytes == twice.packed_bytes > 0
    assert both.packed_bytes == 2 * once.packed_bytes
    x = draw(3, 64, seed=2)
    for engine, want in [
        (once, x @ one),
        (twice, x @ one @ one),
        (both, x @ one @ two),
    ]:
        np.testing.assert_allclose(engine.run([x])[0], want, rtol=1e-4, atol=1e-5)


def test_numbers_of_each_run_reach_blocks() -> None:
    b = Builder()
    spec: Spec = ("float32", (64,))
    x = b.input("x", *spec)
    k, body, (y,) = new_block(b.program, spec)
    body.output(body.dropout(y, p=0.5, seed=1, offset=0))
    b.output(*flow(b, "call", [x], [spec], block=k))
    at = 8 * [a.name for a in row_of("dropout").attributes].index("seed")
    engine = _core.Engine.with_updates(to_bytes(b.program), [-1], [(1, at, 0)])
    ones = proa.ones([64])
    first, again, other = (
        engine.run_tensors([ones], [key])[0].numpy() for key in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("chains", [[], [(3, 3)]])
def test_chains_run_within_blocks(chains: list[tuple[int, int]]) -> None:
    b = Builder()
    spec: Spec = ("float32", (-1, 1024))
    x = b.input("x", *spec)
    first, body, (y,) = new_block(b.program, spec)
    body.output(body.neg(y))
    second, body, (y,) = new_block(b.program, spec)
    body.output(body.tanh(body.add(body.relu(y), y)))
    (middle,) = flow(b, "call", [x], [spec], block=first)
    b.output(*flow(b, "call", [middle], [spec], block=second))
    engine = load(b, chains=chains)
    data = draw(300, 1024)
    got = engine.run([data])[0]
    np.testing.assert_allclose(
        got, np.tanh(np.maximum(-data, 0) - data), rtol=1e-5, atol=1e-6
    )
    ops = {op for op, _, _ in engine.profile([data])}
    assert ("chain" in ops) == bool(chains)
    with pytest.raises(InvalidArgumentError, match="one computing block"):
        load(b, chains=[(2, 3)])


def test_many_rounds_take_no_more_memory() -> None:
    engine = load(counting())
    x = draw(64, 4)
    for _ in range(3):
        engine.run([x, np.int64(100)])
    small, held = engine.arena_bytes, _core.memory_stats()
    engine.run([x, np.int64(10_000)])
    assert engine.arena_bytes == small
    assert _core.memory_stats() == held


def spoil_loop(**attrs: int) -> Callable[[Builder], None]:
    def spoil(b: Builder) -> None:
        b.block.nodes[-1].attrs.update(attrs)

    return spoil


def take_input(b: Builder) -> None:
    b.block.nodes[-1].inputs.pop()


def take_output(b: Builder) -> None:
    b.block.nodes[-1].outputs.pop()
    b.block.outputs.pop()


def change_dtype(b: Builder) -> None:
    b.block.nodes[-1].outputs[0].dtype = "float64"


def change_size(b: Builder) -> None:
    b.block.nodes[-1].outputs[0].shape = (-1, 5)


def take_no_value(b: Builder) -> None:
    b.block.nodes[-1].inputs[0] = None


def condition_of_two_outputs(b: Builder) -> None:
    b.program.blocks[1].outputs.append(b.program.blocks[1].inputs[1])


def condition_that_is_a_number(b: Builder) -> None:
    b.program.blocks[1].outputs[:] = [b.program.blocks[1].inputs[1]]


def mix(b: Builder) -> None:
    b.output(b.relu(b.block.outputs[0]))


def nest_in_body(b: Builder) -> None:
    body = b.program.blocks[2]
    body.nodes[-1].op, body.nodes[-1].attrs = "call", {"block": 2}
    body.nodes[-1].inputs = body.nodes[-1].inputs[:1]


ALONE = "refers to later blocks"


@pytest.mark.parametrize(
    "spoil, message",
    [
        (spoil_loop(body_block=0), ALONE),
        (spoil_loop(body_block=-1), ALONE),
        (spoil_loop(cond_block=3), ALONE),
        (spoil_loop(cond_block=2**40), ALONE),
        (spoil_loop(carried=4), "between 1 and all of its inputs"),
        (spoil_loop(carried=0), "between 1 and all of its inputs"),
        (spoil_loop(carried=-1), "between 1 and all of its inputs"),
        (spoil_loop(carried=1), "one output for each carried array"),
        (spoil_loop(cond_block=2, body_block=1), "a condition block has one output"),
        (take_input, "as many inputs as its node passes"),
        (take_output, "one output for each carried array"),
        (change_dtype, "agree in dtype"),
        (change_size, "agree in dtype and shape"),
        (take_no_value, "every required input of the op is given"),
        (condition_of_two_outputs, "a condition block has one output"),
        (condition_that_is_a_number, "a bool of one element"),
        (mix, "control flow alone or none"),
        (nest_in_body, "control flow alone or none"),
    ],
)
def test_a_model_whose_control_flow_is_unsound_is_refused(
    spoil: Callable[[Builder], None], message: str
) -> None:
    b = counting()
    spoil(b)
    with pytest.raises(InvalidArgumentError, match=f"{message}.*got op '"):
        _core.Engine.from_bytes(to_bytes(b.program))


@pytest.mark.parametrize("depth", [65, 66])
def test_blocks_nest_up_to_64_deep_in_the_model(depth: int) -> None:
    b = Builder()
    spec: Spec = ("float32", (2,))
    outer, value = b, b.input("x", *spec)
    for _ in range(depth - 1):
        k, body, (inner,) = new_block(b.program, spec)
        outer.output(*flow(outer, "call", [value], [spec], block=k))
        outer, value = body, inner
    outer.output(outer.neg(value))
    if depth > 65:
        with pytest.raises(InvalidArgumentError, match="at most 64 deep"):
            load(b)
    else:
        np.testing.assert_array_equal(load(b).run([ONES[0, :2]])[0], -ONES[0, :2])


def test_shapes_known_at_run_time_alone_are_checked_then() -> None:
    engine = load(chosen())
    with pytest.raises(InvalidArgumentError, match=r"input 'p' must have shape \(1,\)"):
        engine.run([np.array([True, False]), draw(4, 3)])
    b = growing()
    b.block.nodes[-1].outputs[0].shape = (5,)
    engine = load(b)
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(engine.run([x, np.int64(2)])[0], grown(x, 2))
    with pytest.raises(InvalidArgumentError, match=r"of shape \(5,\), got \(4,\)"):
        engine.run([x, np.int64(1)])
    np.testing.assert_array_equal(engine.run([x, np.int64(2)])[0], grown(x, 2))


def test_a_condition_of_several_elements_ends_the_run() -> None:
    b = Builder()
    spec: Spec = ("float32", (-1,))
    x = b.input("x", *spec)
    test, cond, (y,) = new_block(b.program, spec)
    cond.output(cond.greater_than(y, scalar(cond, 0, "float32")))
    make, body, (y,) = new_block(b.program, spec)
    body.output(body.sub(y, scalar(body, 1, "float32")))
    b.output(*flow(b, "loop", [x], [spec], cond_block=test, body_block=make, carried=1))
    engine = load(b)
    np.testing.assert_array_equal(engine.run([np.full(1, 2.5, np.float32)])[0], [-0.5])
    message = r"the condition of op 'loop' \('loop_0'\) must be a bool of one element"
    for n in (0, 2):
        with pytest.raises(InvalidArgumentError, match=message):
            engine.run([np.ones(n, np.float32)])


def test_an_op_in_a_body_that_fails_is_named() -> None:
    b = counting((-1, -1))
    with pytest.raises(InvalidArgumentError, match=r"'matmul'.*got \(3, 5\)"):
        load(b).run([draw(3, 5), np.int64(1)])
    raw = to_bytes(counting().program).replace(b"tanh\0", b"tanx\0")
    with pytest.raises(UnimplementedError, match="build has the op, got op 'tanx'"):
        _core.Engine.from_bytes(raw, verify=False)


def test_updates_of_inputs_are_refused() -> None:
    raw = to_bytes(counting().program)
    with pytest.raises(UnimplementedError, match="control flow"):
        _core.Engine.with_updates(raw, [0, -1], [])
    with pytest.raises(InvalidArgumentError, match="made with updates"):
        tensors = [proa.ones([2, 4]), proa.to_tensor(3)]
        _core.Engine.from_bytes(raw).run_tensors(tensors, [])


def test_another_thread_stops_an_endless_loop() -> None:
    engine = load(counting())
    assert engine.has_control_flow
    ended: list[str] = []

    def work() -> None:
        try:
            engine.run([draw(2, 4), np.int64(2**62)])
        except UnavailableError as error:
            ended.append(str(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    end = time.monotonic() + 20
    while thread.is_alive() and time.monotonic() < end:
        engine.stop()
        thread.join(0.01)
    assert ended == ["[Engine] the run was stopped by stop()"]
    engine.stop()
    assert engine.run([draw(2, 4), np.int64(3)])[1] == 3


def test_an_endless_loop_ends_by_a_signal() -> None:
    engine = load(counting((-1, 4)))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            engine.run([draw(2, 4), np.int64(2**62)])
        assert time.monotonic() - start < 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    x = draw(2, 4)
    np.testing.assert_allclose(
        engine.run([x, np.int64(2)])[0], counted(x, 2), rtol=2e-5, atol=1e-6
    )
