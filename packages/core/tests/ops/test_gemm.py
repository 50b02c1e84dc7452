"""Matrix products on every path: within the bound of their rounding, and
the same bits for a row alone, for any number of threads and for packed weights."""

import numpy as np
import pytest

import proa
from proa.nn import functional as F

from ..threads import results_by_threads

RNG = np.random.default_rng(3)
UNIT = {
    "float32": 2.0**-24,
    "float64": 2.0**-53,
    "bfloat16": 2.0**-9,
    "float16": 2.0**-11,
}
DTYPES = list(UNIT)
# Few steps and many blocks of them; narrow, whole and several panels of columns.
SHAPES = [
    (3, 5, 7),
    (1, 900, 130),
    (5, 450, 90),
    (13, 800, 1000),
    (16, 400, 70),
    (17, 384, 33),
    (27, 410, 1063),
    (30, 770, 96),
    (43, 390, 530),
    (64, 64, 64),
    (50, 400, 130),
    (64, 770, 200),
    (65, 390, 300),
    (70, 130, 400),
    (96, 390, 333),
    (150, 500, 700),
    (200, 3, 1),
]


def stored(dtype, transposed, *shape):
    """A tensor of that shape, its last two axes transposed in memory on request."""
    if transposed:
        transposed_view = stored(dtype, False, *shape[:-2], shape[-1], shape[-2])
        axes = list(range(len(shape)))
        return transposed_view.transpose([*axes[:-2], axes[-1], axes[-2]])
    drawn = RNG.standard_normal(shape).astype("float32")
    return proa.to_tensor(drawn).astype(dtype)


def exact(x):
    return x.astype("float64").numpy()


def check(got, x, y):
    """Each sum of k products is within k + 2 roundings of the sum of magnitudes."""
    a, b, dtype = exact(x), exact(y), got.dtype.name
    size = np.abs(a) @ np.abs(b)
    accumulated = UNIT["float64" if dtype == "float64" else "float32"]
    bound = (a.shape[-1] + 2) * accumulated * size + 2 * UNIT[dtype] * np.abs(a @ b)
    assert (np.abs(exact(got) - a @ b) <= bound).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed_view", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("shape", SHAPES)
def test_error_is_bounded(shape, transposed_view, dtype):
    m, k, n = shape
    x, y = (
        stored(dtype, transposed_view[0], m, k),
        stored(dtype, transposed_view[1], k, n),
    )
    check(proa.matmul(x, y), x, y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed_view", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_do_not_depend_on_other_rows(shape, transposed_view, dtype):
    m, k, n = shape
    x = stored(dtype, transposed_view[0], m, k)
    y = stored(dtype, transposed_view[1], k, n)
    bias = stored(dtype, False, 1, n).reshape([n])
    whole = exact(F.linear(x, y, bias))
    for begin, end in [(0, 1), (m // 3, m // 3 + 2), (0, min(m, 16)), (0, m - m // 4)]:
        part = exact(F.linear(x[begin:end], y, bias))
        np.testing.assert_array_equal(part, whole[begin:end])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed_view", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_columns_do_not_depend_on_other_columns(transposed_view, dtype):
    # Small products of every edge, against those that are done by blocks.
    x, y = (
        stored(dtype, transposed_view[0], 90, 70),
        stored(dtype, transposed_view[1], 70, 200),
    )
    whole = exact(proa.matmul(x, y))
    for rows in (1, 2, 3, 7, 8, 13):
        for columns in (1, 8, 15, 33, 60, 64):
            part = exact(proa.matmul(x[:rows], y[:, 5 : 5 + columns]))
            np.testing.assert_array_equal(part, whole[:rows, 5 : 5 + columns])


@pytest.mark.parametrize("shape", SHAPES)
def test_memory_order_does_not_matter(shape):
    m, k, n = shape
    x, y = stored("float32", False, m, k), stored("float32", False, k, n)
    transposed_x = proa.to_tensor(np.ascontiguousarray(x.numpy().T)).transpose([1, 0])
    transposed_y = proa.to_tensor(np.ascontiguousarray(y.numpy().T)).transpose([1, 0])
    want = proa.matmul(x, y).numpy()
    for a, b in [(transposed_x, y), (x, transposed_y), (transposed_x, transposed_y)]:
        np.testing.assert_array_equal(proa.matmul(a, b).numpy(), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed_view", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(
    ("batch", "shape"),
    [
        ((3, 5), (64, 48, 64)),
        ((40,), (7, 9, 5)),
        ((2, 2), (20, 400, 40)),
        ((9,), (1, 64, 30)),
        ((2, 7), (8, 8, 8)),
        ((3,), (3, 17, 49)),
        ((5,), (96, 96, 96)),
        ((6,), (28, 40, 40)),
        ((4,), (45, 33, 50)),
    ],
)
def test_batches(batch, shape, transposed_view, dtype):
    m, k, n = shape
    x = stored(dtype, transposed_view[0], *batch, m, k)
    y = stored(dtype, transposed_view[1], *batch, k, n)
    got = proa.matmul(x, y)
    check(got, x, y)
    last = tuple(size - 1 for size in batch)
    one = proa.matmul(x[last], y[last])
    np.testing.assert_array_equal(exact(one), exact(got)[last])


@pytest.mark.parametrize("heads", [1, 4])
def test_batches_of_heads_and_broadcast_axes(heads):
    # (batch, steps, heads, depth) as attention has it: no axis of a matrix is whole.
    q = stored("float32", False, 2, 30, heads, 16).transpose([0, 2, 1, 3])
    k = stored("float32", False, 2, 30, heads, 16).transpose([0, 2, 3, 1])
    check(proa.matmul(q, k), q, k)
    shared = stored("float32", False, 1, heads, 16, 12)
    check(proa.matmul(q, shared), q, shared)
    check(
        proa.matmul(shared.transpose([0, 1, 3, 2]), k),
        shared.transpose([0, 1, 3, 2]),
        k,
    )


@pytest.mark.parametrize("transposed_view", [0, 1])
@pytest.mark.parametrize("shape", [*SHAPES, (8, 1300, 2100), (300, 800, 500)])
def test_threads_change_nothing(shape, transposed_view):
    m, k, n = shape
    x, y = stored("float32", False, m, k), stored("float32", transposed_view, k, n)
    results = results_by_threads(lambda: proa.matmul(x, y).numpy())
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("transposed_view", [0, 1])
@pytest.mark.parametrize("shape", [(300, 8, 8, 8), (40, 30, 50, 70), (6, 150, 90, 110)])
def test_threads_change_nothing_in_batches(shape, transposed_view):
    batch, m, k, n = shape
    x = stored("float32", False, batch, m, k)
    y = stored("float32", transposed_view, batch, k, n)
    results = results_by_threads(lambda: proa.matmul(x, y).numpy())
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
