"""Graphs of thousands of inputs, and what is said of those beyond the format."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core, nn
from proa.errors import InvalidArgumentError, ResourceExhaustedError
from proa.ir import Builder, from_bytes, to_bytes, verify
from proa.ir.program import Program


def sum_of(count: int) -> Program:
    """The sum, one after the other, of so many inputs of two elements."""
    b = Builder()
    values = [b.input(f"x{i}", "float32", [2]) for i in range(count)]
    b.output(b.concat(*values, axis=0))
    total = values[0]
    for value in values[1:]:
        total = b.add(total, value)
    b.output(total)
    return b.program


@pytest.mark.parametrize(
    "count", [1100, 5000, pytest.param(100_000, marks=pytest.mark.full)]
)
def test_a_program_may_have_thousands_of_inputs_and_an_op_may_read_them_all(
    count: int,
) -> None:
    program = sum_of(count)
    raw = to_bytes(program)
    again = from_bytes(raw)
    assert len(again.main.inputs) == len(again.main.nodes[0].inputs) == count
    arrays = [np.float32([i, -i]) for i in range(count)]
    joined, total = _core.Engine.from_bytes(raw).run(arrays)
    np.testing.assert_array_equal(joined, np.concatenate(arrays))
    np.testing.assert_array_equal(total, np.add.accumulate(np.stack(arrays))[-1])


@pytest.mark.parametrize("at", [(0, 1), (3, 1500), (1498, 1499)])
def test_two_inputs_of_one_name_are_refused_however_many_there_are(
    at: tuple[int, int],
) -> None:
    program = sum_of(1600)
    first, second = at
    program.main.inputs[second].name = program.main.inputs[first].name
    raw = to_bytes(program)
    with pytest.raises(InvalidArgumentError, match="distinct names"):
        _core.Engine.from_bytes(raw)
    with pytest.raises(InvalidArgumentError):
        from_bytes(raw)
    with pytest.raises(InvalidArgumentError, match="distinct names"):
        verify(program)


def steps(layers: int, optimizer: str, recorded: bool) -> list[np.ndarray]:
    """The weights after two steps."""
    proa.seed(5)
    parts = [nn.Linear(3, 3) for _ in range(layers)]
    net = nn.Sequential(*parts)
    for k, p in enumerate(net.parameters()):
        values = np.random.default_rng(k).standard_normal(p.shape) / 2
        p.set_value(np.asarray(values, np.float32))
    step_of = getattr(proa.optimizer, optimizer)
    opt = step_of(learning_rate=0.1, parameters=net.parameters())

    def step(x: proa.Tensor) -> proa.Tensor:
        y = x
        for part in parts:
            y = y + proa.tanh(part(y))
        loss = (y * y).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    run = proa.jit.to_static(step) if recorded else step
    x = proa.to_tensor(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
    for _ in range(2):
        run(x)
    if recorded:
        assert run.concrete_program is not None
    return [p.numpy() for p in net.parameters()]


@pytest.mark.parametrize("optimizer", ["Momentum", "Adam"])
def test_a_step_of_1100_parameters_is_recorded_and_gives_eager_bits(
    optimizer: str,
) -> None:
    eager, recorded = (steps(550, optimizer, r) for r in (False, True))
    assert len(eager) == 1100
    for a, b in zip(eager, recorded, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_graph_beyond_the_format_is_no_broken_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = importlib.import_module("proa.ir.file.write")
    monkeypatch.setattr(writer, "MAX_GRAPH_BYTES", 1000)
    with pytest.raises(ResourceExhaustedError, match=r"at most 1000 bytes.*values"):
        to_bytes(sum_of(10))
    monkeypatch.undo()
    raw = bytearray(to_bytes(sum_of(10)))
    start = 8 + struct.unpack_from("<Q", raw)[0]
    struct.pack_into("<Q", raw, start + 16, len(raw) - start + 1)
    with pytest.raises(InvalidArgumentError):  # it does end outside of the file
        _core.Engine.from_bytes(bytes(raw))


def _encoder() -> nn.Layer:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0), 24)


def _two_steps(make: Callable[[], nn.Layer], how: str, shape: list[int]) -> Any:
    """Parameters after two recorded or eager steps, and of the first what it took."""
    found = []
    for recorded in (False, True):
        proa.seed(3)
        net = make()
        opt = getattr(proa.optimizer, how)(0.01, parameters=net.parameters())

        def step(x: proa.Tensor, net: Any = net, opt: Any = opt) -> proa.Tensor:
            loss = (net(x) ** 2).mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
            return loss

        run = proa.jit.to_static(step) if recorded else step
        x = proa.to_tensor(np.random.default_rng(1).random(shape, np.float32))
        losses = [run(x).numpy() for _ in range(2)]
        found.append([*losses, *(p.numpy() for p in net.parameters())])
    return found


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "how", "shape"),
    [
        (proa.vision.models.resnet152, "Momentum", [2, 3, 32, 32]),
        (_encoder, "Adam", [2, 5, 16]),
        (lambda: nn.Sequential(*[nn.Linear(8, 8) for _ in range(200)]), "Adam", [4, 8]),
    ],
    ids=["resnet152", "encoder", "linear"],
)
def test_steps_of_deep_networks_are_recorded(
    make: Callable[[], nn.Layer], how: str, shape: list[int]
) -> None:
    eager, recorded = _two_steps(make, how, shape)
    for a, b in zip(eager, recorded, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("repeats", [2**36, 2**44, 2**60])
def test_a_run_that_needs_more_than_the_machine_has_is_refused_before_it_allocates(
    repeats: int,
) -> None:
    """As a damaged attribute may want of an axis that is known only at run time."""
    b = Builder()
    x = b.input("x", "float32", [-1])
    b.output(b.relu(b.tile(b.relu(x), repeats=[repeats])))
    engine = _core.Engine.from_bytes(to_bytes(b.program))
    with pytest.raises(ResourceExhaustedError, match=r"out of memory|fit"):
        engine.run([np.ones(4, np.float32)])
    np.testing.assert_array_equal(engine.run([np.ones(0, np.float32)])[0], [])
