"""auto_cast: which ops compute in 16 bits, lists, levels, gradients, recording."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import proa
from proa import amp, nn
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.profiler import Profiler

RNG = np.random.RandomState(0)
LOW = ["bfloat16", "float16"]


def tensor(*shape: int) -> Any:
    return proa.to_tensor(RNG.randn(*shape).astype(np.float32))


def near(x: Any, y: Any, rtol: float = 2e-2) -> None:
    a, b = (t.astype("float32").numpy() for t in (x, y))
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max())


@pytest.mark.feature("L120")
@pytest.mark.feature("L134")
@pytest.mark.parametrize("dtype", LOW)
def test_products_are_computed_in_16_bits(dtype: str) -> None:
    x, w = tensor(4, 8), tensor(8, 3)
    image, kernel = tensor(2, 3, 8, 8), tensor(4, 3, 3, 3)
    with amp.auto_cast(dtype=dtype):
        product, conv = proa.matmul(x, w), F.conv2d(image, kernel)
        assert product.dtype.name == conv.dtype.name == dtype
        assert (x + 1).dtype.name == "float32"
        assert F.softmax(product).dtype.name == "float32"
        assert proa.mean(product).dtype.name == "float32"
        assert (product + x[:, :3]).dtype.name == "float32"
    near(product, proa.matmul(x, w))
    near(conv, F.conv2d(image, kernel))
    with (
        Profiler(on_trace_ready=lambda p: None, detail=0) as profile,
        amp.auto_cast(dtype=dtype),
    ):
        proa.matmul(x, w)
    ran = [e.name for e in profile.profiler_result.events if e.kind == "op"]
    assert sorted(ran) == ["cast", "cast", "matmul"]
    assert proa.matmul(x, w).dtype.name == "float32"


@pytest.mark.feature("L122")
def test_lists_choose_operators_by_either_name() -> None:
    x, w = tensor(4, 8), tensor(8, 3)
    for name in ("matmul_v2", "matmul", "mul"):
        black_list = {"matmul"} if name == "mul" else {name}
        with amp.auto_cast(custom_black_list=black_list, dtype="bfloat16"):
            assert proa.matmul(x, w).dtype.name == "float32"
    with amp.auto_cast(custom_white_list=["elementwise_add"], dtype="bfloat16"):
        assert (x + x).dtype.name == "bfloat16"
        assert (x * x).dtype.name == "float32"
        assert proa.matmul(x, w).dtype.name == "bfloat16"
    with amp.auto_cast(custom_white_list={"softmax"}, dtype="bfloat16"):
        assert F.softmax(x).dtype.name == "bfloat16"
    with pytest.warns(UserWarning, match="'no_such_op'"):
        amp.auto_cast(custom_black_list={"no_such_op"})


@pytest.mark.feature("L120")
def test_levels() -> None:
    x = tensor(4, 8)
    with amp.auto_cast(level="O2", dtype="bfloat16"):
        assert (x + 1).dtype.name == F.relu(x).dtype.name == "bfloat16"
        assert proa.tanh(x).dtype.name == "bfloat16"
        assert F.softmax(x).dtype.name == proa.exp(x).dtype.name == "float32"
        assert x.astype("float32").dtype.name == "float32"
        assert x.reshape([8, 4]).dtype.name == "float32"
        assert (proa.ones([2], "float64") + 1).dtype.name == "float64"
        assert (proa.arange(3) + 1).dtype.name == "int64"
    with amp.auto_cast(level="O2", dtype="bfloat16", custom_black_list={"relu"}):
        assert F.relu(x).dtype.name == "float32"
    for off in (amp.auto_cast(level="O0"), amp.auto_cast(False)):
        with off:
            assert proa.matmul(x, x.t()).dtype.name == "float32"


def test_autocast_blocks_nest_and_are_thread_local() -> None:
    x = tensor(3, 3)

    def kind() -> str:
        name: str = proa.matmul(x, x).dtype.name
        return name

    seen = []
    with amp.amp_guard(dtype="bfloat16"):
        assert kind() == "bfloat16"
        with amp.auto_cast(False):
            assert kind() == "float32"
            with amp.auto_cast(dtype="float16", custom_white_list={"tanh"}):
                assert kind() == proa.tanh(x).dtype.name == "float16"
        assert kind() == "bfloat16"
        other = threading.Thread(target=lambda: seen.append(kind()))
        other.start()
        other.join()
        with pytest.raises(KeyError), amp.auto_cast(False):
            raise KeyError
        assert kind() == "bfloat16"
    assert seen == ["float32"]
    assert kind() == "float32"


def test_functions_can_be_decorated() -> None:
    @amp.auto_cast(dtype="bfloat16")
    def product(x: Any) -> Any:
        return product(x[:2]) if len(x) > 2 else proa.matmul(x, x.t())

    assert product(tensor(3, 3)).dtype.name == "bfloat16"
    assert proa.matmul(tensor(2, 2), tensor(2, 2)).dtype.name == "float32"


@pytest.mark.feature("L125")
def test_ops_without_a_16_bit_kernel_stay_float32() -> None:
    from proa.schema import ROWS

    x = tensor(4, 5)
    labels = proa.to_tensor(np.array([0, 1, 4, 2]))
    assert "bfloat16" not in ROWS["softmax_cross_entropy"].dtypes
    low = x.astype("bfloat16")
    with amp.auto_cast(
        dtype="bfloat16", level="O2", custom_white_list={"softmax_with_cross_entropy"}
    ):
        loss = F.cross_entropy(low, labels)
    assert loss.dtype.name == "float32"
    near(loss, F.cross_entropy(x, labels))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("dtype", LOW)
def test_gradients_have_the_dtype_of_parameters(dtype: str, inside: bool) -> None:
    proa.seed(1)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    x, labels = tensor(6, 8), proa.to_tensor(np.arange(6) % 3)
    F.cross_entropy(net(x), labels).backward()
    expected = [p.grad.numpy() for p in net.parameters()]
    net.clear_gradients()
    with amp.auto_cast(dtype=dtype):
        out = net(x)
        assert out.dtype.name == dtype
        loss = F.cross_entropy(out, labels)
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    for p, g in zip(net.parameters(), expected, strict=True):
        assert p.grad.dtype.name == "float32"
        np.testing.assert_allclose(p.grad.numpy(), g, atol=0.03 * np.abs(g).max())


@pytest.mark.feature("L119", how="mechanism")
@pytest.mark.parametrize("dtype", LOW)
def test_norms_accept_16_bit_data_with_float32_parameters(dtype: str) -> None:
    norms = [nn.LayerNorm(8), nn.BatchNorm1D(8)]
    for norm in norms:
        x = tensor(16, 8)
        low = x.astype(dtype)
        low.stop_gradient = x.stop_gradient = False
        with (
            Profiler(on_trace_ready=lambda p: None, detail=0) as profile,
            amp.auto_cast(dtype=dtype),
        ):
            y = norm(low)
        assert y.dtype.name == dtype
        ran = [e.name for e in profile.profiler_result.events if e.kind == "op"]
        assert ran and "cast" not in ran
        (y.astype("float32") ** 3).sum().backward()
        grads = [p.grad.numpy() for p in norm.parameters()]
        assert {p.grad.dtype.name for p in norm.parameters()} == {"float32"}
        norm.clear_gradients()
        reference = norm(x)
        (reference**3).sum().backward()
        near(y, reference)
        near(low.grad, x.grad, 0.05)
        for p, g in zip(norm.parameters(), grads, strict=True):
            np.testing.assert_allclose(g, p.grad.numpy(), rtol=0.05, atol=0.5)
    mean = norms[1]._mean
    assert mean.dtype.name == "float32"
    norms[1].eval()
    with amp.auto_cast(dtype=dtype), proa.no_grad():
        assert norms[1](low).dtype.name == dtype


def test_recorded_graphs_keep_the_casts() -> None:
    net = nn.Linear(4, 3)

    def run(x: Any) -> Any:
        with amp.auto_cast(dtype="bfloat16"):
            return net(x).astype("float32")

    x = tensor(5, 4)
    recorded = proa.jit.to_static(
        run, input_spec=[proa.static.InputSpec([None, 4], "float32")]
    )
    np.testing.assert_array_equal(recorded(x).numpy(), run(x).numpy())
    assert (recorded(x).numpy() != net(x).numpy()).any()


def test_recorded_calls_follow_the_mode_of_the_call() -> None:
    net = nn.Linear(4, 3)
    recorded = proa.jit.to_static(lambda x: F.softmax(net(x)) + net(x))
    x = tensor(5, 4)
    with proa.no_grad():
        for level, black in (("O0", None), ("O1", None), ("O2", None), ("O2", {"add"})):
            with amp.auto_cast(level=level, dtype="bfloat16", custom_black_list=black):
                result = recorded(x)
                expected = F.softmax(net(x)) + net(x)
            assert result.dtype == expected.dtype
            near(result, expected, 1e-2)


@pytest.mark.feature("L126")
def test_no_op_is_cast_that_has_no_16_bit_kernel() -> None:
    from proa.amp.lists import classes
    from proa.schema import ROWS

    chosen = classes("test", "O2", None, None)
    assert chosen is not None
    white = [name for name, kind in chosen.items() if kind == "white"]
    assert len(white) > 50
    for name in (*white, *(n for n, row in ROWS.items() if row.autocast == "white")):
        assert {"bfloat16", "float16"} <= set(ROWS[name].dtypes), name


def test_invalid_settings_are_rejected() -> None:
    for settings, text in (
        ({"level": "O3"}, "level must be one of"),
        ({"dtype": "float32"}, "dtype must be float16 or bfloat16"),
        ({"custom_white_list": "matmul"}, "must be a set"),
        ({"custom_white_list": ["a"], "custom_black_list": ["a"]}, "not share"),
    ):
        with pytest.raises(InvalidArgumentError, match=text):
            amp.auto_cast(**settings)  # type: ignore[arg-type]  # by name
    assert amp.is_float16_supported()
    assert amp.is_bfloat16_supported("cpu")
