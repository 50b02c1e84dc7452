"""to_static: the same results as the function, and errors that name the user's line."""

from __future__ import annotations

import contextlib
import io
import threading
from typing import Any

import numpy as np
import pytest

import proa
from proa import _core
from proa._core import ops
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.ir import Builder
from proa.jit import InputSpec, not_to_static, to_static
from proa.jit.compiled import engine_of

from .dense import Dense, close, tensor


@pytest.mark.feature("L199")
def test_input_spec_takes_shapes_tensors_and_arrays() -> None:
    spec = InputSpec([None, 3], "float32", "x")
    assert (spec.shape, spec.dtype, spec.name) == ((-1, 3), "float32", "x")
    assert InputSpec.from_tensor(tensor(2, 3)).shape == (2, 3)
    of_array = InputSpec.from_numpy(np.zeros((4,), np.int64), "n")
    assert of_array == InputSpec([4], "int64", "n")
    assert spec.batch(8).shape == (8, -1, 3)
    assert spec.unbatch().unbatch().shape == (3,)
    assert InputSpec([1], proa.float16).dtype == "float16"
    with pytest.raises(InvalidArgumentError, match="dimensions must be"):
        InputSpec([-2])
    with pytest.raises(InvalidArgumentError, match="dtype must be one of"):
        InputSpec([1], "float31")


def test_a_static_function_gives_what_the_function_gives() -> None:
    @to_static
    def f(x: Any, y: Any, *, scale: float = 1.0) -> Any:
        z = ops.add(ops.mul(x, scale), y)
        return {"z": z, "both": (ops.relu(z), [x, 7])}

    x, y = tensor(2, 3), tensor(3, seed=1)
    for scale in (1.0, 2.0):
        got = f(x, y, scale=scale)
        z = x.numpy() * scale + y.numpy()
        close(got["z"], z)
        close(got["both"][0], np.maximum(z, 0))
        close(got["both"][1][0], x.numpy())
        assert got["both"][1][1] == 7


def test_one_trace_serves_every_batch_size() -> None:
    calls = []

    @to_static(input_spec=[InputSpec([None, 4])])
    def f(x: Any) -> Any:
        calls.append(list(x.shape))
        return ops.tanh(x)

    for n in (1, 5, 2, 5, 0):
        close(f(tensor(n, 4)), np.tanh(tensor(n, 4).numpy()))
    assert calls == [[-1, 4]]
    with pytest.raises(InvalidArgumentError, match=r"argument 0 must be .*\(2, 5\)"):
        f(tensor(2, 5))


@pytest.mark.feature("L196")
def test_to_static_decorates_a_layer_instance() -> None:
    layer = to_static(Dense(), input_spec=[InputSpec([None, 4])])
    layer.training = False
    x = tensor(6, 4, seed=9)
    with proa.no_grad():
        close(layer(x), layer.want(x))
    assert "linear" in str(layer.forward.main_program)


def test_where_a_gradient_is_wanted_the_function_itself_runs() -> None:
    layer = to_static(Dense())
    layer.training = False
    y = layer(tensor(2, 4))
    assert not y.stop_gradient
    ops.sum(y).backward()
    assert layer.w.grad is not None


def test_a_changed_weight_is_seen() -> None:
    layer = to_static(Dense())
    layer.training = False
    x = tensor(2, 4)
    with proa.no_grad():
        layer(x)
        ops.scale_(layer.w, scale=2.0)
        close(layer(x), layer.want(x))


def test_a_random_function_is_not_frozen() -> None:
    keys = iter(range(100))

    @to_static
    def f(x: Any) -> Any:
        return ops.dropout(x, p=0.5, seed=1, offset=next(keys) * 1000)

    x = tensor(64)
    assert not np.array_equal(f(x).numpy(), f(x).numpy())


@pytest.mark.parametrize("without_gradients", [False, True])
def test_random_numbers_of_a_fixed_shape_are_drawn_in_every_run(
    without_gradients: bool,
) -> None:
    @to_static
    def noisy(x: proa.Tensor) -> proa.Tensor:
        return x + proa.randn([64])

    x, file = proa.zeros([64]), io.BytesIO()
    proa.jit.save(noisy, file, input_spec=[x])
    file.seek(0)
    loaded = proa.jit.load(file)
    with proa.no_grad() if without_gradients else contextlib.nullcontext():
        for f in (noisy, loaded):
            first, second = f(x).numpy(), f(x).numpy()
            assert np.abs(first - second).max() > 0.1
            assert abs(first.mean()) < 0.6 and 0.6 < first.std() < 1.4


@pytest.mark.parametrize("trains", [False, True])
def test_a_layer_created_while_its_owner_is_recorded_is_a_layer(trains: bool) -> None:
    class Lazy(proa.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.dense: Any = None

        def forward(self, x: proa.Tensor) -> proa.Tensor:
            if self.dense is None:
                self.dense = proa.nn.Linear(3, 2)
            return self.dense(x)

    layer, x = Lazy(), tensor(4, 3)
    static = to_static(layer)
    if not trains:
        layer.eval()
    result = static(x)
    w, b = layer.dense.weight.numpy(), layer.dense.bias.numpy()
    np.testing.assert_allclose(result.numpy(), x.numpy() @ w + b, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(static(x).numpy(), result.numpy())


@pytest.mark.feature("L197")
def test_not_to_static_leaves_a_function_as_it_is() -> None:
    @not_to_static
    def f(x: Any) -> Any:
        return ops.relu(x)

    assert to_static(f) is f


@pytest.mark.feature("L197")
@pytest.mark.feature("L200")
def test_control_flow_on_values_names_the_users_line() -> None:
    @not_to_static
    def chosen(x: Any) -> Any:
        if ops.greater_than(ops.sum(x), 0):  # the line to be named
            return x
        return ops.neg(x)

    @to_static
    def f(x: Any) -> Any:
        return chosen(x)

    named = r"test_static\.py:\d+: if ops\.greater_than.*the line to be named"
    with pytest.raises(UnimplementedError, match=named):
        f(tensor(3))


def test_a_trace_that_failed_leaves_nothing_behind() -> None:
    @to_static
    def f(x: Any) -> Any:
        return ops.sum(x).item()

    with pytest.raises(UnimplementedError):
        f(tensor(3))
    assert proa.is_grad_enabled()
    close(ops.relu(tensor(3)), np.maximum(tensor(3).numpy(), 0))


def test_a_symbol_of_another_trace_is_refused() -> None:
    symbols: list[Any] = []

    @to_static
    def f(x: Any) -> Any:
        symbols.append(x)
        return ops.add(symbols[0], x)

    f(tensor(3))
    with pytest.raises(InvalidArgumentError, match="must belong to the program"):
        f(tensor(4))


def test_every_dtype_goes_in_and_out() -> None:
    f = to_static(lambda x: ops.add(x, x))
    for name in ("int32", "float64", "float16", "bfloat16", "bool", "uint8"):
        x = ops.cast(_core.from_numpy(np.array([1.0, 0.5, 3.0]), True), dtype=name)
        got, want = f(x), ops.add(x, x)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_threads_may_call_one_static_function() -> None:
    f = to_static(lambda x: ops.tanh(x))
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(20):
            x = tensor(n, 3, seed=n)
            if not np.allclose(f(x).numpy(), np.tanh(x.numpy()), atol=1e-5):
                wrong.append(n)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_an_engine_of_a_program_copies_no_weights() -> None:
    b = Builder()
    weights = np.ones(3, np.float32)
    x = b.input("x", "float32", [3])
    b.output(b.add(x, b.parameter("w", weights)))
    engine = engine_of(b.program)
    weights[:] = 5
    (result,) = engine.run([np.zeros(3, np.float32)])
    np.testing.assert_array_equal(result, [5, 5, 5])
