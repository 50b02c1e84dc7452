"""Operators written in Python: at once, recorded, differentiated."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    PreconditionNotMetError,
    ShapeError,
    UnimplementedError,
)
from proa.ir.record import in_graph
from proa.jit import InputSpec, to_static
from proa.static import py_func

RNG = np.random.default_rng(4)
A, B = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))


@pytest.fixture
def static_mode(request: pytest.FixtureRequest) -> Iterator[None]:
    """For calls in a graph's place, which are at once; other cases record."""
    case = getattr(request.node, "callspec", None)
    at_once = case is None or not case.params.get("recorded")
    with in_graph() if at_once else nullcontext():
        yield


in_static_mode = pytest.mark.usefixtures("static_mode")


def _tanh(x: Any) -> Any:
    return np.tanh(x.numpy())


def _tanh_grad(x: Any, y: Any, dy: Any) -> Any:
    return dy.numpy() * (1 - y.numpy() ** 2)


def _tensor(array: Any, takes: bool = True) -> proa.Tensor:
    return proa.to_tensor(array, stop_gradient=not takes)


def _both(x: Any, y: Any) -> tuple[Any, Any]:
    return x.numpy() * y.numpy(), x.numpy() + 2 * y.numpy()


def _both_grad(x: Any, y: Any, p: Any, s: Any, dp: Any, ds: Any) -> tuple[Any, Any]:
    x, y, dp, ds = (t.numpy() for t in (x, y, dp, ds))
    return dp * y + ds, dp * x + 2 * ds


@in_static_mode
@pytest.mark.feature("L241")
@pytest.mark.parametrize("kind", [tuple, list])
def test_functions_with_several_inputs_and_outputs(kind: Any) -> None:
    x, y = _tensor(A), _tensor(B)
    out = kind([proa.zeros([2, 3], "float64"), proa.zeros([2, 3], "float64")])
    p, s = py_func(_both, kind([x, y]), out, backward_func=_both_grad)
    np.testing.assert_array_equal(p.numpy(), A * B)
    np.testing.assert_array_equal(out[1].numpy(), A + 2 * B)
    (p * 3 + s).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * B + 1)
    np.testing.assert_allclose(y.grad.numpy(), 3 * A + 2)


@pytest.mark.feature("L241")
@pytest.mark.parametrize("rows", [2, -1])
@pytest.mark.parametrize("training", [False, True])
def test_a_recorded_call_runs_the_functions_each_time(
    rows: int, training: bool
) -> None:
    calls = []

    def tanh(x: Any) -> Any:
        calls.append(x.shape)
        return _tanh(x)

    @to_static
    def f(x: proa.Tensor) -> proa.Tensor:
        like = InputSpec([rows, 3], "float64")
        return py_func(tanh, x * 2, like, backward_func=_tanh_grad) * 3

    for array in (A, B):
        x = _tensor(array, training)
        y = f(x)
        np.testing.assert_allclose(y.numpy(), 3 * np.tanh(2 * array), rtol=1e-12)
        if training:
            y.sum().backward()
            want = 6 / np.cosh(2 * array) ** 2
            np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-12)
    assert calls == [[2, 3], [2, 3]]


def test_symbolic_dims_follow_the_first_tensor() -> None:
    seen = []

    def f(x: proa.Tensor) -> proa.Tensor:
        seen.append(x.shape)
        like = InputSpec([-1, 3], "float64")
        return py_func(_tanh, x, like, _tanh_grad, [x]) + 0

    static = to_static(f, input_spec=[InputSpec([None, 3], "float64")])
    for n in (2, 5):
        x = _tensor(RNG.normal(size=(n, 3)), False)
        np.testing.assert_array_equal(static(x).numpy(), np.tanh(x.numpy()))
    assert seen == [[-1, 3]]


@in_static_mode
def test_a_layer_trains_through_a_python_operator() -> None:
    class Net(proa.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.fc = proa.nn.Linear(3, 3)

        def forward(self, x: proa.Tensor) -> proa.Tensor:
            like = InputSpec([-1, 3], "float32")
            return py_func(_tanh, self.fc(x), like, _tanh_grad).sum()

    net = Net()
    x = _tensor(A.astype("float32"), False)
    net(x).backward()
    want = net.fc.weight.grad.numpy()
    w, b = net.fc.weight.numpy(), net.fc.bias.numpy()
    slope = 1 - np.tanh(A @ w + b) ** 2
    np.testing.assert_allclose(want, A.T @ slope, rtol=1e-4, atol=1e-6)
    net.fc.weight.clear_grad()
    to_static(net)(x).backward()
    np.testing.assert_array_equal(net.fc.weight.grad.numpy(), want)


@in_static_mode
def test_a_whole_recorded_step_calls_python_and_the_framework_within() -> None:
    class Tanh:  # neither a function nor to be hashed
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, x: proa.Tensor) -> proa.Tensor:
            return proa.tanh(x @ proa.eye(3))

    proa.seed(0)
    nets = [proa.nn.Linear(3, 3) for _ in range(2)]
    nets[1].set_state_dict(nets[0].state_dict())
    losses = []
    for net, wrap in zip(nets, (to_static, lambda f: f), strict=True):
        sgd = proa.optimizer.SGD(0.1, net.parameters())

        def step(x: Any, net: Any = net, sgd: Any = sgd) -> Any:
            like = InputSpec([-1, 3], "float32")
            loss = py_func(Tanh(), net(x), like, _tanh_grad).sum()
            loss.backward()
            sgd.step()
            sgd.clear_grad()
            return loss

        run = wrap(step)
        x = _tensor(A.astype("float32"), False)
        losses.append([run(x).item() for _ in range(4)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    assert losses[0][3] < losses[0][0]


def test_programs_of_several_threads_call_their_own_functions() -> None:
    def work(number: int) -> list[float]:
        like = InputSpec([1], "float64")
        f = to_static(lambda x: py_func(lambda t: t.numpy() * number, x, like) + 0)
        return [f(proa.full([1], k, "float64")).item() for k in range(20)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(8)))
    assert found == [[float(n * k) for k in range(20)] for n in range(8)]


@in_static_mode
def test_skipped_values_are_not_passed() -> None:
    x = _tensor(A)
    out = proa.zeros([2, 3], "float64")
    given = []

    def back(*tensors: Any) -> Any:
        given.append(len(tensors))
        y, dy = tensors
        return dy.numpy() * (1 - y.numpy() ** 2)

    y = py_func(_tanh, x, out, back, skip_vars_in_backward_input=x)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 - np.tanh(A) ** 2)
    assert given == [2]


@in_static_mode
def test_none_means_a_zero_gradient() -> None:
    x, y = _tensor(A), _tensor(B)
    back = lambda x, y, out, d: (None, d)  # noqa: E731
    out = py_func(
        lambda x, y: y.numpy() + 1, [x, y], InputSpec([2, 3], "float64"), back
    )
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((2, 3)))
    np.testing.assert_array_equal(y.grad.numpy(), np.ones((2, 3)))


@in_static_mode
@pytest.mark.parametrize("recorded", [False, True])
def test_a_function_without_results_is_called_for_its_effect(recorded: bool) -> None:
    seen: list[Any] = []

    def f(x: proa.Tensor) -> proa.Tensor:
        assert py_func(lambda t: seen.append(t.numpy()), x + 1, None) is None
        return x * 2

    run = to_static(f, input_spec=[InputSpec([2, 3], "float64")]) if recorded else f
    run(_tensor(A, False))
    run(_tensor(B, False))
    np.testing.assert_array_equal(seen, [A + 1, B + 1])


def test_equal_calls_both_run() -> None:
    count = iter(range(9))

    @to_static
    def f(x: proa.Tensor) -> proa.Tensor:
        like = InputSpec([], "int64")
        tick = lambda x: np.array(next(count))  # noqa: E731
        return py_func(tick, x, like) + py_func(tick, x, like)

    assert [f(proa.ones([1])).item() for _ in range(2)] == [1, 5]


@in_static_mode
def test_without_a_backward_function_no_gradient_flows() -> None:
    y = py_func(_tanh, _tensor(A), InputSpec([2, 3], "float64"))
    assert y.stop_gradient
    np.testing.assert_array_equal(y.numpy(), np.tanh(A))


@in_static_mode
def test_gradients_of_gradients_follow_from_tensors_alone() -> None:
    like = InputSpec([2, 3], "float64")
    x = _tensor(A)
    cube = py_func(lambda x: x.numpy() ** 3, x, like, lambda x, y, dy: 3 * x * x * dy)
    (g,) = proa.grad([cube.sum()], [x], create_graph=True)
    (gg,) = proa.grad([g.sum()], [x])
    np.testing.assert_allclose(gg.numpy(), 6 * A)
    result = py_func(_tanh, x, like, _tanh_grad).sum()
    (g,) = proa.grad([result], [x], create_graph=True)
    np.testing.assert_allclose(g.numpy(), 1 - np.tanh(A) ** 2)
    with pytest.raises(UnimplementedError, match=r"\[py_func\] gradients of gradients"):
        proa.grad([g.sum()], [x])


def test_gradients_of_arrays_are_part_of_programs() -> None:
    main = static.Program()
    proa.enable_static()
    try:
        with static.program_guard(main):
            x = static.data("x", [2, 3], "float64")
            x.stop_gradient = False
            block = main.current_block()
            out = block.create_var(name="out", dtype="float64", shape=[2, 3])
            result = py_func(_tanh, x, out, _tanh_grad)
            (grad,) = static.gradients(proa.sum(result * 2), x)
    finally:
        proa.disable_static()
    (found,) = static.Executor().run(main, feed={"x": A}, fetch_list=[grad])
    np.testing.assert_allclose(found, 2 - 2 * np.tanh(A) ** 2)


def test_a_graph_with_a_python_function_cannot_be_a_file(tmp_path: Path) -> None:
    class Net(proa.nn.Layer):
        def forward(self, x: proa.Tensor) -> proa.Tensor:
            return py_func(_tanh, x, InputSpec([2, 3], "float64"))

    spec = [InputSpec([2, 3], "float64")]
    with pytest.raises(UnimplementedError, match=r"\[save\].*py_func.*test_py_func"):
        proa.jit.save(Net(), tmp_path / "net", input_spec=spec)
    assert not list(tmp_path.iterdir())
    _, traced = proa.jit.TracedLayer.trace(Net(), [_tensor(A, False)])
    np.testing.assert_array_equal(traced([_tensor(B, False)]).numpy(), np.tanh(B))


@in_static_mode
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    ("result", "like", "error", "message"),
    [
        (A[:1], [2, 3], ShapeError, r"must return shape \(2, 3\), got \(1, 3\)"),
        (A.astype("f4"), [2, 3], InvalidArgumentError, "must return float64, got floa"),
        ((A, A), [2, 3], InvalidArgumentError, "must return 1 results, got 2"),
        (A, [2, 3, -1], ShapeError, "a symbolic dimension of out must be"),
    ],
)
def test_invalid_results_are_rejected(
    recorded: bool, result: Any, like: Any, error: Any, message: str
) -> None:
    def f(x: proa.Tensor) -> proa.Tensor:
        return py_func(lambda x: result, x, InputSpec(like, "float64"))

    run = to_static(f, input_spec=[InputSpec([2, 3], "float64")]) if recorded else f
    kind = InvalidArgumentError if recorded else error
    with pytest.raises(kind, match=message):
        run(_tensor(A, False))


@in_static_mode
def test_an_error_within_a_recorded_function_is_reported() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("nowhere")

    like = InputSpec([2, 3], "float64")
    with pytest.raises(KeyError, match="nowhere"):
        py_func(fails, _tensor(A), like)
    static = to_static(lambda x: py_func(fails, x, like))
    with pytest.raises(InvalidArgumentError, match=r"fails .*KeyError: 'nowhere'"):
        static(_tensor(A, False))


@in_static_mode
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"func": 3}, r"\[py_func\] func must be a function, got int"),
        ({"backward_func": 3}, "backward_func must be a function, got int"),
        ({"x": 3}, "x must be a Tensor or a list or tuple of Tensors, got int"),
        ({"out": "y"}, "out must be a Tensor or a list or tuple of Tensors, got str"),
    ],
)
def test_invalid_arguments_are_rejected(change: dict[str, Any], message: str) -> None:
    given = {"func": _tanh, "x": _tensor(A), "out": InputSpec([2, 3], "float64")}
    with pytest.raises(InvalidTypeError, match=message):
        py_func(**(given | change))
    with pytest.raises(InvalidArgumentError, match="among x and out"):
        py_func(**given, skip_vars_in_backward_input=[_tensor(B)])


def test_in_dynamic_mode_it_is_no_operator_but_within_graphs() -> None:
    assert proa.static.nn.py_func is proa.static.py_func
    like = InputSpec([2, 3], "float64")
    message = r"\[static.py_func\] .*graph.*in dynamic mode.*autograd.PyLayer"
    with pytest.raises(PreconditionNotMetError, match=message):
        py_func(_tanh, _tensor(A), like)

    @to_static
    def noisy(x: proa.Tensor) -> proa.Tensor:
        # Two runs differ: the function is called in the graph's place.
        return py_func(_tanh, x, like) + 0 * proa.rand([2, 3]).astype("float64")

    with proa.no_grad():
        for _ in range(2):
            np.testing.assert_array_equal(noisy(_tensor(A)).numpy(), np.tanh(A))
    with pytest.raises(PreconditionNotMetError, match=message):
        py_func(_tanh, _tensor(A), like)
