"""print, assert, casts and their like in recorded functions; errors and debuggers."""

from __future__ import annotations

import pdb
import traceback
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import Error, InvalidArgumentError
from proa.jit import InputSpec, ProgramTranslator, load, save, to_static

from .equivalence import agree, assert_equal

INPUTS = [np.float32(a) for a in ([1, 2, 3], [-1, 9, 3], [1, -9, 3], [-4, -5, 1])]


def casts(x: Any) -> Any:
    total = x.sum()
    return int(total * 1.5), float(int(total)), bool(total > 0), x * float("2")


def kinds(x: Any) -> Any:
    y: Any = [x] if isinstance(x, proa.Tensor) else x
    if isinstance(y, (list, tuple)) and len(y) == 1:
        first, *rest = tuple(y)
        x = first + len(rest)
    if x.sum() > 0:
        y = (x, {"k": x * 2})
    else:
        y = (-x, {"k": x})
    return y[0], y[1].pop("k")


def dictionaries(x: Any) -> Any:
    parts = {"a": x, "b": x + 1, "c": 3}
    if x.sum() > 0:
        y = parts.pop("a") * parts.pop("d", 2)
    else:
        y = parts["b"]
        parts.pop("a")
    return y, sorted(parts)[0] == "b", parts.pop("c")


@pytest.mark.feature("L188")
@pytest.mark.parametrize("function", [casts, kinds, dictionaries])
def test_casts_kinds_and_pop(function: Any):
    agree(function, INPUTS)


def printing(x: Any) -> Any:
    print("sum", int(x.sum()), sep="=")
    if x.sum() > 0:
        print("above", end="!\n")
    for i in range(int(x[0])):
        print(i + 10, x[1])
    return x * 2


@pytest.mark.feature("L188")
def test_prints_come_whenever_the_program_runs(capsys: Any, tmp_path: Any):
    static = to_static(printing, input_spec=[InputSpec([3])])
    static(proa.to_tensor(INPUTS[0]))
    capsys.readouterr()
    for a in INPUTS:
        static(proa.to_tensor(a))
        lines = capsys.readouterr().out.replace("\n       ", "").splitlines()
        assert lines[0].startswith("sum=Tensor(") and f"{int(a.sum())})" in lines[0]
        rounds = [line for line in lines if "float32" in line]
        assert len(rounds) == max(int(a[0]), 0)
        assert all(f"{k + 10})" in line for k, line in enumerate(rounds))
    save(static, str(tmp_path / "f"))  # a file has no Python in it
    assert_equal(load(str(tmp_path / "f"))(proa.to_tensor(a)), proa.to_tensor(a * 2))


@pytest.mark.feature("L188")
def test_asserts_are_checked_whenever_the_program_runs():
    @to_static(input_spec=[InputSpec([None])])
    def checked(x: Any) -> Any:
        assert isinstance(x, proa.Tensor), "never"
        for i in range(len(x)):
            if x[i] > 0:
                assert x[i] < 3, "elements must be below 3"
        return x + 1

    for a in ([1.0, 2.0], [-7.0], [2.0, 1.0, 0.0]):
        np.testing.assert_allclose(checked(proa.to_tensor(a)).numpy(), np.add(a, 1))
    with pytest.raises(InvalidArgumentError, match="elements must be below 3"):
        checked(proa.to_tensor([1.0, 4.0]))
    with pytest.raises(AssertionError, match="never"):
        to_static(lambda x: x, input_spec=None)
        _asserts_python(proa.ones([1]))


@to_static
def _asserts_python(x: Any) -> Any:
    assert x.ndim > 1, "never"
    return x


@pytest.mark.feature("L200")
@pytest.mark.parametrize("level", [1, 2])
def test_errors_name_the_line_of_the_function(level: int):
    @to_static
    def function(x: Any) -> Any:
        y = x
        while y.sum() < 10:
            if x.sum() > 0:
                y = proa.matmul(x, x.reshape([1, 3]))  # the line that fails
            y = y + 1
        return y

    proa.set_flags({"FLAGS_call_stack_level": level})
    try:
        with pytest.raises(Error) as caught:
            function(proa.ones([3]))
    finally:
        proa.set_flags({"FLAGS_call_stack_level": 1})
    first = function.dygraph_function.__code__.co_firstlineno
    notes = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert f"at {__file__}:{first + 5}: y = proa.matmul" in notes
    frames = traceback.extract_tb(caught.value.__traceback__)
    lines = [f.lineno - first for f in frames if f.filename == __file__]
    assert lines[1:] == [3, 4, 5]  # while, if and the line, as they were called
    inner = [f for f in frames if "jit/convert" in f.filename]
    assert (len(inner) > 1) == (level == 2)


@pytest.mark.feature("L201")
def test_breakpoints_stop_in_the_lines_of_the_function(monkeypatch: Any):
    stops: list[tuple[str, int, float]] = []

    class Debugger(pdb.Pdb):
        def interaction(self, frame: Any, *args: Any) -> None:
            path, line = frame.f_code.co_filename, frame.f_lineno
            stops.append((path, line, frame.f_locals["k"]))
            self.set_continue()

    def set_trace() -> None:
        import sys

        Debugger(nosigint=True, readrc=False).set_trace(sys._getframe().f_back)

    monkeypatch.setattr(pdb, "set_trace", set_trace)

    def function(x: Any) -> Any:
        k = 7
        if x.sum() > 0:
            k = k + 1
            pdb.set_trace()
            y = x * k  # where it stops
        else:
            y = x
        return y

    assert_equal(to_static(function)(proa.ones([3])), function(proa.ones([3])))
    line = function.__code__.co_firstlineno + 5
    assert stops[0] == stops[-1] == (__file__, line, 8)


@pytest.mark.feature("L195")
def test_the_code_of_a_function_is_what_is_recorded():
    def function(x: Any) -> Any:
        if x.sum() > 0:
            y = x + 1
        else:
            y = x - 1
        return y

    code = ProgramTranslator().get_code(function)
    for part in ("nonlocal y", "_proa.if_else(", "('y',)", "return y"):
        assert part in code
    assert code == to_static(function).code
    for a in INPUTS:
        x = proa.to_tensor(a)
        for result in (
            ProgramTranslator().get_func(function)(x),
            ProgramTranslator().get_output(function, x),
        ):
            assert_equal(result, function(x))
