"""Gradients in static mode, against NumPy, differences and torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import optimizer, static
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    UnimplementedError,
)

from ..torch_reference import torch

Programs = tuple[static.Program, static.Program]
pytestmark = pytest.mark.usefixtures("static_mode")
RNG = np.random.default_rng(3)


def differences(f: Callable[[Any], float], x: Any, h: float = 1e-6) -> Any:
    """Central differences of a function of a float64 array."""
    found = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = h
        found[i] = (f(x + step) - f(x - step)) / (2 * h)
    return found


@pytest.mark.feature("L169")
def test_gradients_of_inputs_and_of_what_was_computed() -> None:
    x = static.data("x", [None, 3], "float64")
    x.stop_gradient = False
    y = x * x
    z = y * 3
    dx, dy = static.gradients([z], [x, y])
    unused = static.gradients(z, static.data("u", [1], "float64"))
    assert unused == [None]
    seed = static.data("seed", [None, 3], "float64")
    (seeded,) = static.gradients(z, "x", target_gradients=seed)
    (without,) = static.gradients(z + x, x, no_grad_set=[z])
    (named,) = static.gradients(z + x, x, no_grad_set={z.name})
    array, given = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))
    found = static.Executor().run(
        feed={"x": array, "seed": given},
        fetch_list=["x@GRAD", dy, seeded, without, named],
    )
    assert dx.name == "x@GRAD"
    for result, want in zip(
        found, [6 * array, np.full((2, 3), 3.0), 6 * array * given, np.ones((2, 3)),
         np.ones((2, 3))],
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(result, want, rtol=1e-12)


def test_gradients_of_gradients() -> None:
    x = static.data("x", [3], "float64")
    x.stop_gradient = False
    (first,) = static.gradients((x**3).sum(), x)
    (second,) = static.gradients((first * first).sum(), x)  # d (3 x^2)^2 = 36 x^3
    array = RNG.normal(size=3)
    (found,) = static.Executor().run(feed={"x": array}, fetch_list=[second])
    np.testing.assert_allclose(found, 36 * array**3, rtol=1e-10)


def test_a_penalty_on_gradients_trains(static_mode: Programs) -> None:
    """As in a Wasserstein GAN: the loss has the norm of a gradient in it."""
    x = static.data("x", [None, 3], "float64")
    x.stop_gradient = False
    w = static.create_parameter([3, 4], "float64", name="w")
    v = static.create_parameter([4, 1], "float64", name="v")
    score = proa.matmul(proa.tanh(proa.matmul(x, w)), v)
    (slope,) = static.gradients(score, x)
    loss = ((slope.square().sum(axis=1).sqrt() - 1) ** 2).mean()
    optimizer.SGD(0.1).minimize(loss)
    exe = static.Executor()
    exe.run(static_mode[1])
    start = [p.get_value().numpy().copy() for p in (w, v)]
    array = RNG.normal(size=(5, 3))
    found, after, _ = exe.run(feed={"x": array}, fetch_list=[loss, w, v])
    tw, tv = (torch.tensor(p, requires_grad=True) for p in start)
    tx = torch.tensor(array, requires_grad=True)
    (tslope,) = torch.autograd.grad(
        (torch.tanh(tx @ tw) @ tv).sum(), tx, create_graph=True
    )
    tloss = ((tslope.square().sum(1).sqrt() - 1) ** 2).mean()
    tloss.backward()
    np.testing.assert_allclose(found, tloss.item(), rtol=1e-10)
    np.testing.assert_allclose(after, start[0] - 0.1 * tw.grad.numpy(), rtol=1e-8)


@pytest.mark.feature("L168")
@pytest.mark.feature("L170")
def test_parameters_are_chosen_by_variable_or_name(static_mode: Programs) -> None:
    ws = [static.create_parameter([2], "float32", name=f"w{k}") for k in range(3)]
    loss = sum((w.sum() for w in ws), proa.zeros([]))
    pairs = static.append_backward(loss, parameter_list=["w0", ws[2]])
    assert [(p.name, g.name) for p, g in pairs] == [
        ("w0", "w0@GRAD"), ("w2", "w2@GRAD"),
    ]  # fmt: skip
    for out in ({"w1"}, [ws[1]], {ws[1]}):
        _, pairs = optimizer.SGD(0.1).minimize(loss, no_grad_set=out)
        assert [p.name for p, _ in pairs] == ["w0", "w2"]
    _, pairs = optimizer.Adam(0.1, grad_clip=proa.nn.ClipGradByValue(1.0)).minimize(
        loss, None, [ws[0], "w2"], {"w2"}
    )
    assert [p.name for p, _ in pairs] == ["w0"]
    seen: list[Any] = []
    static.append_backward(
        loss, ws[:1], callbacks=[lambda block, context: seen.append(context)]
    )
    assert list(seen[0].values()) == ["w0"]
    ws[1].stop_gradient = True
    assert len(static.append_backward(loss)) == 2


@pytest.mark.feature("L174")
def test_what_needs_no_gradient_gets_none(static_mode: Programs) -> None:
    """Backward has no operator for a stopped path, and for a frozen parameter."""
    x = static.data("x", [None, 3])
    first, second, third = (
        static.create_parameter([3, 3], "float32", name=f"w{k}") for k in range(3)
    )
    first.stop_gradient = True
    hidden = proa.matmul(proa.matmul(x, first), second)
    stopped = proa.tanh(hidden)
    stopped.stop_gradient = True
    loss = (proa.matmul(stopped, third) + hidden).sum()
    count = len(static_mode[0].global_block().ops)
    pairs = static.append_backward(loss)
    assert [p.name for p, _ in pairs] == ["w1", "w2"]
    kinds = [op.type for op in static_mode[0].global_block().ops[count:]]
    assert "tanh_grad" not in kinds and not any("w0" in k for k in kinds)
    exe = static.Executor()
    exe.run(static_mode[1])
    array = RNG.normal(size=(4, 3)).astype("float32")
    found = exe.run(feed={"x": array}, fetch_list=[g for _, g in pairs])
    one = array @ first.get_value().numpy()
    held = np.tanh(one @ second.get_value().numpy())
    ones = np.ones((4, 3), "float32")
    np.testing.assert_allclose(found[0], one.T @ ones, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], held.T @ ones, rtol=1e-4, atol=1e-5)


def test_calls_that_do_not_fit() -> None:
    w = static.create_parameter([2], "float32", name="w")
    with pytest.raises(InvalidTypeError, match="loss must be a Variable"):
        static.append_backward(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="one element"):
        static.append_backward(w * 2)
    with pytest.raises(InvalidArgumentError, match="depend on parameters"):
        static.append_backward(static.data("x", [1]).sum())
    with pytest.raises(NotFoundError, match="'nowhere'"):
        static.gradients(w.sum(), "nowhere")
    with pytest.raises(InvalidTypeError, match="targets"):
        static.gradients(3, w)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="target_gradients"):
        static.gradients(w.sum(), w, [None, None])
    with pytest.raises(InvalidArgumentError, match="must have its shape"):
        static.gradients(w.sum(), w, static.data("g", [2]))


def _flow(x: Any, w: Any, n: Any) -> Any:
    b = proa.tanh(proa.matmul(x, w))
    y = static.nn.cond(
        x.sum() > 0,
        lambda: proa.matmul(b, w),
        lambda: b * 2 + static.nn.cond(x.max() > 5, lambda: x, lambda: x * b),
    )
    i = proa.full([1], 0, "int64")
    _, z = static.nn.while_loop(
        lambda i, z: i < n,
        lambda i, z: [i + 1, proa.tanh(proa.matmul(z, w)) + b],
        [i, y],
    )
    return (z * z).sum()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_gradients_flow_through_branches_and_loops(
    sign: int, rounds: int, static_mode: Programs
) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3], "float64")
    x.stop_gradient = False
    n = static.data("n", [1], "int64")
    w = static.create_parameter([3, 3], "float64", name="w")
    loss = _flow(x, w, n)
    dx, dw = static.gradients(loss, [x, w])
    exe = static.Executor()
    exe.run(startup)
    weights = w.get_value().numpy().copy()
    array = sign * np.abs(RNG.normal(size=(2, 3)))
    count = np.array([rounds])

    def value(rows: Any, matrix: Any) -> float:
        w.set_value(matrix)
        return float(exe.run(main, {"x": rows, "n": count}, [loss])[0])

    found = exe.run(feed={"x": array, "n": count}, fetch_list=[dx, dw])
    np.testing.assert_allclose(
        found[0], differences(lambda a: value(a, weights), array), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        found[1], differences(lambda a: value(array, a), weights), rtol=1e-6, atol=1e-8
    )
    optimizer.SGD(0.1).minimize(loss)
    w.set_value(weights)
    (after,) = exe.run(feed={"x": array, "n": count}, fetch_list=[w])
    np.testing.assert_allclose(after, weights - 0.1 * found[1], rtol=1e-8)


def test_what_flow_does_not_have() -> None:
    x = static.data("x", [2])
    x.stop_gradient = False
    y = static.nn.cond(x.sum() > 0, lambda: x * x, lambda: x)
    (first,) = static.gradients(y, x)
    with pytest.raises(UnimplementedError, match="through a branch or loop"):
        static.gradients(first, x)
    with pytest.raises(UnimplementedError, match="must not draw"):
        static.nn.while_loop(lambda i: i.sum() < 3, lambda i: i + proa.rand([2]), [x])


def test_gradients_of_all_variables_are_fetched_by_name(static_mode: Programs) -> None:
    main, startup = static_mode
    x = static.data("x", [None, 3], "float64")
    x.stop_gradient = False
    hidden = proa.tanh(static.nn.fc(x, 4))
    out = static.nn.fc(hidden, 2)
    loss = (out * out).sum()
    optimizer.SGD(0.0).minimize(loss)
    exe = static.Executor()
    exe.run(startup)
    names = [f"{v.name}@GRAD" for v in (loss, out, hidden, x)]
    array = RNG.normal(size=(5, 3))
    by_out, by_hidden, by_x, one, y, h = (
        exe.run(main, {"x": array}, [*names[1:], names[0], out, hidden])[i]
        for i in range(6)
    )
    first, second = (p.get_value().numpy() for p in main.all_parameters()[::2])
    assert one == 1
    np.testing.assert_allclose(by_out, 2 * y)
    np.testing.assert_allclose(by_hidden, 2 * y @ second.T)
    np.testing.assert_allclose(by_x, (by_hidden * (1 - h * h)) @ first.T)
    copied = exe.run(main.clone(), {"x": array}, [names[2]])[0]
    np.testing.assert_array_equal(copied, by_hidden)
    assert not any("@GRAD" in v.name for v in main.clone(for_test=True).list_vars())


BROADCASTS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (b * b + 1.0),
    "maximum": proa.maximum,
    "where": lambda a, b: proa.where(a > 0, a, b),
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_an_unknown_size_may_be_broadcast(name: str, static_mode: Programs) -> None:
    """Which axes a gradient is summed over is known when a run is fed."""
    main, _ = static_mode
    a = static.data("a", [None, 3], "float64")
    b = static.data("b", [None, 3], "float64")
    a.stop_gradient = b.stop_gradient = False
    out = BROADCASTS[name](a, b)
    found = static.gradients((out * out).sum(), [a, b])
    exe = static.Executor()
    for rows in ((4, 1), (1, 4), (4, 4), (1, 1)):
        one, two = (RNG.normal(size=(n, 3)) for n in rows)

        def value(x: Any, y: Any) -> float:
            result = exe.run(main, {"a": x, "b": y}, [out])[0]
            return float((result * result).sum())

        da, db = exe.run(main, {"a": one, "b": two}, found)
        wanted = differences(lambda x, y=two: value(x, y), one)
        np.testing.assert_allclose(da, wanted, rtol=1e-5, atol=1e-7)
        wanted = differences(lambda y, x=one: value(x, y), two)
        np.testing.assert_allclose(db, wanted, rtol=1e-5, atol=1e-7)


def test_targets_without_a_gradient_add_nothing() -> None:
    x = static.data("x", [2])
    x.stop_gradient = False
    (grad,) = static.gradients([proa.sum(x * x), proa.ones([3])], [x])
    (none,) = static.gradients([proa.ones([3]) * 2], [x])
    assert none is None
    given = np.asarray([1.5, -2.0], "float32")
    (found,) = static.Executor().run(feed={"x": given}, fetch_list=[grad])
    np.testing.assert_array_equal(found, 2 * given)
