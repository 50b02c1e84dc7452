"""Complex numbers: every operator that takes them, against NumPy, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError

RNG = np.random.default_rng(4)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def check_gradient(f: Callable[..., Any], *arrays: np.ndarray) -> None:
    """The gradient of the real part of a weighted sum, along a random direction.

    A gradient is dL/d(re) + i dL/d(im): along d the slope is re(conj(grad) d).
    """
    leaves = [proa.to_tensor(a, stop_gradient=False) for a in arrays]
    weight = draw(*f(*leaves).shape)

    def loss(*tensors: Any) -> Any:
        y = f(*tensors)
        if not y.dtype.is_complex:
            return (y * proa.to_tensor(weight.real)).sum()
        return (y * proa.to_tensor(weight)).sum().real()

    loss(*leaves).backward()
    h = 1e-6
    for i, (leaf, a) in enumerate(zip(leaves, arrays, strict=True)):
        step = draw(*a.shape) if a.dtype.kind == "c" else RNG.normal(size=a.shape)
        ends = []
        for sign in (1, -1):
            moved = [
                proa.to_tensor(b + sign * h * step if n == i else b)
                for n, b in enumerate(arrays)
            ]
            ends.append(float(loss(*moved)))
        assert leaf.grad.dtype == leaf.dtype
        got = float((np.conj(leaf.grad.numpy()) * step).real.sum())
        assert got == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-6)


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "matmul": np.matmul,
    "kron": np.kron,
}


@pytest.mark.feature("L152", "L155")
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_arithmetic(name: str, dtype: str):
    a, b = draw(3, 3), draw(3, 3)
    x, y = proa.to_tensor(a, dtype), proa.to_tensor(b, dtype)
    got = getattr(proa, name)(x, y)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.numpy(), BINARY[name](a, b), rtol=2e-5, atol=1e-5)
    real = b.real.copy()
    mixed = getattr(proa, name)(x, proa.to_tensor(real.astype("float32")))
    np.testing.assert_allclose(
        mixed.numpy(), BINARY[name](a, real), rtol=1e-4, atol=1e-5
    )
    if dtype == "complex128":
        check_gradient(getattr(proa, name), a, b)
        check_gradient(getattr(proa, name), a, real)


@pytest.mark.feature("L152")
def test_shapes_change():
    a = draw(2, 3, 4)
    x = proa.to_tensor(a)
    np.testing.assert_array_equal(x.reshape([4, 6]).numpy(), a.reshape(4, 6))
    np.testing.assert_array_equal(x.transpose([2, 0, 1]).numpy(), a.transpose(2, 0, 1))
    check_gradient(lambda t: t.transpose([1, 0, 2]).reshape([3, 8]), a)


UNARY = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)), "rsqrt": lambda z: 1 / np.sqrt(z),
    "square": np.square, "reciprocal": np.reciprocal, "neg": np.negative,
    "conj": np.conj, "real": np.real, "imag": np.imag, "angle": np.angle, "abs": np.abs,
    "sgn": lambda z: z / np.abs(z),
    "as_real": lambda z: np.stack([z.real, z.imag], -1),
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "cumsum": np.cumsum,
    "cumprod": np.cumprod, "trace": np.trace, "norm": np.linalg.norm, "t": np.transpose,
}  # fmt: skip


@pytest.mark.feature("L153")
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_functions_of_one_tensor(name: str, dtype: str):
    a = draw(3, 3)
    f = getattr(proa, name)
    got, want = f(proa.to_tensor(a, dtype)).numpy(), UNARY[name](a.astype(dtype))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-5)
    if dtype == "complex128":
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)
        check_gradient(f, a)


def by_real_part(low: float, z: np.ndarray, high: float) -> np.ndarray:
    return np.where(z.real <= low, low, np.where(z.real >= high, high, z))


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "swish": lambda z: z / (1 + np.exp(-z)),
    "softplus": lambda z: np.log(1 + np.exp(z)),
    "log_sigmoid": lambda z: -np.log(1 + np.exp(-z)),
    "mish": lambda z: z * np.tanh(np.log(1 + np.exp(z))),
    "hardswish": lambda z: z * by_real_part(0, z + 3, 6) / 6,
    "hardsigmoid": lambda z: by_real_part(0, z * 0.1666667 + 0.5, 1),
    "tanh": np.tanh,
    "tanhshrink": lambda z: z - np.tanh(z),
    "softsign": lambda z: z / (1 + np.abs(z)),
}


@pytest.mark.feature("L154")
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_activations_take_complex_numbers(name: str, dtype: str):
    a = 3 * draw(4, 5)  # on both sides of what hardswish compares with
    f = getattr(F, name)
    got, want = f(proa.to_tensor(a, dtype)).numpy(), ACTIVATIONS[name](a)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-4)
    if dtype == "complex128":
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)
        check_gradient(f, a)


@pytest.mark.parametrize(
    ("layer", "name"),
    [(nn.Silu, "silu"), (nn.Softplus, "softplus"), (nn.Hardswish, "hardswish")],
)
def test_layers_of_activations_take_complex_numbers(layer: Any, name: str):
    a = 3 * draw(4, 5)
    got = layer()(proa.to_tensor(a)).numpy()
    np.testing.assert_allclose(got, ACTIVATIONS[name](a), rtol=1e-9, atol=1e-10)


def test_softplus_of_complex_numbers_scales_and_does_not_overflow():
    a = np.array([2 + 1j, -3 + 0.5j, 800 - 2j, -800 + 1j])
    z = proa.to_tensor(a, stop_gradient=False)
    y = F.softplus(z, beta=2.0, threshold=10.0)
    want = np.array([*np.log(1 + np.exp(2 * a[:2])) / 2, 800 - 2j, 0])
    np.testing.assert_allclose(y.numpy(), want, atol=1e-12)
    y.sum().real().backward()
    slope = np.array([*1 / (1 + np.exp(-2 * a[:2])), 1, 0])
    np.testing.assert_allclose(z.grad.numpy(), np.conj(slope), atol=1e-12)


def test_large_arguments_do_not_overflow():
    z = proa.to_tensor(np.array([400 + 1j, -400 + 1j, 30 - 2j]))
    np.testing.assert_allclose(proa.tanh(z).numpy(), [1, -1, 1], atol=1e-12)
    np.testing.assert_allclose(proa.sigmoid(z).numpy(), [1, 0, 1], atol=1e-12)


def test_moving_and_picking():
    a = draw(3, 4)
    x = proa.to_tensor(a)
    index = proa.to_tensor([2, 0])
    for f in (
        lambda t: proa.gather(t, index),
        lambda t: t[1:, ::-2],
        lambda t: t[index],
        lambda t: proa.concat([t, t * 2j]),
        lambda t: proa.where(proa.to_tensor([True, False, True, True]), t, t * 2),
        lambda t: proa.roll(proa.flip(t, [0]), 1, 1),
        lambda t: proa.tile(t, [2, 1]),
        lambda t: proa.index_add(t, index, 0, t[:2]),
        lambda t: proa.linalg.inv(t @ t.conj().t()),
    ):
        check_gradient(f, a)
    x[0, 1] = 5j
    a[0, 1] = 5j
    np.testing.assert_array_equal(x.numpy(), a)


def test_tests_of_values():
    a = np.array([1 + 1j, complex(np.nan, 0), complex(1, np.inf), 0])
    x = proa.to_tensor(a)
    for name in ("isnan", "isinf", "isfinite", "logical_not"):
        want = getattr(np, name)(a)
        np.testing.assert_array_equal(getattr(proa, name)(x).numpy(), want)
    assert bool(proa.allclose(x[0], x[0] + 1e-9)) and bool((x == x)[0])


def test_making_complex_tensors():
    re, im = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))
    x = proa.complex(proa.to_tensor(re), proa.to_tensor(im))
    np.testing.assert_array_equal(x.numpy(), re + 1j * im)
    check_gradient(proa.complex, re, im)
    pair = np.stack([re, im], -1)
    np.testing.assert_array_equal(
        proa.as_complex(proa.to_tensor(pair)).numpy(), x.numpy()
    )
    check_gradient(proa.as_complex, pair)
    size = np.abs(re)
    got = proa.polar(proa.to_tensor(size), proa.to_tensor(im))
    np.testing.assert_allclose(got.numpy(), size * np.exp(1j * im), rtol=1e-12)
    assert proa.full([2], 1 + 2j).dtype == "complex64"
    assert proa.full([2], 1 + 2j, "complex128").tolist() == [1 + 2j, 1 + 2j]
    assert proa.full_like(x, 3j).tolist()[0][0] == 3j
    with pytest.raises(ShapeError, match=r"\[as_complex\]"):
        proa.as_complex(proa.ones([3]))
    with pytest.raises(InvalidArgumentError, match=r"\[as_real\] x must be complex"):
        proa.as_real(proa.ones([3]))


def test_variance_is_real():
    a = draw(4, 5)
    x = proa.to_tensor(a)
    np.testing.assert_allclose(proa.var(x, 0).numpy(), np.var(a, 0, ddof=1))
    np.testing.assert_allclose(proa.std(x, unbiased=False).numpy(), np.std(a))


@pytest.mark.feature("L154")
@pytest.mark.parametrize("recorded", [False, True])
def test_a_complex_network_trains_and_accumulates_gradients(recorded: bool):
    a, target = draw(16, 4), draw(4, 2)  # the step below suits any such draw
    x, y = proa.to_tensor(a), proa.to_tensor(a @ target)
    w = proa.to_tensor(draw(4, 2), stop_gradient=False)
    losses = []

    def loss(x: Any, y: Any) -> Any:
        return (proa.abs(x @ w - y) ** 2).mean()

    run = proa.jit.to_static(loss) if recorded else loss
    for _ in range(200):
        for half in (slice(0, 8), slice(8, 16)):  # two backward passes add up
            run(x[half], y[half]).backward()
        with proa.no_grad():
            losses.append(float((proa.abs(x @ w - y) ** 2).mean()))
            w.subtract_(0.1 * w.grad)
        w.clear_grad()
    assert losses[-1] < 1e-5 * losses[0]
    np.testing.assert_allclose(w.numpy(), target, atol=1e-2)


#: What Paddle 2.1 computes with complex numbers, by its documents and the notes of its
#: releases 2.0 and 2.1: our call and NumPy's, on a matrix and a vector.
PADDLE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "to_tensor": (lambda z, v: proa.to_tensor(z.numpy()), lambda z, v: z),
    "add": (lambda z, v: z + v, lambda z, v: z + v),
    "subtract": (lambda z, v: z - v, lambda z, v: z - v),
    "multiply": (lambda z, v: z * v, lambda z, v: z * v),
    "divide": (lambda z, v: z / v, lambda z, v: z / v),
    "scalars": (lambda z, v: 2 * z - 1j, lambda z, v: 2 * z - 1j),
    "matmul": (lambda z, v: z @ v, lambda z, v: z @ v),
    "kron": (lambda z, v: proa.kron(z, z), lambda z, v: np.kron(z, z)),
    "trace": (lambda z, v: proa.trace(z), lambda z, v: np.trace(z)),
    "sum": (lambda z, v: proa.sum(z, 0), lambda z, v: z.sum(0)),
    "abs": (lambda z, v: proa.abs(z), lambda z, v: abs(z)),
    "conj": (lambda z, v: proa.conj(z), lambda z, v: z.conj()),
    "real": (lambda z, v: proa.real(z), lambda z, v: z.real),
    "imag": (lambda z, v: proa.imag(z), lambda z, v: z.imag),
    "reshape": (lambda z, v: proa.reshape(z, [9]), lambda z, v: z.reshape(9)),
    "transpose": (lambda z, v: proa.transpose(z, [1, 0]), lambda z, v: z.T),
    "roll": (lambda z, v: proa.roll(z, 1), lambda z, v: np.roll(z, 1)),
    "concat": (lambda z, v: proa.concat([z, z]), lambda z, v: np.concatenate([z, z])),
    "stack": (lambda z, v: proa.stack([z, z]), lambda z, v: np.stack([z, z])),
    "squeeze": (lambda z, v: proa.squeeze(z[None]), lambda z, v: z),
    "index": (lambda z, v: z[1:, ::2], lambda z, v: z[1:, ::2]),
    "expand": (
        lambda z, v: proa.expand(v, [3, 3]),
        lambda z, v: np.broadcast_to(v, (3, 3)),
    ),
    "tile": (lambda z, v: proa.tile(z, [2, 1]), lambda z, v: np.tile(z, (2, 1))),
    "cast": (lambda z, v: proa.cast(z, "complex128"), lambda z, v: z.astype("c16")),
    "full": (lambda z, v: proa.full_like(z, 2.0), lambda z, v: np.full_like(z, 2.0)),
    "zeros": (lambda z, v: proa.zeros_like(z), lambda z, v: np.zeros_like(z)),
    "norm": (lambda z, v: proa.norm(z), lambda z, v: np.linalg.norm(z)),
    "exp": (lambda z, v: proa.exp(z), lambda z, v: np.exp(z)),
    "einsum": (lambda z, v: proa.einsum("ij,j->i", z, v), lambda z, v: z @ v),
    "linear": (
        lambda z, v: proa.nn.functional.linear(z, z, v),
        lambda z, v: z @ z + v,
    ),
    "numpy": (lambda z, v: proa.to_tensor(np.array(z.tolist())), lambda z, v: z),
}


@pytest.mark.feature("L152")
@pytest.mark.parametrize("name", PADDLE)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_what_paddle_computes_with_complex_numbers(name: str, dtype: str):
    z, v = draw(3, 3).astype(dtype), draw(3).astype(dtype)
    ours, want = PADDLE[name]
    got = ours(proa.to_tensor(z), proa.to_tensor(v)).numpy()
    want = want(z, v)
    if name != "numpy":  # a Python number has no precision of its own
        assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


#: Families and rows whose formula compares two numbers, or is only
#: that of real numbers.
REAL_ALONE = {
    "activation", "attention", "conv", "linear", "loss", "norm", "optimizer", "pool",
    "quant", "rand", "recurrent", "sampling", "sort",
}  # fmt: skip
ORDERED = {
    "argmax", "argmin", "atan2", "ceil", "clip", "clip_grad", "erf", "floor",
    "floor_div", "greater_equal", "greater_than", "less_equal", "less_than",
    "logsumexp", "make_complex", "max", "maximum", "min", "minimum", "mod", "round",
    "squared_norm", "trunc",
}  # fmt: skip


def test_rows_without_complex_numbers_are_those_that_order_them():
    from proa.schema import ROWS

    without = {
        row.name
        for row in ROWS.values()
        if "float32" in row.dtypes and "complex64" not in row.dtypes
        and row.family not in REAL_ALONE
    }  # fmt: skip
    assert without == ORDERED
