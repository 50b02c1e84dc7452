"""Arithmetic, functions of one tensor, reductions, products, logic: against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, InvalidTypeError, ShapeError

RNG = np.random.RandomState(0)
A = RNG.randn(2, 3, 4).astype(np.float32)
B = RNG.randn(3, 1).astype(np.float32)


def close(x: Any, expected: Any, tol: float = 1e-5) -> None:
    """x is near the array, and of its shape."""
    array = np.asarray(expected)
    assert list(x.shape) == list(array.shape)
    np.testing.assert_allclose(x.numpy(), array, rtol=tol, atol=tol)


@pytest.mark.parametrize(
    ("name", "ref"),
    [
        ("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply),
        ("divide", np.divide), ("maximum", np.maximum), ("minimum", np.minimum),
        ("floor_divide", np.floor_divide), ("remainder", np.mod), ("mod", np.mod),
        ("atan2", np.arctan2), ("fmax", np.fmax), ("fmin", np.fmin),
    ],
)  # fmt: skip
def test_two_tensors_broadcast(name: str, ref: Callable[..., Any]) -> None:
    x, y = proa.to_tensor(A), proa.to_tensor(B)
    close(getattr(proa, name)(x, y), ref(A, B))
    close(getattr(x, name)(y), ref(A, B))


def test_operators_and_python_numbers() -> None:
    x = proa.to_tensor(A)
    close(2 - x, 2 - A)
    close(x * 3 + 1, A * 3 + 1)
    close(1 / (x + 10), 1 / (A + 10))
    close(-x, -A)
    close(x**2, A**2)
    close(x % 2, A % 2)
    close(x // 2, A // 2)
    close(abs(x), np.abs(A))
    close(x @ proa.to_tensor(A[0].T), A @ A[0].T)


def test_the_name_may_be_given_by_position() -> None:
    x, y = proa.to_tensor([1.0, 4.0]), proa.to_tensor([2.0, 2.0])
    for name in (None, "sum"):
        assert proa.add(x, y, name).tolist() == [3.0, 6.0]
        assert x.multiply(y, name).tolist() == [2.0, 8.0]
        assert proa.sqrt(x, name).tolist() == [1.0, 2.0]
        assert proa.nn.functional.relu(x, name).tolist() == [1.0, 4.0]
    with pytest.raises(InvalidTypeError, match="at most 2 arguments"):
        proa.add(x, y, 3.0)


@pytest.mark.feature("L002", "L018", "L023")
def test_promotion() -> None:
    ints, floats = proa.ones([2], "int64"), proa.ones([2], "float32")
    flags = proa.to_tensor([True, False])
    assert (ints + 1).dtype == proa.int64
    assert (ints + 1.5).dtype == proa.float32
    assert (ints / 2).dtype == proa.float32
    assert (floats + 1).dtype == proa.float32
    assert (flags + floats).dtype == proa.float32
    assert (floats.astype("float16") * 2.5).dtype == proa.float16
    assert (-ints).tolist() == [-1, -1]
    assert (ints + floats).dtype == proa.float32


@pytest.mark.feature("L037")
def test_integer_powers_are_exact() -> None:
    x = proa.to_tensor([3, 7, 10])
    assert proa.pow(x, proa.to_tensor([33, 22, 18])).tolist() == [3**33, 7**22, 10**18]


@pytest.mark.feature("L025")
def test_gradients_reach_the_smaller_operand() -> None:
    for name in ("add", "subtract", "multiply", "divide"):
        x = proa.to_tensor(B[:, 0] + 3, stop_gradient=False)  # (3,)
        y = proa.to_tensor(np.abs(A[:, :, :3]) + 1, stop_gradient=False)  # (2, 3, 3)
        getattr(proa, name)(x, y).sum().backward()
        a, b = x.numpy(), y.numpy()
        ones = np.ones_like(b)
        dx, dy = {
            "add": (ones, ones),
            "subtract": (ones, -ones),
            "multiply": (b, a * ones),
            "divide": (1 / b, -a / b**2),
        }[name]
        close(x.grad, dx.sum((0, 1)))
        close(y.grad, dy)


UNARY = {
    "abs": np.abs, "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "exp": np.exp,
    "expm1": np.expm1, "floor": np.floor, "sign": np.sign, "sin": np.sin,
    "sinh": np.sinh, "square": np.square, "tan": np.tan, "tanh": np.tanh,
    "atan": np.arctan, "asinh": np.arcsinh, "round": np.round, "trunc": np.trunc,
    "neg": np.negative, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)), "frac": lambda a: a - np.trunc(a),
    "stanh": lambda a: 1.7159 * np.tanh(0.67 * a), "isnan": np.isnan,
    "isfinite": np.isfinite, "isinf": np.isinf, "logical_not": np.logical_not,
}  # fmt: skip
POSITIVE = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "acosh": np.arccosh,
    "reciprocal": lambda a: 1 / a,
}  # fmt: skip
UNIT = {
    "asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh,
    "logit": lambda a: np.log(a / (1 - a)),
}  # fmt: skip


@pytest.mark.feature("L017", how="figure")
@pytest.mark.parametrize("name", [*UNARY, *POSITIVE, *UNIT])
def test_functions_of_one_tensor_and_their_methods(name: str) -> None:
    table = {**UNARY, **POSITIVE, **UNIT}
    a = A
    if name in POSITIVE:
        a = np.abs(A) + 1
    elif name in UNIT:
        a = (np.abs(A) / 10 + 0.1).astype(np.float32)
    close(getattr(proa, name)(proa.to_tensor(a)), table[name](a), 1e-4)
    close(getattr(proa.to_tensor(a), name)(), table[name](a), 1e-4)


@pytest.mark.feature("L017", how="figure")
def test_there_are_more_than_120_methods() -> None:
    methods = [n for n in dir(proa.Tensor) if not n.startswith("_")]
    assert len(methods) > 120
    assert {"cos", "add", "reshape", "matmul", "argmax", "topk"} <= set(methods)


@pytest.mark.feature("L021")
def test_clip_takes_integers_floats_tensors_and_open_ends() -> None:
    a = np.array([-3, 0, 5])
    for kind in ("int32", "int64", "float32"):
        x = proa.to_tensor(a.astype(kind))
        close(proa.clip(x, -1, 2), np.clip(a, -1, 2))
        close(proa.clip(x, min=0), np.clip(a, 0, None))
        close(x.clip(max=0), np.clip(a, None, 0))
        assert proa.clip(x, -1, 2).dtype == kind
    close(
        proa.clip(proa.to_tensor(a), proa.to_tensor(-1), proa.to_tensor(2)), [-1, 0, 2]
    )


def test_linear_combinations() -> None:
    x, y = proa.to_tensor(A[0]), proa.to_tensor(A[1])
    close(proa.scale(x, 2.0, 1.0), A[0] * 2 + 1)
    close(proa.scale(x, 2.0, 1.0, bias_after_scale=False), (A[0] + 1) * 2)
    close(proa.add_n([x, y, x]), A[0] * 2 + A[1])
    close(proa.lerp(x, y, 0.25), A[0] + 0.25 * (A[1] - A[0]))
    m, n = A[0], A[1].T
    close(
        proa.addmm(proa.ones([3, 3]), x, y.t(), beta=0.5, alpha=2.0), 0.5 + 2 * (m @ n)
    )
    close(proa.cumsum(x, 1), np.cumsum(A[0], 1))
    close(proa.cumsum(x), np.cumsum(A[0]))
    close(proa.cumprod(x, 0), np.cumprod(A[0], 0))
    close(proa.diff(x), np.diff(A[0]))
    close(proa.trace(x), np.trace(A[0]))
    close(proa.kron(x[:2, :2], y[:1, :2]), np.kron(A[0, :2, :2], A[1, :1, :2]))
    close(proa.outer(x[0], y[1]), np.outer(A[0, 0], A[1, 1]))
    close(proa.inner(x, y), np.inner(A[0], A[1]))


def test_add_n_names_the_shape_it_rejects() -> None:
    with pytest.raises(ShapeError, match=r"every shape must be \[2\], got \(3,\)"):
        proa.add_n([proa.ones([2]), proa.ones([3])])


@pytest.mark.feature("L035")
def test_add_n_passes_over_none() -> None:
    close(proa.add_n([proa.ones([2]), None, proa.ones([2])]), [2, 2])


@pytest.mark.parametrize(
    ("a", "b"),
    [((4,), (4,)), ((2, 3), (3,)), ((3,), (3, 2)), ((5, 2, 3), (3, 4)),
     ((3,), (5, 3, 2)),
     ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (6, 3, 1))],
)  # fmt: skip
def test_matmul_by_rank(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = RNG.randn(*a).astype(np.float32), RNG.randn(*b).astype(np.float32)
    close(proa.matmul(proa.to_tensor(x), proa.to_tensor(y)), np.matmul(x, y))


def test_matmul_transposes() -> None:
    x, y = A, RNG.randn(5, 4).astype(np.float32)
    close(proa.matmul(proa.to_tensor(x), proa.to_tensor(y), transpose_y=True), x @ y.T)
    moved = proa.to_tensor(np.swapaxes(x, 1, 2).copy())
    close(proa.matmul(moved, proa.to_tensor(y.T.copy()), transpose_x=True), x @ y.T)
    close(proa.mm(proa.to_tensor(y), proa.to_tensor(y.T.copy())), y @ y.T)
    close(proa.bmm(proa.to_tensor(x), moved), x @ np.swapaxes(x, 1, 2))
    close(proa.dot(proa.to_tensor(y[0]), proa.to_tensor(y[1])), y[0] @ y[1])
    close(proa.mv(proa.to_tensor(y), proa.to_tensor(y[0])), y @ y[0])
    with pytest.raises(ShapeError, match="bmm"):
        proa.bmm(proa.ones([2, 3]), proa.ones([3, 2]))


REDUCTIONS = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod,
    "all": np.all, "any": np.any, "amax": np.max, "nansum": np.nansum,
    "nanmean": np.nanmean, "count_nonzero": np.count_nonzero,
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 1, -1, (0, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(name: str, axis: Any, keepdim: bool) -> None:
    ours = getattr(proa, name)(proa.to_tensor(A), axis=axis, keepdim=keepdim)
    expected = REDUCTIONS[name](A, axis=axis, keepdims=keepdim)  # type: ignore[operator]  # a table
    close(ours, expected)
    if axis is None and not keepdim:
        assert ours.shape == []


def test_spread_and_order_statistics() -> None:
    x = proa.to_tensor(A)
    close(proa.std(x), A.std(ddof=1))
    close(proa.var(x, 1, unbiased=False), A.var(1))
    close(x.std(axis=[0, 2]), A.std((0, 2), ddof=1))
    close(proa.median(x), np.median(A))
    close(proa.median(x, 1, keepdim=True), np.median(A, 1, keepdims=True))
    close(proa.logsumexp(x, 2), np.log(np.exp(A).sum(2)))
    assert proa.sum(proa.to_tensor([True, True])).item() == 2
    assert proa.sum(x, dtype="float64").dtype == proa.float64
    assert proa.numel(x).item() == 24


@pytest.mark.feature("L024")
@pytest.mark.parametrize(
    ("name", "ref"),
    [("equal", np.equal), ("not_equal", np.not_equal), ("less_than", np.less),
     ("less_equal", np.less_equal), ("greater_than", np.greater),
     ("greater_equal", np.greater_equal), ("logical_and", np.logical_and),
     ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)],
)  # fmt: skip
def test_comparison_broadcasts(name: str, ref: Callable[..., Any]) -> None:
    a, b = np.round(A), np.round(B)
    result = getattr(proa, name)(proa.to_tensor(a), proa.to_tensor(b))
    assert result.dtype == proa.bool
    np.testing.assert_array_equal(result.numpy(), ref(a, b))


def test_whole_tensors_compare() -> None:
    x = proa.to_tensor([1.0, float("nan"), float("inf")])
    y = proa.to_tensor([1.0 + 1e-7, float("nan"), float("inf")])
    assert proa.isclose(x, y).tolist() == [True, False, True]
    assert proa.allclose(x, y, equal_nan=True).item()
    assert not proa.allclose(x, y).item()
    assert proa.equal_all(y, y[:2]).item() is False
    assert proa.equal_all(proa.ones([2]), proa.ones([2])).item() is True
    assert proa.is_tensor(x)
    assert not proa.is_tensor(1)
    assert (
        proa.isclose(proa.to_tensor(1.0), proa.to_tensor(float("inf"))).item() is False
    )


#: The names since 2.0: clamp is clip, elementwise_equal is equal.
ADDED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "addmm": (lambda c, a, b: c + a @ b, (A[0, :, :3], A[0], A[1].T)),
    "bmm": (np.matmul, (A, A.transpose(0, 2, 1).copy())),
    "clip": (np.clip, (A, -0.5, 0.5)),
    "cross": (lambda a, b: np.cross(a, b), (A[0, :, :3], A[1, :, :3])),
    "dist": (lambda a, b: np.sqrt(((a - b) ** 2).sum()), (A[0], A[1])),
    "dot": (lambda a, b: (a * b).sum(), (A[0, 0], A[1, 0])),
    "log1p": (np.log1p, (np.abs(A),)),
    "logsumexp": (lambda a: np.log(np.exp(a).sum()), (A,)),
    "equal": (np.equal, (np.round(A), np.round(B))),
    "allclose": (np.allclose, (A, A + np.float32(1e-9))),
}


@pytest.mark.feature("L014", how="mechanism")
@pytest.mark.parametrize("name", ADDED)
def test_added_functions_follow_numpy(name: str) -> None:
    reference, given = ADDED[name]
    tensors = [proa.to_tensor(a) if isinstance(a, np.ndarray) else a for a in given]
    if name == "cross":  # Paddle takes the first axis of length 3, NumPy the last
        tensors.append(1)
    close(getattr(proa, name)(*tensors), reference(*given))


@pytest.mark.feature("L041")
def test_norms_and_distance() -> None:
    x, y = proa.to_tensor(A[0]), proa.to_tensor(A[1])
    close(proa.norm(x), np.linalg.norm(A[0]))
    close(proa.norm(x, p=1, axis=1), np.abs(A[0]).sum(1))
    close(proa.norm(x, p=np.inf), np.abs(A[0]).max())
    close(proa.norm(x, p=3, axis=0, keepdim=True), np.linalg.norm(A[0], 3, 0)[None])
    close(proa.dist(x, y, 2), np.linalg.norm(A[0] - A[1]))
    close(proa.dist(x, y, 0), 12.0)
    close(proa.cross(x[:, :3], y[:, :3], axis=1), np.cross(A[0, :, :3], A[1, :, :3]))
    p = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    proa.dist(p, proa.to_tensor([1.0, 2.0])).backward()
    np.testing.assert_array_equal(p.grad.numpy(), [0, 0])
    with pytest.raises(InvalidArgumentError, match="fro"):
        proa.norm(x, p="none")


def test_complex_parts() -> None:
    z = proa.complex(proa.to_tensor([1.0, 2.0]), proa.to_tensor([-1.0, 0.5]))
    assert z.dtype == proa.complex64
    close(proa.real(z), [1, 2])
    close(proa.imag(z), [-1, 0.5])
    close(proa.angle(z), np.angle([1 - 1j, 2 + 0.5j]))
    close(proa.abs(z), np.abs([1 - 1j, 2 + 0.5j]))


def test_medians_by_the_lesser_and_means_in_another_type() -> None:
    x = np.array([[5, 1, 4, 2], [9, 8, 7, 9]])
    t = proa.to_tensor(x)
    assert proa.median(t, mode="min").item() == 5
    assert proa.median(t, keepdim=True, mode="min").tolist() == [[5]]
    values, places = proa.median(t, 1, mode="min")
    assert values.tolist() == [2, 8] and places.tolist() == [3, 1]
    values, places = proa.median(t, 1, keepdim=True, mode="min")
    assert values.tolist() == [[2], [8]] and places.shape == [2, 1]
    with pytest.raises(InvalidArgumentError, match="'avg' or 'min', got 'max'"):
        proa.median(t, mode="max")
    mean = proa.mean(t, 0, dtype="float64")
    assert mean.dtype == "float64" and mean.tolist() == [7.0, 4.5, 5.5, 5.5]


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_the_unbiased_variance_of_one_number_is_undefined(axis: int | None):
    x = proa.to_tensor(3.0)
    for unbiased in (True, False):
        want = math.nan if unbiased else 0.0
        np.testing.assert_array_equal(proa.var(x, axis, unbiased).numpy(), want)
