"""What a static function shows of itself, and what is logged while it is recorded."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa.jit import (
    InputSpec,
    ProgramTranslator,
    StaticFunction,
    set_code_level,
    set_verbosity,
    to_static,
)


def _double(x: proa.Tensor) -> proa.Tensor:
    return proa.tanh(x) * 2


@pytest.mark.feature("L195")
def test_a_static_function_has_code_and_programs() -> None:
    static = to_static(_double, input_spec=[InputSpec([None, 3], "float32")])
    assert isinstance(static, StaticFunction)
    assert static.__name__ == "_double" and static.dygraph_function is _double
    program = static.main_program
    assert static.concrete_program.program is program
    assert [n.op for n in program.main.nodes] == ["tanh", "mul"]
    head = "def _double(x: proa.Tensor) -> proa.Tensor:\n"
    want = head + "    return _proa.call(proa.tanh)(x) * 2"
    assert static.code == want and ProgramTranslator().get_code(static) == want
    assert ProgramTranslator().get_code(_double) == want
    ((x,), (y,)) = static.inputs, static.outputs
    assert (x.name, x.dtype, x.shape) == (
        "x",
        "float32",
        (-1, 3),
    ) and y.shape == x.shape
    assert static.rollback() is _double


@pytest.mark.feature("L195")
def test_a_layer_that_trains_has_them_after_a_call() -> None:
    net = to_static(nn.Linear(3, 2))
    assert isinstance(net.forward, StaticFunction)
    with pytest.raises(InvalidArgumentError, match="expected an input_spec or"):
        _ = net.forward.main_program
    net(proa.ones([4, 3])).sum().backward()
    names = {v.name for v in net.forward.inputs}
    assert {"weight", "bias"} < names and "linear" in str(net.forward.main_program)
    assert "def forward(self, " in net.forward.code
    static = net.forward
    assert static.rollback() == net.forward and static is not net.forward
    np.testing.assert_array_equal(net(proa.zeros([1, 3])).numpy(), [[0, 0]])


@pytest.fixture
def quiet() -> Iterator[None]:
    yield
    set_verbosity(0)
    set_code_level(0)


def _messages(caplog: Any) -> list[str]:
    with caplog.at_level(logging.INFO, logger="proa.jit"):
        caplog.clear()
        to_static(_double)(proa.ones([3]))
    return [record.getMessage() for record in caplog.records]


@pytest.mark.feature("L198")
@pytest.mark.usefixtures("quiet")
def test_verbosity_logs_recordings(caplog: Any) -> None:
    assert _messages(caplog) == []
    set_verbosity(1)
    assert _messages(caplog) == ["recorded _double(%x: float32[3]): 2 ops"]
    set_verbosity(3)
    _, tanh, mul = _messages(caplog)
    assert tanh.startswith("tanh: ") and "test_looking_inside.py" in mul


@pytest.mark.feature("L198")
@pytest.mark.usefixtures("quiet")
def test_code_level_logs_programs(caplog: Any, capsys: Any) -> None:
    set_code_level(also_to_stdout=True)
    code, text = _messages(caplog)
    assert code == f"code of _double:\n{to_static(_double).code}"
    assert text.startswith("program of _double:\n") and "tanh" in text
    assert capsys.readouterr().out == f"{code}\n{text}\n"
    for set_level in (set_code_level, set_verbosity):
        with pytest.raises(InvalidArgumentError, match="level must be an int, got 'x'"):
            set_level("x")
