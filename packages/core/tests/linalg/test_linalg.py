"""`proa.linalg` against NumPy and SciPy; gradients against finite differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import proa
from proa import linalg
from proa.errors import InvalidArgumentError, ShapeError

RNG = np.random.default_rng(11)
DTYPES = ["float32", "float64", "complex64", "complex128"]
LOOSE = {"float32": 2e-4, "complex64": 2e-4}


def draw(*shape: int, dtype: str = "float64") -> np.ndarray:
    a = RNG.normal(size=shape)
    if dtype.startswith("complex"):
        a = a + 1j * RNG.normal(size=shape)
    return a.astype(dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def positive(*shape: int, dtype: str = "float64") -> np.ndarray:
    a = draw(*shape, dtype=dtype)
    return (a @ adjoint(a) + np.eye(shape[-1])).astype(dtype)


def close(got: Any, want: Any, dtype: str = "float64") -> None:
    tolerance = LOOSE.get(dtype, 1e-9)
    np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 5), (1, 1), (0, 2, 2)])
def test_cholesky(dtype: str, shape: tuple[int, ...]):
    a = positive(*shape, dtype=dtype)
    close(linalg.cholesky(proa.to_tensor(a)), np.linalg.cholesky(a), dtype)
    upper = proa.cholesky(proa.to_tensor(a), upper=True)
    close(upper, adjoint(np.linalg.cholesky(a)), dtype)
    b = draw(*shape[:-1], 2, dtype=dtype)
    for factor, flag in ((linalg.cholesky(proa.to_tensor(a)), False), (upper, True)):
        got = linalg.cholesky_solve(proa.to_tensor(b), factor, upper=flag)
        close(got, np.linalg.solve(a, b), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (2, 5, 3), (3, 5)])
def test_lu_and_its_parts(dtype: str, shape: tuple[int, ...]):
    a = draw(*shape, dtype=dtype)
    y, pivots, info = linalg.lu(proa.to_tensor(a), get_infos=True)
    p, low, up = linalg.lu_unpack(y, pivots)
    close(p @ low @ up, a, dtype)
    assert pivots.dtype == "int32" and int(info.sum()) == 0
    assert linalg.lu_unpack(y, pivots, unpack_ludata=False)[1] is None
    if len(shape) == 2:
        np.testing.assert_allclose(p.numpy(), scipy.linalg.lu(a)[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5), (3, 0), (0, 3, 3)])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr(dtype: str, shape: tuple[int, ...], mode: str):
    a = draw(*shape, dtype=dtype)
    got = linalg.qr(proa.to_tensor(a), mode)
    want = np.linalg.qr(a, mode)
    for g, w in zip(got, want, strict=True) if mode != "r" else [(got, want)]:
        close(g, w, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 6, 3), (3, 5), (1, 1), (0, 3, 3)])
@pytest.mark.parametrize("full", [False, True])
def test_svd(dtype: str, shape: tuple[int, ...], full: bool):
    a = draw(*shape, dtype=dtype)
    u, s, vh = linalg.svd(proa.to_tensor(a), full_matrices=full)
    want = np.linalg.svd(a, full_matrices=full)
    assert [u.shape, vh.shape] == [list(want[0].shape), list(want[2].shape)]
    close(s, want[1], dtype)
    k = s.shape[-1]
    close((u[..., :k] * proa.unsqueeze(s, -2)) @ vh[..., :k, :], a, dtype)


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("shape", [(5, 4), (4, 6), (4, 4)])
def test_svd_of_deficient_matrices(shape: tuple[int, int], rank: int):
    a = draw(shape[0], rank) @ draw(rank, shape[1])
    u, s, vh = linalg.svd(proa.to_tensor(a), full_matrices=True)
    close(u.t() @ u, np.eye(shape[0]))
    close(vh @ vh.t(), np.eye(shape[1]))
    close(s, np.linalg.svd(a)[1])
    assert int(linalg.matrix_rank(proa.to_tensor(a))) == rank


@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_larger_matrices(n: int, dtype: str):
    a = draw(n, n, dtype=dtype)
    h = a + adjoint(a)
    x = proa.to_tensor(a)
    close(linalg.svd(x)[1], np.linalg.svd(a)[1])
    close(linalg.eigvalsh(proa.to_tensor(h)), np.linalg.eigvalsh(h))
    w, v = linalg.eig(x)
    np.testing.assert_allclose(a @ v.numpy(), v.numpy() * w.numpy(), atol=1e-8)
    close(linalg.inv(x) @ x, np.eye(n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (1, 1), (0, 2, 2)])
def test_eigh(dtype: str, uplo: str, shape: tuple[int, ...]):
    a = draw(*shape, dtype=dtype)
    w, v = linalg.eigh(proa.to_tensor(a), uplo)
    close(w, np.linalg.eigh(a, uplo)[0], dtype)
    part = np.tril(a) if uplo == "L" else np.triu(a)
    whole = part + adjoint(part)
    own = np.eye(shape[-1])
    whole = whole * (1 - own) + np.real(part) * own
    close(
        (v * proa.unsqueeze(w, -2)) @ proa.to_tensor(adjoint(v.numpy())), whole, dtype
    )
    close(linalg.eigvalsh(proa.to_tensor(a), uplo), w.numpy(), dtype)


SPECIAL = {
    "rotation": [[0.0, -1.0], [1.0, 0.0]],
    "defective": [[2.0, 1.0], [0.0, 2.0]],
    "zeros": np.zeros((3, 3)),
    "permutation": np.roll(np.eye(5), 1, 0),
    "graded": np.diag([1e8, 1.0, 1e-8]) + np.triu(np.ones((3, 3)), 1),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_eigenvalues_of_special_matrices(name: str):
    a = np.array(SPECIAL[name])
    got = linalg.eigvals(proa.to_tensor(a)).numpy()
    want = np.linalg.eigvals(a).astype(complex)
    assert got.dtype == np.complex128
    for w in want:
        assert np.abs(got - w).min() <= 1e-7 * max(1, abs(w))
    vectors = linalg.eig(proa.to_tensor(a))[1].numpy()
    np.testing.assert_allclose(a @ vectors, vectors * got, atol=1e-7 * np.abs(a).max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions(dtype: str):
    a, b = draw(2, 1, 3, 3, dtype=dtype), draw(4, 3, 2, dtype=dtype)
    x, y = proa.to_tensor(a), proa.to_tensor(b)
    close(linalg.solve(x, y), np.linalg.solve(a, b), dtype)
    vector = draw(3, dtype=dtype)
    got = linalg.solve(x[0, 0], proa.to_tensor(vector))
    close(got, np.linalg.solve(a[0, 0], vector), dtype)
    for upper in (False, True):
        for transpose in (False, True):
            for unit in (False, True):
                got = linalg.triangular_solve(x[0, 0], y[0], upper, transpose, unit)
                want = scipy.linalg.solve_triangular(
                    a[0, 0], b[0], int(transpose), not upper, unit
                )
                np.testing.assert_allclose(got.numpy(), want, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 4, 4), (1, 1), (0, 2, 2)])
def test_inverses_and_determinants(dtype: str, shape: tuple[int, ...]):
    a = draw(*shape, dtype=dtype)
    x = proa.to_tensor(a)
    close(x.inverse(), np.linalg.inv(a), dtype)
    close(linalg.det(x), np.linalg.det(a), dtype)
    close(linalg.slogdet(x), np.stack(np.linalg.slogdet(a)), dtype)
    for n in (-3, -1, 0, 1, 2, 5):
        want = np.linalg.matrix_power(a.astype("complex128"), n)
        got = linalg.matrix_power(x, n).numpy()
        scale = np.abs(want).max(initial=1)
        np.testing.assert_allclose(
            got / scale, want / scale, atol=LOOSE.get(dtype, 1e-8)
        )


def test_errors_name_the_requirement():
    singular = proa.to_tensor([[1.0, 2.0], [2.0, 4.0]])
    for call in (linalg.inv, linalg.cond, lambda x: linalg.solve(x, x)):
        if call is linalg.cond:
            with pytest.raises(InvalidArgumentError, match="singular"):
                linalg.cond(singular, 1)
        else:
            with pytest.raises(InvalidArgumentError, match="one is singular"):
                call(singular)
    with pytest.raises(InvalidArgumentError, match=r"\[cholesky\] .*positive definite"):
        linalg.cholesky(proa.to_tensor([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(InvalidArgumentError, match=r"\[svd\] .*finite"):
        linalg.svd(proa.full([2, 2], float("nan")))
    with pytest.raises(ShapeError, match=r"\[det\] the last two axes"):
        linalg.det(proa.ones([2, 3]))
    with pytest.raises(ShapeError, match=r"\[solve\] y must have 2 rows"):
        linalg.solve(singular, proa.ones([3]))
    with pytest.raises(InvalidArgumentError, match=r"\[qr\] mode"):
        linalg.qr(singular, "full")
    assert float(linalg.det(singular)) == 0
    assert linalg.slogdet(singular).tolist() == [0, -np.inf]
    with pytest.raises(InvalidArgumentError, match="dtype must be one of"):
        linalg.inv(proa.ones([2, 2], "int32"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5)])
def test_pinv_and_lstsq(dtype: str, shape: tuple[int, ...]):
    a, b = draw(*shape, dtype=dtype), draw(*shape[:-1], 2, dtype=dtype)
    x, y = proa.to_tensor(a), proa.to_tensor(b)
    want = np.linalg.pinv(a)
    close(linalg.pinv(x), want, dtype)
    for driver in (None, "gels", "gelsy", "gelsd", "gelss"):
        z, left, rank, values = linalg.lstsq(x, y, driver=driver)
        close(z, want @ b, dtype)
        assert rank.numpy().min(initial=9) == min(shape[-2:])
        if shape[-2] > shape[-1]:
            close(left, (np.abs(a @ want @ b - b) ** 2).sum(-2), dtype)
        if driver == "gelsd":
            close(values, np.linalg.svd(a)[1], dtype)
    h = a @ adjoint(a)
    close(linalg.pinv(proa.to_tensor(h), 1e-4, hermitian=True) * 1e-2,
          np.linalg.pinv(h, 1e-4, hermitian=True) * 1e-2, dtype)  # fmt: skip


def test_matrix_rank_with_bounds():
    a = np.diag([1.0, 0.5, 1e-3])
    x = proa.to_tensor(np.stack([a, 2 * a]))
    assert linalg.matrix_rank(x).tolist() == [3, 3]
    assert linalg.matrix_rank(x, tol=0.7).tolist() == [1, 2]
    assert linalg.matrix_rank(x, proa.to_tensor([0.1, 1.5])).tolist() == [2, 1]
    assert linalg.matrix_rank(x, 0.7, hermitian=True).tolist() == [1, 2]


@pytest.mark.parametrize("shapes", [
    [(3, 4), (4, 2)], [(2, 9), (9, 3), (3, 7), (7, 1)], [(4,), (4, 3), (3,)],
    [(4,), (4, 2)], [(2, 4), (4, 5), (5,)],
])  # fmt: skip
def test_multi_dot(shapes: list[tuple[int, ...]]):
    parts = [draw(*s) for s in shapes]
    got = linalg.multi_dot([proa.to_tensor(p) for p in parts])
    close(got, np.linalg.multi_dot(parts))


@pytest.mark.parametrize("p", [None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"])
def test_cond(p: Any):
    a = draw(2, 3, 3)
    want = [np.linalg.cond(m, p) for m in a]
    close(linalg.cond(proa.to_tensor(a), p), want)


@pytest.mark.feature("L231")
def test_norms_and_how_they_differ_from_numpys():
    a = draw(2, 3, 4)
    x = proa.to_tensor(a)
    for p in (0, 1, 2, 3.5, np.inf, -np.inf):
        close(linalg.norm(x, p), np.linalg.norm(a.ravel(), p))
        close(linalg.norm(x, p, 1, True), np.linalg.norm(a, p, 1, True))
    # Over two axes: all elements of both, where NumPy has the operator norm.
    close(linalg.norm(x, np.inf, [1, 2]), np.abs(a).max((1, 2)))
    close(linalg.norm(x, 1, [1, 2]), np.abs(a).sum((1, 2)))
    close(linalg.norm(x, "fro", [1, 2]), np.linalg.norm(a, "fro", (1, 2)))
    close(linalg.norm(x, "nuc", [0, 2]), np.linalg.norm(a, "nuc", (0, 2)))
    close(linalg.norm(x, "nuc", [2, 0], True), np.linalg.norm(a, "nuc", (0, 2), True))
    assert "differs from `numpy.linalg.norm`" in (inspect.getdoc(proa.norm) or "")


def test_cov_and_corrcoef_as_numpy():
    a, f, w = draw(3, 6), RNG.integers(1, 4, 6), RNG.uniform(0.5, 2, 6)
    x = proa.to_tensor(a)
    close(linalg.cov(x), np.cov(a))
    close(linalg.cov(x, rowvar=False, ddof=False), np.cov(a, rowvar=False, ddof=0))
    close(linalg.cov(x[0]), np.cov(a[0]))
    got = linalg.cov(x, fweights=proa.to_tensor(f), aweights=proa.to_tensor(w))
    close(got, np.cov(a, fweights=f, aweights=w))
    close(linalg.cov(x, fweights=proa.to_tensor(f)), np.cov(a, fweights=f))
    close(linalg.corrcoef(x), np.corrcoef(a))
    close(linalg.corrcoef(x, rowvar=False), np.corrcoef(a, rowvar=False))
    c = draw(3, 6, dtype="complex128")
    close(linalg.cov(proa.to_tensor(c)), np.cov(c))


def test_householder_product_and_pca():
    a = draw(5, 3)
    (h, tau), _ = scipy.linalg.qr(a, mode="raw")
    got = linalg.householder_product(proa.to_tensor(np.asarray(h)), proa.to_tensor(tau))
    close(got, scipy.linalg.qr(a, mode="economic")[0])
    u, s, v = linalg.pca_lowrank(proa.to_tensor(a), q=2)
    want = np.linalg.svd(a - a.mean(0))[1][:2]
    close(s, want)
    assert u.shape == [5, 2] and v.shape == [3, 2]


# -- gradients -------------------------------------------------------------------------
def spread(x: proa.Tensor) -> proa.Tensor:
    """Hermitian, with eigenvalues well apart."""
    own = proa.to_tensor(np.diag(np.arange(3.0) * 3).astype(x.numpy().dtype))
    return x + proa.to_tensor([0.0]).astype(x.dtype) + adjoint_of(x) + own


def adjoint_of(x: proa.Tensor) -> proa.Tensor:
    y = proa.transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])
    return y.conj() if x.dtype.is_complex else y


def definite(x: proa.Tensor) -> proa.Tensor:
    return x @ adjoint_of(x) + proa.eye(x.shape[-1], dtype=x.dtype)


def own_phase(v: proa.Tensor) -> proa.Tensor:
    """What does not depend on the phases of columns."""
    return proa.abs(v) ** 2


GRADIENTS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "cholesky": (lambda x: linalg.cholesky(definite(x)), (2, 3, 3)),
    "cholesky upper": (lambda x: linalg.cholesky(definite(x), upper=True), (3, 3)),
    "cholesky_solve": (
        lambda x: linalg.cholesky_solve(x, linalg.cholesky(definite(x))), (3, 3)),
    "inv": (linalg.inv, (2, 3, 3)),
    "solve": (lambda x: linalg.solve(x, x[..., :2] ** 2), (2, 3, 3)),
    "triangular": (
        lambda x: linalg.triangular_solve(definite(x), x, True, True), (3, 3)),
    "det": (linalg.det, (2, 3, 3)),
    "slogdet": (lambda x: proa.stack(list(linalg.slogdet(x))), (2, 3, 3)),
    "lu": (lambda x: linalg.lu(x)[0], (3, 3)),
    "qr": (lambda x: proa.concat([own_phase(t) for t in linalg.qr(x)]), (3, 3)),
    "qr tall": (lambda x: linalg.qr(x)[0] @ linalg.qr(x)[1][:, :1], (4, 3)),
    "qr wide": (lambda x: own_phase(linalg.qr(x)[1]), (2, 4)),
    "eigvalsh": (lambda x: linalg.eigvalsh(spread(x)), (3, 3)),
    "eigh": (lambda x: own_phase(linalg.eigh(spread(x))[1]), (3, 3)),
    "svd values": (lambda x: linalg.svd(x)[1], (2, 4, 3)),
    "svd u": (lambda x: own_phase(linalg.svd(x)[0]), (4, 3)),
    "svd v": (lambda x: own_phase(linalg.svd(x)[2]), (2, 4)),
    "svd uv": (lambda x: linalg.svd(x)[0] @ linalg.svd(x)[2], (3, 3)),
    "eigvals": (lambda x: linalg.eigvals(x) ** 2, (3, 3)),
    "eig": (lambda x: own_phase(linalg.eig(x)[1]), (3, 3)),
    "pinv": (linalg.pinv, (4, 3)),
    "lstsq": (lambda x: linalg.lstsq(x, x[:, :1] ** 2, driver="gels")[0], (4, 3)),
    "matrix_power": (lambda x: linalg.matrix_power(x, -2), (3, 3)),
    "nuclear": (lambda x: linalg.norm(x, "nuc", [0, 1]), (3, 4)),
    "cond": (linalg.cond, (3, 3)),
    "cov": (linalg.cov, (2, 5)),
}  # fmt: skip


def value(f: Callable[..., Any], a: np.ndarray, weight: np.ndarray) -> float:
    with proa.no_grad():
        y = f(proa.to_tensor(a)).numpy()
    return float((y * weight).real.sum())


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_finite_differences(name: str, dtype: str):
    f, shape = GRADIENTS[name]
    if dtype == "complex128" and name in ("eigvals",):
        f = lambda x: linalg.eigvals(x) * linalg.eigvals(x)  # noqa: E731
    if dtype == "float64" and name == "eigvals":
        f = lambda x: linalg.eigvals(x).sum(axis=-1).real() + linalg.det(x)  # noqa: E731
    rng = np.random.default_rng(5)
    a = rng.normal(size=shape) + 2 * np.eye(*shape[-2:])
    direction = rng.normal(size=shape)
    if dtype == "complex128":
        a = a + 1j * rng.normal(size=shape)
        direction = direction + 1j * rng.normal(size=shape)
    x = proa.to_tensor(a, stop_gradient=False)
    y = f(x)
    weight = rng.normal(size=y.shape)
    h = 1e-6

    def slope(at: np.ndarray) -> tuple[Any, Any]:
        leaf = proa.to_tensor(at, stop_gradient=False)
        out = f(leaf) * proa.to_tensor(weight).astype(y.dtype)
        total = out.sum()
        total = total.real() if total.dtype.is_complex else total
        return leaf, proa.grad([total], [leaf], create_graph=True)[0]

    leaf, grad = slope(a)
    got = float((np.conj(grad.numpy()) * direction).real.sum())
    up, down = value(f, a + h * direction, weight), value(f, a - h * direction, weight)
    want = (up - down) / (2 * h)
    assert got == pytest.approx(want, rel=2e-5, abs=2e-5)
    # Once more: the gradient along the direction, differentiated.
    first = slope(a + h * direction)[1].numpy() - slope(a - h * direction)[1].numpy()
    want = float((np.conj(first) * direction).real.sum()) / (2 * h)
    along = grad * proa.to_tensor(
        np.conj(direction) if dtype != "float64" else direction
    )
    total = along.sum()
    total = total.real() if total.dtype.is_complex else total
    if total.stop_gradient:
        assert want == pytest.approx(0, abs=1e-4)
        return
    second = proa.grad([total], [leaf], allow_unused=True)[0]
    got = 0.0
    if second is not None:
        got = float((np.conj(second.numpy()) * direction).real.sum())
    assert got == pytest.approx(want, rel=1e-4, abs=1e-4)


def test_the_gradient_of_a_singular_determinant_is_its_cofactors():
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    x = proa.to_tensor(a, stop_gradient=False)
    linalg.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), [[4, -2], [-2, 1]], atol=1e-12)


def test_equal_values_leave_gradients_finite():
    x = proa.to_tensor(np.eye(3), stop_gradient=False)
    (linalg.svd(x)[1].sum() + linalg.eigvalsh(x).sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.eye(3), atol=1e-12)


def test_recorded_programs_equal_eager():
    def run(x: Any, y: Any) -> Any:
        z = linalg.solve(definite(x), y)
        return z, linalg.svd(x)[1], linalg.eigvalsh(definite(x)), linalg.det(x)

    x, y = proa.to_tensor(draw(2, 3, 3)), proa.to_tensor(draw(2, 3, 1))
    static = proa.jit.to_static(run)
    with proa.no_grad():
        for got, want in zip(static(x, y), run(x, y), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-9)
