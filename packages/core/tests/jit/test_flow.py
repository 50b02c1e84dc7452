"""Branches and loops as blocks of a program, against the functions themselves."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from proa.ir.file import from_bytes, to_bytes
from proa.ir.verify import verify
from proa.jit import flow
from proa.jit.pytree import flatten
from proa.jit.save_load import export
from proa.static import InputSpec
from proa.static import nn as snn

X = InputSpec([3], "float32", "x")
N = InputSpec([], "int64", "n")


def nested(x: Any, n: Any) -> Any:
    """A branch in a loop that reads the function around, and changes it in place."""
    y, total = x * 2, proa.zeros([3])

    def body(i: Any, a: Any) -> tuple[Any, Any]:
        a = snn.cond(a.sum() > 4, lambda: a - y, lambda: a + 1)
        total.add_(a)
        return i + 1, a

    i, a = snn.while_loop(lambda i, a: i < n, body, [proa.zeros([], "int64"), x])
    return a * total, i


def growing(x: Any, n: Any) -> Any:
    """An array that is longer in each round."""
    zero = proa.zeros([], "int64")
    return snn.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, proa.concat([a, x])), [zero, x]
    )[1]


def chosen(x: Any, n: Any) -> Any:
    """One of several branches, by number and by order."""
    by_number = snn.switch_case(
        n, {1: lambda: x * 10, 3: lambda: x * 30}, lambda: x * 0
    )
    in_order = snn.case([(n < 2, lambda: x - 1), (n < 4, lambda: x - 4)], lambda: -x)
    return by_number, in_order


def inner_loops(x: Any, n: Any) -> Any:
    """A loop in a loop, both bounded by values known only at run time."""

    def outer(i: Any, a: Any) -> Any:
        _, a = snn.while_loop(
            lambda j, a: j < i, lambda j, a: (j + 1, a * 1.5 + x), [i * 0, a]
        )
        return i + 1, a

    return snn.while_loop(lambda i, a: i < n, outer, [n * 0, x])


def changed_in_branches(x: Any, n: Any) -> Any:
    """Elements set in one branch, nothing in the other."""
    y = x + 0

    def change() -> None:
        y[1] = -7.0

    snn.cond(n > 2, change, None)
    return y, x


def structures(x: Any, n: Any) -> Any:
    """Results in dictionaries and lists, with what is no tensor."""
    return snn.cond(
        n > 2,
        lambda: {"a": [x, x * 2], "b": None, "c": 3},
        lambda: {"a": [x + 1, x], "b": None, "c": 3},
    )


PROGRAMS = [
    nested,
    growing,
    chosen,
    inner_loops,
    changed_in_branches,
    structures,
]


def saved(function: Callable[..., Any], specs: Sequence[Any] = (X, N)) -> Any:
    file = io.BytesIO()
    proa.jit.save(function, file, input_spec=list(specs))
    file.seek(0)
    return proa.jit.load(file)


def leaves(result: Any) -> list[Any]:
    return flatten(result, flow.is_tensor)[0]


def inputs(n: int) -> tuple[Any, Any]:
    return proa.to_tensor([1.0, 2.0, -0.5]), proa.to_tensor(n)


@pytest.mark.parametrize("function", PROGRAMS)
def test_a_recorded_program_is_sound_and_survives_a_file(function: Any) -> None:
    program = export(function, [X, N]).program
    verify(program)
    again = from_bytes(to_bytes(program))
    verify(again)
    assert str(again) == str(program)


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("compile_as", [saved, proa.jit.to_static])
def test_one_program_takes_every_branch(function: Any, compile_as: Any) -> None:
    result = compile_as(function)
    for n in (0, 1, 3, 5, 2):
        with proa.no_grad():
            mine, theirs = leaves(result(*inputs(n))), leaves(function(*inputs(n)))
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    if compile_as is proa.jit.to_static:
        assert len(result._cache) == 1 and not result._broken


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, 3, 5])
def test_gradients_of_a_loaded_program_are_those_of_the_function(
    function: Any, n: int
) -> None:
    found = []
    for f in (function, saved(function)):
        x, count = inputs(n)
        x.stop_gradient = False
        result = leaves(f(x, count))
        floats = [t for t in result if t.dtype == "float32"]
        sum((t.sum() for t in floats), proa.zeros([])).backward()
        found.append([*[t.numpy() for t in result], x.grad.numpy()])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.feature("L156")
@pytest.mark.parametrize("compile_as", [saved, proa.jit.to_static])
def test_while_loop_runs_its_body_while_its_condition_is_true(compile_as: Any) -> None:
    def doubled(x: Any, n: Any) -> Any:
        return snn.while_loop(
            lambda i, a: i < n, lambda i, a: (i + 1, a * 2), [n * 0, x]
        )

    result = compile_as(doubled)
    for n in (0, 1, 4):
        x, count = inputs(n)
        i, a = result(x, count)
        assert i.item() == n
        np.testing.assert_array_equal(a.numpy(), x.numpy() * 2**n)


# Each with the factor of x that it must give for n = 0, 1, 2, 3, 4.
CHOICES = {
    "cond": (
        lambda x, n: snn.cond(n > 2, lambda: x * 5, lambda: x * 6),
        [6, 6, 6, 5, 5],
    ),
    "case": (
        lambda x, n: snn.case(
            [(n < 2, lambda: x * 2), (n < 4, lambda: x * 4)], lambda: -x
        ),
        [2, 2, 4, 4, -1],
    ),
    "switch_case": (
        lambda x, n: snn.switch_case(
            n, {1: lambda: x * 10, 3: lambda: x * 30}, lambda: -x
        ),
        [-1, 10, -1, 30, -1],
    ),
}


@pytest.mark.feature("L157", "L158", "L159")
@pytest.mark.parametrize("compile_as", [saved, proa.jit.to_static])
@pytest.mark.parametrize("op", CHOICES)
def test_one_branch_of_a_program_runs(op: str, compile_as: Any) -> None:
    function, factors = CHOICES[op]
    result = compile_as(function)
    for n, factor in enumerate(factors):
        x, count = inputs(n)
        np.testing.assert_array_equal(result(x, count).numpy(), x.numpy() * factor)


def test_a_static_function_with_a_loop_trains() -> None:
    layer = proa.nn.Linear(3, 3)

    @proa.jit.to_static
    def f(x: Any, n: Any) -> Any:
        return snn.while_loop(
            lambda i, a: i < n, lambda i, a: (i + 1, layer(a)), [n * 0, x]
        )[1]

    x, n = inputs(2)
    f(x, n).sum().backward()
    w, g = layer.weight.numpy().astype("f8"), np.ones((1, 3))
    once = x.numpy() @ w + layer.bias.numpy()
    wanted = np.outer(once, g) + np.outer(x.numpy(), g @ w.T)
    np.testing.assert_allclose(layer.weight.grad.numpy(), wanted, rtol=1e-5)


@pytest.mark.feature("L160")
def test_branches_train_by_losses_and_optimizers_of_their_own() -> None:
    def train(wrap: Callable[[Any], Any]) -> list[Any]:
        proa.seed(5)
        layer = proa.nn.Linear(3, 2)
        sgd = proa.optimizer.SGD(0.1, parameters=layer.parameters())
        adam = proa.optimizer.Adam(0.1, parameters=layer.parameters())

        def by(optimizer: Any, loss: Any) -> Any:
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss.detach()

        @wrap
        def step(x: Any, n: Any) -> Any:
            return snn.cond(
                n % 2 == 0,
                lambda: by(sgd, (layer(x) ** 2).mean()),
                lambda: by(adam, layer(x).abs().sum()),
            )

        losses = [step(*inputs(n)).item() for n in range(4)]
        return [losses, layer.weight.numpy()]

    for mine, theirs in zip(train(proa.jit.to_static), train(lambda f: f), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.feature("L176")
def test_values_of_operators_that_share_a_name_have_names_of_their_own() -> None:
    def f(x: Any, n: Any) -> Any:
        a = proa.tanh(x, name="same")
        b = proa.nn.functional.relu(a, name="same")
        return proa.add(a, b, name="same"), n

    program = export(f, [InputSpec([3], "float32", "add_0"), N]).program
    names = [v.name for v in program.main.values()]
    assert len(set(names)) == len(names)
    x, n = inputs(1)
    result, _ = saved(f)(x, n)
    tanh = np.tanh(x.numpy())
    np.testing.assert_allclose(result.numpy(), tanh + np.maximum(tanh, 0), rtol=1e-6)


def test_a_tensor_of_a_branch_is_not_to_be_read_after_it() -> None:
    def leaks(x: Any, n: Any) -> Any:
        leaked = []
        snn.cond(n > 0, lambda: leaked.append(x * 2), None)
        return leaked[0]

    with pytest.raises(UnimplementedError, match="must be returned from it"):
        export(leaks, [X, N])


@pytest.mark.parametrize(
    ("branches", "error", "message"),
    [
        ((lambda x: x, lambda x: (x, x)), InvalidTypeError, "one pytree structure"),
        ((lambda x: 1, lambda x: 2), InvalidTypeError, "one pytree structure"),
        ((lambda x: x, lambda x: x.astype("int32")), InvalidTypeError, "one dtype"),
        (
            (lambda x: x, lambda x: x.sum()),
            InvalidArgumentError,
            "same number of axes",
        ),
    ],
)
def test_branches_of_different_results_are_rejected(
    branches: Any, error: Any, message: str
) -> None:
    def f(x: Any, n: Any) -> Any:
        return snn.cond(n > 0, lambda: branches[0](x), lambda: branches[1](x))

    with pytest.raises(error, match=message):
        export(f, [X, N])


@pytest.mark.parametrize(
    ("condition", "body", "error", "message"),
    [
        (lambda i, a: i, lambda i, a: (i, a), InvalidTypeError, "must be bool"),
        (
            lambda i, a: a > 0,
            lambda i, a: (i, a),
            InvalidArgumentError,
            "must have one element",
        ),
        (lambda i, a: i < 3, lambda i, a: i, InvalidTypeError, "one pytree structure"),
        (
            lambda i, a: i < 3,
            lambda i, a: (i + 1, a.astype("float64")),
            InvalidTypeError,
            "one dtype",
        ),
        (
            lambda i, a: i < 3,
            lambda i, a: (i + 1, a.sum()),
            InvalidArgumentError,
            "same number of axes",
        ),
    ],
)
def test_loops_that_change_the_carried_values_are_rejected(
    condition: Any, body: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        export(lambda x, n: flow.while_loop(condition, body, [n, x]), [X, N])


def test_calls_that_run_as_python_are_cached_up_to_a_number() -> None:
    @proa.jit.to_static
    def f(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    for size in range(1, 70):
        x = proa.ones([size])
        x.stop_gradient = False
        assert f(x).sum().item() == 2 * size
    assert 0 < len(f._broken) <= 32
