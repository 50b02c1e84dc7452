"""Errors: their types, their texts, and their fields."""

from __future__ import annotations

import contextlib
import gc
import re
import signal
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import proa
from proa import errors
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OutOfRangeError,
    PreconditionNotMetError,
)

from ..processes import run_python


@pytest.fixture(autouse=True)
def flags() -> Iterator[None]:
    yield
    proa.set_flags({"FLAGS_call_stack_level": 1})


def message_of(error: BaseException) -> str:
    """The message with its notes, as a traceback ends."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


PYTHON_TYPES = {
    "InvalidArgumentError": ValueError,
    "InvalidTypeError": TypeError,
    "OutOfRangeError": IndexError,
    "UnimplementedError": NotImplementedError,
    "ResourceExhaustedError": MemoryError,
    "PreconditionNotMetError": RuntimeError,
    "UnavailableError": RuntimeError,
    "NotFoundError": RuntimeError,
    "AlreadyExistsError": RuntimeError,
    "VersionError": RuntimeError,
    "FatalError": SystemError,
}


@pytest.mark.feature("L266")
@pytest.mark.parametrize(("name", "kind"), PYTHON_TYPES.items())
def test_each_type_is_the_python_type_that_fits(name, kind):
    assert issubclass(getattr(errors, name), (errors.Error, kind))
    assert issubclass(getattr(errors, name), kind)


x = proa.ones([2, 3])

MISTAKES = {
    "shapes": (lambda: proa.add(x, proa.ones([4])), InvalidArgumentError, r"\[add\]"),
    "product": (lambda: proa.matmul(x, x), ValueError, r"\[matmul\].*\(2, 3\)"),
    "None": (lambda: proa.add(x, None), TypeError, r"\[add\] y .*got None"),
    "missing": (lambda: proa._core.ops.add(x), TypeError, r"\[add\] y .*got nothing"),
    "text": (lambda: proa._core.ops.add(x, "a"), TypeError, r"\[add\] y .*got 'str'"),
    "keyword": (
        lambda: proa._core.ops.add(x, z=1),
        TypeError,
        r"\[add\] arguments must be among \(x, y\), got 'z'",
    ),
    "twice": (
        lambda: proa._core.ops.add(x, x, x=x),
        TypeError,
        r"\[add\] x is given twice",
    ),
    "many": (lambda: proa._core.ops.add(x, x, x), TypeError, r"at most 2.*got 3"),
    "operand": (lambda: x + "a", TypeError, "unsupported operand"),
    "axis": (lambda: proa.sum(x, axis=5), (ValueError, IndexError), r"\[sum\]"),
    "index": (lambda: x[5], OutOfRangeError, r"got 5"),
    "indices": (lambda: x[0, 0, 0], IndexError, "2"),
    "key": (lambda: x["a"], (TypeError, IndexError, ValueError), r"got"),
    "reshape": (lambda: proa.reshape(x, [4, 4]), ValueError, r"\[reshape\]"),
    "dtype": (
        lambda: proa.bitwise_and(x, x),
        (ValueError, TypeError),
        "the dtype must be one of .*got float32",
    ),
    "scalar": (lambda: float(x), (ValueError, TypeError), "element"),
    "grad": (lambda: proa.grad(x.sum(), x), RuntimeError, "stop_gradient=True"),
    "huge": (lambda: proa.empty([1 << 40, 1 << 20]), (MemoryError, ValueError), "got"),
}


@pytest.mark.feature("L266")
@pytest.mark.feature("L258")
@pytest.mark.feature("L259")
@pytest.mark.feature("L265")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_names_the_expectation_and_the_value(mistake):
    call, kind, message = MISTAKES[mistake]
    with pytest.raises(kind, match=message) as caught:
        call()
    if mistake != "operand":
        assert isinstance(caught.value, errors.Error)


@pytest.mark.feature("L260")
@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        (slice(None, None, 0), ValueError, "step"),
        (7, IndexError, r"axis 0.*got 7"),
        ((0, -9), IndexError, r"axis 1.*got -9"),
        ((..., ...), (IndexError, ValueError), "llipsis"),
    ],
    ids=str,
)
def test_invalid_slices_are_rejected(key, kind, message):
    with pytest.raises(kind, match=message):
        x[key]
    with pytest.raises(kind, match=message):
        x.clone()[key] = 1.0


@pytest.mark.parametrize(
    "function",
    [proa.exp, proa.sum, proa.matmul, proa.concat, proa.nn.functional.relu,
     proa.nn.functional.softmax, proa.reshape, proa.transpose, proa.nn.Linear(2, 2)],
)  # fmt: skip
def test_none_instead_of_a_tensor_is_rejected(function):
    extra = {
        proa.matmul: (x,), proa.reshape: ([1],), proa.transpose: ([0],),
    }.get(function, ())  # fmt: skip
    with pytest.raises((TypeError, ValueError), match=r"\[.*[Nn]one"):
        function(None, *extra)


@pytest.mark.feature("L267")
def test_a_message_is_one_sentence_and_hides_the_engine():
    with pytest.raises(InvalidArgumentError) as caught:
        proa.matmul(x, x)
    text = message_of(caught.value)
    assert re.fullmatch(r"\[matmul\] [^\n]*\nat .*test_errors.py:\d+: [^\n]*", text)
    assert "Error Message Summary" not in text and "C++" not in text


def test_the_users_line_is_shown_from_any_depth():
    layer = proa.nn.Sequential(proa.nn.Linear(3, 4), proa.nn.Linear(5, 6))
    with pytest.raises(InvalidArgumentError) as caught:
        layer(x)  # the line
    assert "test_errors.py" in message_of(caught.value) and "# the line" in message_of(
        caught.value
    )


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_level_sets_the_detail_of_errors(level):
    proa.set_flags({"FLAGS_call_stack_level": level})
    y = proa.to_tensor([1.0], stop_gradient=False)
    z = proa.tanh(y)  # the op
    w = z * 1.0
    z.add_(proa.ones([1]))
    with pytest.raises(PreconditionNotMetError) as caught:
        w.sum().backward()
    text = message_of(caught.value)
    assert "in the backward of tanh" in text
    assert ("# the op" in text) == (level == 2)
    assert ("proa::Error::Error" in text) == (level == 2)
    assert ("w.sum().backward()" in text) == (level >= 1)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes are of Python 3.11")
def test_a_failed_run_of_a_program_names_the_line_that_built_it():
    @proa.jit.to_static
    def pick(table, index):
        row = proa.gather(table, index)  # where it was built
        return row * 2.0

    pick(x, proa.to_tensor([1]))
    proa.set_flags({"FLAGS_call_stack_level": 2})
    with pytest.raises(IndexError) as caught:
        pick(x, proa.to_tensor([7]))
    text = message_of(caught.value)
    assert "# where it was built" in text and "gather was recorded at" in text
    assert caught.value.node.startswith("gather")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes are of Python 3.11")
def test_a_failed_step_names_the_line_that_recorded_its_node():
    table = proa.ones([4, 2])
    table.stop_gradient = False

    @proa.jit.to_static
    def pick(index):
        return proa.gather(table, index) * 2.0  # where the step reads

    pick(proa.to_tensor([1])).sum().backward()
    with pytest.raises(IndexError) as caught:
        pick(proa.to_tensor([7]))
    assert "# where the step reads" in message_of(caught.value)
    assert caught.value.node.startswith("gather")


@pytest.mark.feature("L268", how="figure")
@pytest.mark.parametrize(
    ("name", "count"),
    [("append_backward", 1), ("gradients", 2), ("scope_guard", 1), ("Print", 1),
     ("nn.embedding", 2), ("nn.data_norm", 1), ("nn.row_conv", 2),
     ("nn.nce", 3), ("nn.py_func", 3)],
)  # fmt: skip
def test_static_graph_functions_are_rejected_in_dynamic_mode(name, count):
    with pytest.raises(errors.Error, match=r"\[static\..*graph"):
        found = proa.static
        for part in name.split("."):
            found = getattr(found, part)
        with contextlib.ExitStack() as stack:
            result = found(*[proa.ones([2, 2])] * count)
            stack.enter_context(result)  # of a context manager this is the call


def test_an_error_in_a_py_layer_names_the_layer_and_its_call():
    class Wrong(proa.autograd.PyLayer):
        @staticmethod
        def forward(ctx, a):
            return a * 1.0

        @staticmethod
        def backward(ctx, g):
            raise KeyError("my own")

    proa.set_flags({"FLAGS_call_stack_level": 2})
    y = proa.to_tensor([1.0], stop_gradient=False)
    out = Wrong.apply(y)  # the call
    with pytest.raises(KeyError, match="my own") as caught:
        out.sum().backward()
    if sys.version_info >= (3, 11):
        assert "backward of Wrong, called at" in message_of(caught.value)
        assert "# the call" in message_of(caught.value)


def test_an_error_in_a_thread_is_that_threads():
    found: list[BaseException] = []

    def work() -> None:
        try:
            with proa.no_grad():
                proa.matmul(x, x)  # in the thread
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and proa.is_grad_enabled()
    for error in found:
        assert isinstance(
            error, InvalidArgumentError
        ) and "# in the thread" in message_of(error)


def test_a_wrong_type_is_an_invalid_type_error():
    with pytest.raises(InvalidTypeError, match=r"\[add\]"):
        proa._core.ops.add(x, object())


@pytest.mark.feature("L262")
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"])
def test_a_crash_is_reported(name):
    done = run_python(f"""
        import os, signal, proa
        os.kill(os.getpid(), signal.{name})
    """)
    assert done.returncode == -signal.Signals[name]
    assert f"[proa] fatal signal {name}" in done.stderr
    assert "C++ calls" in done.stderr and "libproa_runtime" in done.stderr


@pytest.mark.feature("L262")
def test_the_report_can_be_switched_off_and_leaves_others_handlers():
    done = run_python("""
        import os, signal, proa
        proa.disable_signal_handler()
        os.kill(os.getpid(), signal.SIGSEGV)
    """)
    assert done.returncode == -11 and done.stderr == ""
    done = run_python("""
        import faulthandler, os, signal, sys
        faulthandler.enable()
        import proa
        os.kill(os.getpid(), signal.SIGSEGV)
    """)
    assert done.returncode == -11 and "Fatal Python error" in done.stderr
    assert "[proa]" not in done.stderr


@pytest.mark.feature("L270")
def test_importing_leaves_the_root_logger_alone():
    done = run_python("""
        import logging
        root = logging.getLogger()
        state = lambda: (root.level, [*root.handlers], root.disabled)
        before = state()
        import proa, proa.nn, proa.io, proa.jit, proa.vision, proa.hapi
        proa.ones([1]) + 1
        assert before == state()
    """)
    assert done.returncode == 0, done.stderr


def test_a_failed_op_leaves_the_engine_as_it_was():
    gc.collect()
    before = proa.device.memory_allocated()
    for _ in range(100):
        with pytest.raises(ValueError):
            proa.matmul(x, x)
    gc.collect()
    assert proa.device.memory_allocated() == before
    np.testing.assert_array_equal((x + 1).numpy(), np.full((2, 3), 2.0))
