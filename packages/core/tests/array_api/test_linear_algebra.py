"""Products of matrices, the extension `linalg`, and the extension `fft`."""

from __future__ import annotations

import math
from typing import Any

import drawn
import numpy as np
import pytest
from drawn import COMPLEX, FLOATS, NUMERIC
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import proa
from proa import array_api as xp
from proa.errors import InvalidArgumentError, ShapeError

SIZES = st.integers(0, 4)
BATCH = hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)


def matrices(data: Any, *shape: int, dtypes: Any = FLOATS) -> Any:
    """Batches of matrices of normal numbers of one dtype."""
    dtype = data.draw(st.sampled_from(dtypes))
    batch = data.draw(BATCH)
    noise = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    a = noise.normal(size=(*batch, *shape))
    if dtype in COMPLEX:
        a = a + 1j * noise.normal(size=a.shape)
    return a.astype(dtype)


def small(dtype: str) -> st.SearchStrategy[Any]:
    return st.integers(0, 3)


@drawn.SETTINGS
@given(data=st.data())
def test_matmul_agrees_with_numpy(data: Any) -> None:
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(
            signature=np.matmul.signature, max_dims=2, min_side=0, max_side=4
        )
    )
    dtype = data.draw(st.sampled_from(NUMERIC))
    a, b = (
        data.draw(drawn.arrays(dtype, shape, numbers=small(dtype)))
        for shape in shapes.input_shapes
    )
    for result in (xp.matmul(drawn.tensor(a), drawn.tensor(b)),
                   xp.linalg.matmul(drawn.tensor(a), drawn.tensor(b))):  # fmt: skip
        drawn.check(result, np.matmul(a, b), 4)
    if a.dtype.name not in ("uint8", "int8", "int16"):
        drawn.check(drawn.tensor(a) @ drawn.tensor(b), np.matmul(a, b), 4)


def test_products_of_narrow_integers_wrap() -> None:
    for dtype in ("uint8", "int8", "int16"):
        a = np.full((2, 300), 99, dtype)
        drawn.check(xp.matmul(drawn.tensor(a), drawn.tensor(a.T)), a @ a.T)
        with np.errstate(all="ignore"):
            drawn.check(xp.vecdot(drawn.tensor(a), drawn.tensor(a)), np.vecdot(a, a))


@drawn.SETTINGS
@given(data=st.data())
def test_tensordot_agrees_with_numpy(data: Any) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    shared = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    first, second = data.draw(BATCH), data.draw(BATCH)
    numbers = small(dtype)
    a = data.draw(drawn.arrays(dtype, (*first, *shared), numbers=numbers))
    b = data.draw(drawn.arrays(dtype, (*shared, *second), numbers=numbers))
    x, y = drawn.tensor(a), drawn.tensor(b)
    drawn.check(
        xp.tensordot(x, y, axes=len(shared)), np.tensordot(a, b, len(shared)), 4
    )
    order = data.draw(st.permutations(range(len(shared))))
    axes = ([len(first) + i for i in order], list(order))
    drawn.check(xp.linalg.tensordot(x, y, axes=axes), np.tensordot(a, b, axes), 4)


@drawn.SETTINGS
@given(data=st.data())
def test_vecdot_agrees_with_numpy(data: Any) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=3)
    )
    a, b = (
        data.draw(drawn.arrays(dtype, shape, numbers=small(dtype)))
        for shape in shapes.input_shapes
    )
    assume(a.shape[-1] == b.shape[-1])
    drawn.check(xp.vecdot(drawn.tensor(a), drawn.tensor(b)), np.vecdot(a, b), 4)
    if a.ndim == b.ndim and a.shape[0] == b.shape[0]:
        found = xp.linalg.vecdot(drawn.tensor(a), drawn.tensor(b), axis=-a.ndim)
        drawn.check(found, np.vecdot(a, b, axis=-a.ndim), 4)


def test_products_refuse_what_does_not_fit() -> None:
    x = xp.ones((2, 3))
    for call in (lambda: xp.matmul(x, xp.asarray(1.0)),
                 lambda: xp.vecdot(x, xp.ones(2)),
                 lambda: xp.tensordot(x, x, axes=((0,), (1,))),
                 lambda: xp.matrix_transpose(xp.ones(2))):  # fmt: skip
        with pytest.raises(ShapeError):
            call()
    with pytest.raises(InvalidArgumentError):
        xp.matmul(x, x)
    with pytest.raises(InvalidArgumentError, match=r"axes must be in \[0, 2\], got 3"):
        xp.tensordot(x, x, axes=3)


@drawn.SETTINGS
@given(data=st.data())
def test_decompositions_multiply_to_the_matrix(data: Any) -> None:
    m, n = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    a = matrices(data, m, n)
    x, k = drawn.tensor(a), min(m, n)
    eps = float(np.finfo(a.dtype).eps)
    for mode, inner in (("reduced", k), ("complete", m)):
        q, r = xp.linalg.qr(x, mode=mode)
        assert q.shape == (*a.shape[:-1], inner) and r.shape == (
            *a.shape[:-2],
            inner,
            n,
        )
        assert q.dtype == r.dtype == x.dtype
        np.testing.assert_allclose(xp.matmul(q, r).numpy(), a, atol=64 * eps)
        np.testing.assert_array_equal(r.numpy(), np.triu(r.numpy()))
    full = xp.linalg.svd(x)
    assert full.U.shape == (*a.shape[:-1], m) and full.Vh.shape == (*a.shape[:-2], n, n)
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    assert s.dtype == xp.real(x).dtype and u.dtype == vh.dtype == x.dtype
    expected = np.linalg.svdvals(a)
    for values in (s, full.S, xp.linalg.svdvals(x)):
        drawn.check(values, expected, 64, 64)
    product = (u.numpy() * s.numpy()[..., None, :]) @ vh.numpy()
    np.testing.assert_allclose(product, a, atol=64 * eps)


@drawn.SETTINGS
@given(data=st.data())
def test_square_matrices_agree_with_numpy(data: Any) -> None:
    n = data.draw(st.integers(1, 4))
    a = matrices(data, n, n) + 4 * np.eye(n)
    a = a.astype("complex64" if a.dtype == "complex64" else a.dtype)
    assume(not a.size or np.linalg.cond(a).max() < 50)
    x = drawn.tensor(a)
    drawn.check(xp.linalg.det(x), np.linalg.det(a), 4096, 4096)
    drawn.check(xp.linalg.inv(x), np.linalg.inv(a), 4096, 4096)
    found, expected = xp.linalg.slogdet(x), np.linalg.slogdet(a)
    assert found._fields == expected._fields
    drawn.check(found.sign, expected.sign, 4096, 256)
    drawn.check(found.logabsdet, expected.logabsdet, 4096, 256)
    for power in (-2, 0, 1, 3):
        drawn.check(
            xp.linalg.matrix_power(x, power), np.linalg.matrix_power(a, power),
            2**16, 2**16,
        )  # fmt: skip
    b = np.ones((n, 2), a.dtype)
    drawn.check(xp.linalg.solve(x, drawn.tensor(b)), np.linalg.solve(a, b), 4096, 4096)
    drawn.check(
        xp.linalg.solve(x, drawn.tensor(b[:, 0])), np.linalg.solve(a, b[:, 0]),
        4096, 4096,
    )  # fmt: skip


@drawn.SETTINGS
@given(data=st.data())
def test_hermitian_matrices_agree_with_numpy(data: Any) -> None:
    n = data.draw(st.integers(1, 4))
    a = matrices(data, n, n)
    a = (a @ np.conj(np.matrix_transpose(a)) + np.eye(n)).astype(a.dtype)
    x = drawn.tensor(a)
    drawn.check(xp.linalg.cholesky(x), np.linalg.cholesky(a), 512, 512)
    upper = xp.linalg.cholesky(x, upper=True)
    drawn.check(upper, np.linalg.cholesky(a, upper=True), 512, 512)
    found = xp.linalg.eigh(x)
    assert found._fields == ("eigenvalues", "eigenvectors")
    drawn.check(found.eigenvalues, np.linalg.eigvalsh(a), 512, 512)
    drawn.check(xp.linalg.eigvalsh(x), np.linalg.eigvalsh(a), 512, 512)
    values, vectors = (t.numpy() for t in found)
    np.testing.assert_allclose(
        a @ vectors, vectors * values[..., None, :],
        atol=2048 * float(np.finfo(a.dtype).eps),
    )  # fmt: skip


def test_cholesky_refuses_what_is_not_positive_definite() -> None:
    with pytest.raises(InvalidArgumentError):
        xp.linalg.cholesky(xp.asarray([[1.0, 2.0], [2.0, 1.0]]))


@drawn.SETTINGS
@given(data=st.data())
def test_rank_and_pseudoinverse_agree_with_numpy(data: Any) -> None:
    m, n = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    k = data.draw(st.integers(1, 2))
    a = matrices(data, m, n)
    assume(a.size)
    low = a[..., :k] @ np.conj(np.matrix_transpose(a[..., :1])) if k == 1 else a
    low = low.astype(a.dtype)
    values = np.linalg.svdvals(low)
    share = values / values[..., :1]
    assume(((share < 1e-12 if a.itemsize > 8 else share < 1e-6) | (share > 0.05)).all())
    x, rtol = drawn.tensor(low), 1e-3
    drawn.check(
        xp.linalg.matrix_rank(x, rtol=rtol), np.linalg.matrix_rank(low, rtol=rtol)
    )
    expected = np.linalg.pinv(low, rtol=rtol)
    drawn.check(xp.linalg.pinv(x, rtol=rtol), expected, 2**15, 2**15)
    each = xp.full(low.shape[:-2], rtol, dtype=xp.real(x).dtype)
    drawn.check(
        xp.linalg.pinv(x, rtol=each), np.linalg.pinv(low, rtol=rtol), 2**15, 2**15
    )
    drawn.check(
        xp.linalg.matrix_rank(x, rtol=each), np.linalg.matrix_rank(low, rtol=rtol)
    )


def test_defaults_of_rank_and_pseudoinverse_see_rounding_errors() -> None:
    noise = np.random.default_rng(3)
    for dtype in ("float32", "float64"):
        a = (noise.normal(size=(6, 2)) @ noise.normal(size=(2, 5))).astype(dtype)
        assert xp.linalg.matrix_rank(xp.asarray(a)).item() == 2
        eps = float(np.finfo(dtype).eps)
        wanted = np.linalg.pinv(a.astype("float64"), rcond=1e-5)
        np.testing.assert_allclose(
            xp.linalg.pinv(xp.asarray(a)).numpy(), wanted, atol=500 * eps
        )


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
@drawn.SETTINGS
@given(data=st.data(), keepdims=st.booleans())
def test_norms_of_matrices_agree_with_numpy(
    order: Any, data: Any, keepdims: bool
) -> None:
    a = matrices(data, data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4)))
    found = xp.linalg.matrix_norm(drawn.tensor(a), ord=order, keepdims=keepdims)
    expected = np.linalg.matrix_norm(a, ord=order, keepdims=keepdims)
    drawn.check(found, expected, 128, 64)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, -1, -2.5, math.inf, -math.inf])
@drawn.SETTINGS
@given(data=st.data(), keepdims=st.booleans())
def test_norms_of_vectors_agree_with_numpy(
    order: Any, data: Any, keepdims: bool
) -> None:
    a = matrices(data, 3)
    assume(a.size)
    axis = data.draw(st.none() | st.integers(-a.ndim, a.ndim - 1))
    if a.ndim > 1:
        axis = data.draw(st.just(axis) | hnp.valid_tuple_axes(a.ndim, min_size=1))
    options = {"axis": axis, "keepdims": keepdims, "ord": order}
    found = xp.linalg.vector_norm(drawn.tensor(a), **options)
    drawn.check(found, np.linalg.vector_norm(a, **options), 512, 64)


@drawn.SETTINGS
@given(data=st.data(), offset=st.integers(-5, 5))
def test_diagonals_and_traces_agree_with_numpy(data: Any, offset: int) -> None:
    shapes = hnp.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=4)
    a = data.draw(drawn.arrays(NUMERIC, shapes, numbers=st.integers(0, 9)))
    x = drawn.tensor(a)
    drawn.check(
        xp.linalg.diagonal(x, offset=offset), np.linalg.diagonal(a, offset=offset)
    )
    wide = "int64" if a.dtype.kind in "ui" else a.dtype
    expected = np.linalg.trace(a, offset=offset, dtype=wide)
    drawn.check(xp.linalg.trace(x, offset=offset), expected, 4)


@drawn.SETTINGS
@given(data=st.data())
def test_cross_and_outer_products_agree_with_numpy(data: Any) -> None:
    dtype = data.draw(st.sampled_from(NUMERIC))
    shapes = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, min_side=0)
    )
    numbers = small(dtype)
    a, b = (
        data.draw(drawn.arrays(dtype, (*shape, 3), numbers=numbers))
        for shape in shapes.input_shapes
    )
    x, y = drawn.tensor(a), drawn.tensor(b)
    drawn.check(xp.linalg.cross(x, y), np.linalg.cross(a, b), 4)
    if a.ndim == b.ndim:
        first = [np.moveaxis(t, -1, 0) for t in (a, b)]
        found = xp.linalg.cross(*map(drawn.tensor, first), axis=0)
        drawn.check(found, np.linalg.cross(*first, axis=0), 4)
    p, q = (data.draw(drawn.arrays(dtype, SIZES, numbers=numbers)) for _ in range(2))
    drawn.check(
        xp.linalg.outer(drawn.tensor(p), drawn.tensor(q)), np.linalg.outer(p, q)
    )


def test_linalg_refuses_what_does_not_fit() -> None:
    x = xp.ones((2, 3))
    for call in (lambda: xp.linalg.cross(x, xp.ones((2, 1))),
                 lambda: xp.linalg.outer(x, x), lambda: xp.linalg.inv(x),
                 lambda: xp.linalg.det(x), lambda: xp.linalg.diagonal(xp.ones(2)),
                 lambda: xp.linalg.matrix_norm(xp.ones(2))):  # fmt: skip
        with pytest.raises(ShapeError):
            call()
    for call in (lambda: xp.linalg.matrix_norm(x, ord=3),
                 lambda: xp.linalg.qr(x, mode="r")):  # fmt: skip
        with pytest.raises(InvalidArgumentError):
            call()


NORMS = st.sampled_from(("backward", "ortho", "forward"))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@drawn.SETTINGS
@given(data=st.data(), norm=NORMS)
def test_transforms_agree_with_numpy(name: str, data: Any, norm: Any) -> None:
    real = name in ("rfft", "ihfft")
    a = matrices(data, data.draw(st.integers(2, 7)),
                 dtypes=("float32", "float64") if real else COMPLEX)  # fmt: skip
    axis = data.draw(st.sampled_from([i for i, n in enumerate(a.shape) if n > 1]))
    n = data.draw(st.none() | st.integers(1, 9))
    options = {"n": n, "axis": axis - data.draw(st.sampled_from((0, a.ndim)))}
    found = getattr(xp.fft, name)(drawn.tensor(a), norm=norm, **options)
    drawn.check(found, getattr(np.fft, name)(a, norm=norm, **options), 256, 256)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@drawn.SETTINGS
@given(data=st.data(), norm=NORMS)
def test_transforms_of_several_axes_agree_with_numpy(
    name: str, data: Any, norm: Any
) -> None:
    dtypes = ("float32", "float64") if name == "rfftn" else COMPLEX
    a = matrices(data, 3, 4, dtypes=dtypes)
    assume(a.size)
    axes = data.draw(st.sampled_from([(-1,), (-2, -1), (-1, -2)]))
    sizes = data.draw(st.none() | st.tuples(*[st.integers(2, 5) for _ in axes]))
    found = getattr(xp.fft, name)(drawn.tensor(a), s=sizes, axes=axes, norm=norm)
    expected = getattr(np.fft, name)(a, s=sizes, axes=axes, norm=norm)
    drawn.check(found, expected, 512, 512)
    found = getattr(xp.fft, name)(drawn.tensor(a))
    drawn.check(found, getattr(np.fft, name)(a), 2048, 2048)


@drawn.SETTINGS
@given(data=st.data())
def test_shifts_of_frequencies_agree_with_numpy(data: Any) -> None:
    a = data.draw(drawn.arrays(NUMERIC, hnp.array_shapes(max_dims=3, max_side=4)))
    axes = data.draw(st.none() | hnp.valid_tuple_axes(a.ndim))
    for name in ("fftshift", "ifftshift"):
        found = getattr(xp.fft, name)(drawn.tensor(a), axes=axes)
        drawn.check(found, getattr(np.fft, name)(a, axes=axes))
    drawn.check(xp.fft.fftshift(drawn.tensor(a), axes=0), np.fft.fftshift(a, 0))
    assert xp.fft.fftshift(xp.asarray(3)).item() == 3


@drawn.SETTINGS
@given(n=st.integers(1, 20), d=st.floats(0.25, 4))
def test_frequencies_agree_with_numpy(n: int, d: float) -> None:
    for name in ("fftfreq", "rfftfreq"):
        expected = getattr(np.fft, name)(n, d).astype("float32")
        drawn.check(getattr(xp.fft, name)(n, d=d), expected, 4)


def test_a_program_of_the_standard_has_gradients() -> None:
    x = proa.to_tensor([[2.0, 1.0], [1.0, 3.0]], stop_gradient=False)
    names = x.__array_namespace__()
    names.sum(names.linalg.inv(x)).backward()
    inverse = np.linalg.inv([[2.0, 1.0], [1.0, 3.0]])
    # d sum(inv(x)) / dx = -inv(x)^T 1 inv(x)^T
    wanted = -inverse.T @ np.ones((2, 2)) @ inverse.T
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-5)
