"""Products of complex matrices: within the bound of their rounding, the same bits for
every memory order, part of a batch and number of threads."""

import numpy as np
import pytest

import proa

from ..threads import results_by_threads

RNG = np.random.default_rng(5)
UNIT = {"complex64": 2.0**-24, "complex128": 2.0**-53}
SHAPES = [
    (1, 1, 1),
    (3, 5, 7),
    (1, 130, 40),
    (64, 64, 64),
    (37, 300, 50),
    (150, 210, 90),
]
ORDERS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def drawn(dtype, *shape):
    real, imaginary = RNG.standard_normal((2, *shape))
    return (real + 1j * imaginary).astype(dtype)


def stored(x, transposed):
    if not transposed:
        return proa.to_tensor(x)
    axes = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    return proa.to_tensor(np.ascontiguousarray(x.transpose(axes))).transpose(axes)


def check(got, x, y):
    """Each part is a sum of 2 k products."""
    error = np.abs(got - x.astype("clongdouble") @ y.astype("clongdouble"))
    roundings = 2 * x.shape[-1] + 2
    bound = 1.5 * roundings * UNIT[got.dtype.name] * (np.abs(x) @ np.abs(y))
    assert (error <= bound).all()


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("shape", SHAPES)
def test_error_is_bounded_and_memory_order_does_not_matter(shape, dtype):
    m, k, n = shape
    x, y = drawn(dtype, m, k), drawn(dtype, k, n)
    want = proa.matmul(proa.to_tensor(x), proa.to_tensor(y)).numpy()
    check(want, x, y)
    for transpose_x, transpose_y in ORDERS[1:]:
        got = proa.matmul(stored(x, transpose_x), stored(y, transpose_y)).numpy()
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("step", [2, 3])
def test_strided_views(step):
    x, y = drawn("complex64", 20, 15 * step), drawn("complex64", 15, 9 * step)
    a, b = proa.to_tensor(x)[:, ::step], proa.to_tensor(y)[:, ::step]
    check(proa.matmul(a, b).numpy(), x[:, ::step], y[:, ::step])


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("shape", [(8, 8, 8), (30, 200, 70)])
def test_batches(shape, orders, dtype):
    m, k, n = shape
    x, y = drawn(dtype, 3, 5, m, k), drawn(dtype, 5, k, n)
    a, b = stored(x, orders[0]), stored(y, orders[1])
    got = proa.matmul(a, b).numpy()
    check(got, x, y)
    np.testing.assert_array_equal(proa.matmul(a[2, 4], b[4]).numpy(), got[2, 4])
    shared = proa.matmul(a, b[4]).numpy()
    np.testing.assert_array_equal(shared[2, 4], got[2, 4])


def test_k_of_zero_returns_zeros():
    x, y = proa.zeros([3, 0], "complex64"), proa.zeros([0, 4], "complex64")
    np.testing.assert_array_equal(proa.matmul(x, y).numpy(), np.zeros((3, 4)))


def test_threads_change_nothing():
    x, y = (proa.to_tensor(drawn("complex64", 200, 200)) for _ in range(2))
    results = results_by_threads(lambda: proa.matmul(x, y).numpy())
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
