"""Memory-bound kernels at sizes of their fast paths, whole and with remainders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa._core import ops

from ..threads import results_by_threads

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


#: Rows side by side (axis not last): few and many, whole vectors and remainders.
COLUMNS = [((5, 16), 0), ((3, 7, 19), 1), ((2, 3, 9, 40), 1), ((700, 300), 0)]
#: So long that no strip of them stays in the cache: whole steps of rows and some left.
COLUMNS += [((1024, 32), 0), ((2, 1029, 41), 1), ((1031, 530), 0)]


@pytest.mark.parametrize(("shape", "axis"), COLUMNS)
def test_softmax_of_columns(shape, axis):
    x, dy = normal(*shape), normal(*shape)
    y = softmax(x.astype(np.float64), axis)
    close: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-6}
    a, d = proa.to_tensor(x), proa.to_tensor(dy)
    np.testing.assert_allclose(ops.softmax(a, axis=axis).numpy(), y, **close)
    got = ops.log_softmax(a, axis=axis)
    np.testing.assert_allclose(got.numpy(), np.log(y), **close)
    s = proa.to_tensor(y.astype(np.float32))
    want = y * (dy - (dy * y).sum(axis, keepdims=True))
    np.testing.assert_allclose(ops.softmax_grad(d, s, axis=axis).numpy(), want, **close)
    back = ops.log_softmax_grad(d, got, axis=axis).numpy()
    want = dy - y * dy.sum(axis, keepdims=True)
    np.testing.assert_allclose(back, want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("rows", [6, 1030])
def test_softmax_of_columns_keeps_to_its_column(rows):
    x = normal(rows, 40)
    x[2, 7], x[:, 11], x[3, 13] = np.nan, -np.inf, np.inf
    x[:-1, 17], x[:, 19], x[:, 23] = -np.inf, x[:, 19] + 3e4, x[:, 23] - 3e4
    y = ops.softmax(proa.to_tensor(x), axis=0).numpy()
    bad = np.isnan(y).all(0)
    np.testing.assert_array_equal(np.flatnonzero(bad), [7, 11, 13])
    clean = np.delete(x, [7, 11, 13], 1)
    np.testing.assert_allclose(
        np.delete(y, [7, 11, 13], 1), softmax(clean, 0), rtol=1e-5
    )
    few = ops.softmax(proa.to_tensor(x[:, 16:32].copy()), axis=0).numpy()
    np.testing.assert_array_equal(y[:, 16:32], few)


@pytest.mark.parametrize("rows", [5, 8, 1030])
def test_logsumexp_of_columns(rows):
    x = normal(3, rows, 40) * 4
    x[:, :, 1] += 500
    x[:, :, 2] = np.linspace(-500, 500, rows)
    x[:, :, 3], x[:, rows // 2, 4], x[:, 0, 5] = -np.inf, np.inf, np.nan
    x[:, 0, 6] = -np.inf
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        peak = np.where(np.isfinite(wide.max(1)), wide.max(1), 0)
        want = np.log(np.exp(wide - peak[:, None]).sum(1)) + peak
    want[:, 4] = np.inf
    got = ops.logsumexp(proa.to_tensor(x), axis=[1]).numpy()
    np.testing.assert_allclose(got, want, rtol=5e-7, atol=5e-7)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((7, 63), 1), ((3, 5000), 1), ((40, 300), 0), ((2, 9, 17), 1), ((2, 9, 5), 1)],
)
@pytest.mark.parametrize("special", [None, 0.0, np.inf, np.nan])
def test_where_an_axis_is_extreme(shape, axis, special):
    x = np.rint(normal(*shape) * 40)  # many are equal: the first counts
    flat = np.moveaxis(x, axis, -1)
    if special is not None:
        for at in RNG.integers(0, shape[axis], 3):
            flat[..., 1::2, at] = special
    for name, want in (("argmax", np.argmax), ("argmin", np.argmin)):
        got = getattr(ops, name)(proa.to_tensor(x), axis=axis).numpy()
        np.testing.assert_array_equal(got, want(x, axis))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((1000,), 0), ((3, 517), 1), ((70, 40), 0), ((4, 9, 300), 1)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_running_sums(shape, axis, reverse, dtype):
    x = (normal(*shape) * 10).astype(dtype)
    flipped = np.flip(x, axis) if reverse else x
    want = np.cumsum(flipped, axis, dtype=np.float64)
    want = np.flip(want, axis) if reverse else want
    got = ops.cumsum(proa.to_tensor(x), axis=axis, reverse=reverse).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5)


def test_running_products_of_columns():
    x = normal(9, 40)
    got = ops.cumprod(proa.to_tensor(x), axis=0).numpy()
    np.testing.assert_allclose(got, np.cumprod(x, 0, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "complex128"])
def test_reading_along_an_axis(index_dtype, dtype):
    x = (normal(7, 50) * 10).astype(dtype)
    index = RNG.integers(-50, 50, (7, 33)).astype(index_dtype)
    for a, i, axis in ((x, index, 1), (x.T.copy(), index.T.copy(), 0)):
        got = ops.take_along_axis(proa.to_tensor(a), proa.to_tensor(i), axis=axis)
        np.testing.assert_array_equal(got.numpy(), np.take_along_axis(a, i, axis))


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("wrong", [50, -51, 2**31 - 1])
@pytest.mark.parametrize("at", [(0, 0), (3, 700), (39, 1299)])
def test_no_index_beyond_an_axis_is_read(index_dtype, wrong, at):
    x, index = normal(40, 50), RNG.integers(-50, 50, (40, 1300)).astype(index_dtype)
    index[at] = wrong
    for a, i, axis in ((x, index, 1), (x.T.copy(), index.T.copy(), 0)):
        with pytest.raises(IndexError):
            ops.take_along_axis(proa.to_tensor(a), proa.to_tensor(i), axis=axis)


@pytest.mark.parametrize("rows", [3, 2000])
def test_adding_along_an_axis(rows):
    dy = normal(rows, 33)
    index = RNG.integers(-50, 50, (rows, 33))
    want = np.zeros((rows, 50))
    np.add.at(want, (np.arange(rows)[:, None], index % 50), dy)
    like = proa.zeros([rows, 50])
    got = ops.take_along_axis_grad(
        proa.to_tensor(dy), proa.to_tensor(index), like, axis=1
    )
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "shape", [(16, 16), (32, 48), (35, 41), (70, 5), (130, 67), (150, 1030), (520, 129)]
)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_transposed_copies(shape, dtype):
    x = (normal(*shape) * 10).astype(dtype)
    for a in (x, np.stack([x, x[::-1]])):
        t = proa.to_tensor(a)
        perm = [*range(a.ndim - 2), a.ndim - 1, a.ndim - 2]
        got = ops.assign(ops.transpose(t, perm=perm).contiguous()).numpy()
        np.testing.assert_array_equal(got, np.swapaxes(a, -1, -2))


#: Just beyond the size from which on copies go past the caches (6 MB): lines that begin
#: at one column of all rows and at any, long and short rows; and a size just below it.
BEYOND = [(1536, 1040), (1543, 1051), (40, 40000), (45000, 35), (99000, 16)]
BEYOND += [(1536, 1008)]


@pytest.mark.parametrize("shape", BEYOND)
@pytest.mark.parametrize(
    "dtype", ["uint8", "float16", "float32", "float64", "complex128"]
)
def test_transposed_copies_beyond_the_caches(shape, dtype):
    rows, columns = shape[0] * 4 // np.dtype(dtype).itemsize, shape[1]
    x = RNG.integers(0, 256, (rows, columns * np.dtype(dtype).itemsize), np.uint8)
    x = x.view(dtype)
    got = ops.assign(ops.transpose(proa.to_tensor(x), perm=[1, 0])).contiguous()
    bits = x.view(f"V{x.itemsize}")
    np.testing.assert_array_equal(got.numpy().view(bits.dtype), bits.T)


@pytest.mark.parametrize(("head", "tail"), [(0, 0), (1, 0), (0, 3), (5, 2), (16, 16)])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_slices_transposed_out_of_cache(head, tail, dtype):
    """Sources and results that begin anywhere in a line, of several ranks."""
    x = RNG.integers(-9999, 9999, (5, 600, 1312)).astype(dtype)
    t, part = proa.to_tensor(x), slice(head, x.shape[2] - tail)
    a, v = t[:, :, part], x[:, :, part]
    for perm in ([0, 2, 1], [2, 0, 1], [2, 1, 0], [1, 2, 0]):
        got = ops.transpose(a, perm=perm).contiguous()
        np.testing.assert_array_equal(got.numpy(), v.transpose(perm))
    deep, w = t.reshape([5, 20, 30, 41, 32]), x.reshape(5, 20, 30, 41, 32)
    got = ops.transpose(deep[:, 1:], perm=[3, 0, 4, 2, 1]).contiguous()
    np.testing.assert_array_equal(got.numpy(), w[:, 1:].transpose(3, 0, 4, 2, 1))


@pytest.mark.parametrize("at", [0, 1, 7, 16, 33])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_transposed_copies_into_slices(at, dtype):
    """Rows of the result begin and end within those of another array."""
    for width in (1120, 1087):
        x, edge = normal(2080, 1600).astype(dtype), normal(1600, at).astype(dtype)
        rest = normal(1600, width - at).astype(dtype)
        transposed_view = ops.transpose(proa.to_tensor(x), perm=[1, 0])
        parts = [proa.to_tensor(edge), transposed_view, proa.to_tensor(rest)]
        got = ops.concat(*parts, axis=1).numpy()
        np.testing.assert_array_equal(got, np.concatenate([edge, x.T, rest], 1))


@pytest.mark.parametrize("shape", [(3, 5), (1, 4), (0, 3), (40, 33, 7)])
def test_contiguous_tensors_are_dense_rows(shape):
    x = normal(*shape)
    t = proa.to_tensor(x, stop_gradient=False)
    perm = [*range(1, x.ndim), 0]
    y = ops.transpose(t, perm=perm).contiguous()
    assert y.is_contiguous()
    np.testing.assert_array_equal(y.numpy(), x.transpose(perm))
    weight = normal(*y.shape)
    (dx,) = proa.grad([(y * proa.to_tensor(weight)).sum()], [t])
    np.testing.assert_array_equal(dx.numpy(), weight.transpose(np.argsort(perm)))


@pytest.mark.parametrize("width", [1, 15, 64, 130, 1100, 9000])
def test_logsumexp_of_rows(width):
    x = normal(9, width) * 4
    x[1] += 500
    x[2] -= 500
    x[3], x[4, width // 2] = -np.inf, np.inf
    x[5, width // 3] = np.nan
    x[6, 0] = -np.inf
    x[7], x[8, : width // 2] = np.linspace(-300, 300, width), -np.inf
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        peak = np.where(np.isfinite(wide.max(1)), wide.max(1), 0)
        want = np.log(np.exp(wide - peak[:, None]).sum(1)) + peak
    want[4] = np.inf
    got = ops.logsumexp(proa.to_tensor(x), axis=[1]).numpy()
    np.testing.assert_allclose(got, want, rtol=3e-7, atol=3e-7)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ([1, 2, 3], [3, 2, 1]),
        ([0, 4, 0], [0, 0, 5]),
        ([-1, 2, -2], [1, -2, 3]),
        ([-4, 5, 1], [6, 1, 1]),  # nothing of the first axis is left
    ],
)
def test_constant_padding(low, high):
    x = normal(4, 5, 6)
    parts = zip(x.shape, low, high, strict=True)
    cut = x[tuple(slice(max(0, -a), max(0, n + min(0, b))) for n, a, b in parts)]
    wide = [(max(0, a), max(0, b)) for a, b in zip(low, high, strict=True)]
    if cut.size:
        want = np.pad(cut, wide, constant_values=7)
    else:
        sums = zip(x.shape, low, high, strict=True)
        want = np.full([n + a + b for n, a, b in sums], 7)
    got = ops.pad(proa.to_tensor(x), low, high, value=7).numpy()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("size", [(70, 130), (530, 140)])  # of a block, of several
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex128"])
def test_sums_of_transposed_arrays(dtype, size):
    rows, columns = size
    a, b = normal(3, rows, columns), normal(3, columns, rows)
    row = normal(columns)
    a, b, row = (np.rint(v * 8) for v in (a, b, row))  # exact in 16 bits
    x, y, z = (proa.to_tensor(v).astype(dtype) for v in (a, b, row))
    swapped = ops.transpose(y, perm=[0, 2, 1])
    want = a + np.swapaxes(b, 1, 2)

    def values(t: Any) -> np.ndarray:
        wide = "complex128" if dtype == "complex128" else "float64"
        return t.astype(wide).numpy()

    np.testing.assert_array_equal(values(x + swapped), want)
    np.testing.assert_array_equal(values(swapped - z), np.swapaxes(b, 1, 2) - row)
    twisted = ops.transpose(y, perm=[2, 1, 0])  # dense along the first axis
    both = ops.transpose(x, perm=[1, 2, 0]) + twisted
    np.testing.assert_array_equal(
        values(both), a.transpose(1, 2, 0) + b.transpose(2, 1, 0)
    )
    ops.add_(x, swapped)
    np.testing.assert_array_equal(values(x), want)


#: Parts of a megabyte and more, which is copied with an eye on memory: rows longer and
#: shorter than the prefetch distance, of odd lengths and places.
PARTS = [((600, 4001), (0, 3)), ((5000, 130), (7, 9)), ((40000, 19), (2, 1))]


@pytest.mark.parametrize(("shape", "cut"), PARTS)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_large_copies(shape, cut, dtype):
    x = (normal(*shape) * 50).astype(dtype)
    t = proa.to_tensor(x)
    np.testing.assert_array_equal(ops.assign(t).numpy(), x)
    part = (slice(3, None), slice(cut[0], shape[1] - cut[1]))
    np.testing.assert_array_equal(ops.assign(t[part]).numpy(), x[part])
    both = ops.concat(t, t[:, 1:], axis=1).numpy()
    np.testing.assert_array_equal(both, np.concatenate([x, x[:, 1:]], 1))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex128"])
def test_large_fills(dtype):
    got = ops.full(shape=[1, 1103, 1009], value=3, dtype=dtype).numpy()
    np.testing.assert_array_equal(got, np.full((1, 1103, 1009), 3, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("width", [7, 8, 9, 20, 47, 48, 50])
def test_sums_of_short_rows_of_wider_arrays(width, dtype):
    wide = normal(90, width + 5).astype(dtype)
    bias = normal(width).astype(dtype)
    column = normal(90, 1).astype(dtype)
    x = proa.to_tensor(wide)[:, 2 : width + 2]
    y = wide[:, 2 : width + 2]
    for other in (bias, column, y):
        want = (y.astype(np.float32) + other.astype(np.float32)).astype(dtype)
        got = x + (x if other is y else proa.to_tensor(other))
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("width", [3, 40, 1500])
def test_rows_by_number(width):
    table, rows = normal(60, width), RNG.integers(0, 60, 700)
    t, i = proa.to_tensor(table), proa.to_tensor(rows)
    got = ops.embedding(i, t, padding_idx=int(rows[5])).numpy()
    used = np.where((rows == rows[5])[:, None], 0, table[rows])
    np.testing.assert_array_equal(got, used)
    np.testing.assert_array_equal(ops.gather(t, i, axis=0).numpy(), table[rows])
    across = proa.to_tensor(np.ascontiguousarray(table.T))
    got = ops.gather(across, i, axis=1).numpy()
    np.testing.assert_array_equal(got, table.T[:, rows])
    dy = normal(700, width)
    want = np.zeros((60, width))
    np.add.at(want, rows, dy)
    got = ops.gather_grad(proa.to_tensor(dy), i, t, axis=0).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    want[rows[5]] = 0
    got = ops.embedding_grad(i, proa.to_tensor(dy), t, padding_idx=int(rows[5])).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [7, 64, 300, 1003])
def test_cross_entropy_does_not_depend_on_the_layout(width):
    x, label = normal(20, width), proa.to_tensor(RNG.integers(0, width, 20))
    rows = proa.to_tensor(x)
    across = ops.transpose(proa.to_tensor(np.ascontiguousarray(x.T)), perm=[1, 0])
    got = ops.softmax_cross_entropy(label, rows).numpy()
    wide = x.astype(np.float64)
    want = np.log(np.exp(wide).sum(1)) - wide[np.arange(20), label.numpy()]
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(got, ops.softmax_cross_entropy(label, across).numpy())
    dloss, mark = proa.to_tensor(normal(20)), {"ignore_index": -100}
    slope = ops.softmax_cross_entropy_grad(label, dloss, rows, **mark).numpy()
    other = ops.softmax_cross_entropy_grad(label, dloss, across, **mark).numpy()
    np.testing.assert_array_equal(slope, other)
    one = np.eye(width)[label.numpy()]
    want = (softmax(wide, 1) - one) * dloss.numpy()[:, None]
    np.testing.assert_allclose(slope, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout_of_neighbours_draws_as_of_others(p):
    x = normal(37, 1001)
    key: dict[str, Any] = {"p": p, "seed": 3, "offset": 5}
    across = ops.transpose(proa.to_tensor(np.ascontiguousarray(x.T)), perm=[1, 0])
    got = ops.dropout(proa.to_tensor(x), **key).numpy()
    np.testing.assert_array_equal(got, ops.dropout(across, **key).numpy())
    assert abs((got == 0).mean() - p) < 0.01


CALLS: dict[str, Callable[[Any], Any]] = {
    "gelu": lambda x: ops.gelu(x),
    "pow": lambda x: ops.pow(ops.abs(x), x),
    "softmax columns": lambda x: ops.softmax(x, axis=0),
    "log_softmax columns": lambda x: ops.log_softmax(x, axis=0),
    "softmax rows": lambda x: ops.softmax(x, axis=1),
    "cumsum rows": lambda x: ops.cumsum(x, axis=1),
    "cumsum columns": lambda x: ops.cumsum(x, axis=0),
    "softmax long columns": lambda x: ops.softmax(x.reshape([2310, 100]), axis=0),
    "argmax columns": lambda x: ops.argmax(x, axis=0),
    "logsumexp columns": lambda x: ops.logsumexp(x, axis=[0]),
    "dropout": lambda x: ops.dropout(x, p=0.4, seed=1, offset=2),
    "logsumexp": lambda x: ops.logsumexp(x, axis=[1]),
    "layer_norm": lambda x: ops.layer_norm(x, x[0], x[1], axes=1)[0],
    "transpose": lambda x: x.t().contiguous(),
    "transpose beyond the caches": lambda x: x.tile([4, 2]).t().contiguous(),
    "pad": lambda x: ops.pad(x, [3, 4], [5, 6]),
    "sum across": lambda x: x + ops.transpose(x.reshape([330, 700]), perm=[1, 0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_do_not_depend_on_the_thread_count(name):
    x = proa.to_tensor(normal(700, 330))
    results = results_by_threads(lambda: CALLS[name](x).numpy())
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
