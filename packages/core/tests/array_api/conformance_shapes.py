"""Cases of the array API about shapes: creation, indexing, manipulation, reductions.

Each is one expression of an array namespace `xp` and what nested lists it gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Namespace = Any
GRID = [[1, 2, 3], [4, 5, 6]]
CUBE = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
ROW = [3, 1, 2]

#: An expression of x = GRID, c = CUBE, r = ROW (int64), f = GRID (float64), and what it
#: is as nested lists.
EXPRESSIONS: dict[str, Any] = {
    # creation
    "xp.arange(3)": [0, 1, 2],
    "xp.arange(1, 7, 2)": [1, 3, 5],
    "xp.arange(5, 0, -2)": [5, 3, 1],
    "xp.arange(2, 2)": [],
    "xp.arange(0.0, 1.0, 0.25)": [0.0, 0.25, 0.5, 0.75],
    "xp.asarray(GRID)": GRID,
    "xp.asarray(x, copy=True)": GRID,
    "xp.asarray(True)": True,
    "xp.empty((2, 3)).shape": (2, 3),
    "xp.empty_like(x).shape": (2, 3),
    "xp.eye(2)": [[1.0, 0.0], [0.0, 1.0]],
    "xp.eye(2, 3, k=1)": [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "xp.eye(3, k=-2)": [[0.0] * 3, [0.0] * 3, [1.0, 0.0, 0.0]],
    "xp.full((2,), 7)": [7, 7],
    "xp.full((), True)": True,
    "xp.full_like(x, 2)": [[2] * 3] * 2,
    "xp.linspace(0.0, 1.0, 5)": [0.0, 0.25, 0.5, 0.75, 1.0],
    "xp.linspace(0.0, 1.0, 4, endpoint=False)": [0.0, 0.25, 0.5, 0.75],
    "xp.meshgrid(r, xp.arange(2))[0]": [ROW, ROW],
    "xp.meshgrid(r, xp.arange(2), indexing='ij')[1]": [[0, 1]] * 3,
    "xp.ones((2, 1), dtype=xp.int8)": [[1], [1]],
    "xp.ones_like(x)": [[1] * 3] * 2,
    "xp.tril(x)": [[1, 0, 0], [4, 5, 0]],
    "xp.triu(x, k=1)": [[0, 2, 3], [0, 0, 6]],
    "xp.zeros(3)": [0.0] * 3,
    "xp.zeros_like(x)": [[0] * 3] * 2,
    # indexing
    "x[0, 1]": 2,
    "x[-1]": [4, 5, 6],
    "x[:, ::-1]": [[3, 2, 1], [6, 5, 4]],
    "x[..., 0]": [1, 4],
    "x[None, 0]": [[1, 2, 3]],
    "x[1, 1:]": [5, 6],
    "x[:, xp.newaxis, 2]": [[3], [6]],
    "x[x > 2]": [3, 4, 5, 6],
    "c[..., 1, ::-1]": [[3, 2], [7, 6]],
    "x[1:1]": [],
    "r[-2:]": [1, 2],
    "c[1, ..., 0]": [4, 6],
    "xp.take(x, xp.asarray([2, 0]), axis=1)": [[3, 1], [6, 4]],
    "xp.take(r, xp.asarray([1]))": [1],
    # manipulation
    "xp.broadcast_to(r, (2, 3))": [ROW, ROW],
    "xp.broadcast_arrays(r, x)[0]": [ROW, ROW],
    "xp.concat([x, x])": GRID + GRID,
    "xp.concat([x, x], axis=1)": [row + row for row in GRID],
    "xp.concat([x, r], axis=None)": [1, 2, 3, 4, 5, 6, 3, 1, 2],
    "xp.expand_dims(r, axis=0)": [ROW],
    "xp.expand_dims(r, axis=-1)": [[3], [1], [2]],
    "xp.flip(x)": [[6, 5, 4], [3, 2, 1]],
    "xp.flip(x, axis=0)": [[4, 5, 6], [1, 2, 3]],
    "xp.moveaxis(c, 0, -1)": [[[0, 4], [1, 5]], [[2, 6], [3, 7]]],
    "xp.permute_dims(x, (1, 0))": [[1, 4], [2, 5], [3, 6]],
    "xp.repeat(r, 2)": [3, 3, 1, 1, 2, 2],
    "xp.repeat(x, xp.asarray([1, 0, 2]), axis=1)": [[1, 3, 3], [4, 6, 6]],
    "xp.reshape(x, (3, 2))": [[1, 2], [3, 4], [5, 6]],
    "xp.reshape(x, (-1,))": [1, 2, 3, 4, 5, 6],
    "xp.roll(x, 1)": [[6, 1, 2], [3, 4, 5]],
    "xp.roll(x, -1, axis=1)": [[2, 3, 1], [5, 6, 4]],
    "xp.roll(x, (1, 1), axis=(0, 1))": [[6, 4, 5], [3, 1, 2]],
    "xp.squeeze(xp.asarray([[3], [1]]), axis=1)": [3, 1],
    "xp.stack([r, r], axis=1)": [[3, 3], [1, 1], [2, 2]],
    "xp.tile(r, (2,))": ROW + ROW,
    "xp.tile(x, (2, 1))": GRID + GRID,
    "xp.unstack(x)[1]": [4, 5, 6],
    "xp.unstack(x, axis=1)[0]": [1, 4],
    "x.T": [[1, 4], [2, 5], [3, 6]],
    "c.mT": [[[0, 2], [1, 3]], [[4, 6], [5, 7]]],
    "xp.matrix_transpose(c)": [[[0, 2], [1, 3]], [[4, 6], [5, 7]]],
    # searching, sorting, sets
    "xp.argmax(x)": 5,
    "xp.argmax(x, axis=0)": [1, 1, 1],
    "xp.argmax(x, axis=1, keepdims=True)": [[2], [2]],
    "xp.argmin(r)": 1,
    "xp.argsort(r)": [1, 2, 0],
    "xp.argsort(r, descending=True)": [0, 2, 1],
    "xp.argsort(xp.asarray([1, 1, 0]))": [2, 0, 1],
    "xp.argsort(xp.asarray([1, 1, 0]), descending=True)": [0, 1, 2],
    "xp.sort(r)": [1, 2, 3],
    "xp.sort(r, descending=True)": [3, 2, 1],
    "xp.sort(x, axis=0, descending=True)": [[4, 5, 6], [1, 2, 3]],
    "xp.nonzero(xp.asarray([[0, 1], [1, 0]]))[1]": [1, 0],
    "xp.searchsorted(xp.asarray([1, 3, 5]), xp.asarray([3, 4]))": [1, 2],
    "xp.searchsorted(xp.asarray([1, 3, 5]), xp.asarray([3, 4]), side='right')": [2, 2],
    "xp.searchsorted(r, xp.asarray([2]), sorter=xp.argsort(r))": [1],
    "xp.where(x > 3, x, 0 * x)": [[0, 0, 0], [4, 5, 6]],
    "xp.unique_values(xp.asarray([2, 1, 2])).shape": (2,),
    "xp.sort(xp.unique_values(xp.asarray([2, 1, 2])))": [1, 2],
    "xp.sum(xp.unique_counts(xp.asarray([2, 1, 2])).counts)": 3,
    "xp.unique_inverse(xp.asarray([2, 1, 2])).inverse_indices.shape": (3,),
    "xp.unique_all(xp.asarray([2, 1, 2])).indices.shape": (2,),
    # reductions
    "xp.all(x > 0)": True,
    "xp.all(x > 1, axis=1)": [False, True],
    "xp.any(x > 5, axis=0)": [False, False, True],
    "xp.any(xp.asarray([]))": False,
    "xp.all(xp.asarray([]))": True,
    "xp.max(x, axis=1)": [3, 6],
    "xp.min(x)": 1,
    "xp.max(c, axis=(0, 2))": [5, 7],
    "xp.mean(f)": 3.5,
    "xp.mean(f, axis=0)": [2.5, 3.5, 4.5],
    "xp.prod(x)": 720,
    "xp.prod(x, axis=1, keepdims=True)": [[6], [120]],
    "xp.std(f, axis=1)": [math.sqrt(2 / 3)] * 2,
    "xp.sum(x)": 21,
    "xp.sum(x, axis=())": GRID,
    "xp.sum(c, axis=(0, 1))": [12, 16],
    "xp.sum(xp.asarray([], dtype=xp.float64))": 0.0,
    "xp.var(f)": 35 / 12,
    "xp.var(f, correction=1)": 3.5,
    "xp.cumulative_sum(r)": [3, 4, 6],
    "xp.cumulative_sum(x, axis=0)": [[1, 2, 3], [5, 7, 9]],
    "xp.cumulative_sum(r, include_initial=True)": [0, 3, 4, 6],
    "xp.clip(x, 2, 5)": [[2, 2, 3], [4, 5, 5]],
    "xp.clip(r, None, 2)": [2, 1, 2],
    # linear algebra
    "xp.matmul(x, x.T)": [[14, 32], [32, 77]],
    "x @ r": [11, 29],
    "xp.vecdot(x, x)": [14, 77],
    "xp.tensordot(x, x, axes=((1,), (1,)))": [[14, 32], [32, 77]],
    "xp.tensordot(r, r, axes=0).shape": (3, 3),
    "xp.linalg.outer(r, r)": [[9, 3, 6], [3, 1, 2], [6, 2, 4]],
    "xp.linalg.trace(x)": 6,
    "xp.linalg.trace(x, offset=1)": 8,
    "xp.linalg.diagonal(x)": [1, 5],
    "xp.linalg.cross(r, x[0, :])": [-1, -7, 5],
    "xp.linalg.vector_norm(f)": math.sqrt(91),
    "xp.linalg.vector_norm(f, ord=1)": 21.0,
    "xp.linalg.vector_norm(f, axis=1, ord=float('inf'))": [3.0, 6.0],
    "xp.linalg.matrix_norm(f)": math.sqrt(91),
    "xp.linalg.matrix_power(s, 3)": [[7.0, 10.0], [5.0, 7.0]],
    "xp.linalg.det(s)": -1.0,
    "xp.linalg.slogdet(s).sign": -1.0,
    "xp.linalg.inv(s)": [[-1.0, 2.0], [1.0, -1.0]],
    "xp.linalg.solve(s, f[:, :2])": [[7.0, 8.0], [-3.0, -3.0]],
    "xp.linalg.cholesky(xp.asarray([[4.0, 2.0], [2.0, 5.0]]))": [
        [2.0, 0.0],
        [1.0, 2.0],
    ],
    "xp.linalg.eigvalsh(xp.asarray([[2.0, 1.0], [1.0, 2.0]]))": [1.0, 3.0],
    "xp.linalg.matrix_rank(f)": 2,
    "xp.linalg.svdvals(xp.asarray([[3.0, 0.0], [0.0, 4.0]]))": [4.0, 3.0],
    "xp.linalg.pinv(s)": [[-1.0, 2.0], [1.0, -1.0]],
    "xp.linalg.qr(f).R.shape": (2, 3),
    "xp.linalg.svd(f, full_matrices=False).Vh.shape": (2, 3),
    "xp.linalg.eigh(s @ s.T).eigenvectors.shape": (2, 2),
    # Fourier transforms
    "xp.real(xp.fft.fft(xp.asarray([1.0, 0.0, 0.0, 0.0], dtype=xp.complex128)))": [1.0]
    * 4,
    "xp.real(xp.fft.rfft(xp.asarray([1.0, 2.0, 3.0, 4.0])))": [10.0, -2.0, -2.0],
    "xp.fft.irfft(xp.fft.rfft(xp.asarray([1.0, 2.0, 3.0, 4.0])))": [1.0, 2.0, 3.0, 4.0],
    "xp.fft.fftshift(xp.arange(5))": [3, 4, 0, 1, 2],
    "xp.fft.ifftshift(xp.arange(5))": [2, 3, 4, 0, 1],
    "xp.fft.fftfreq(4)": [0.0, 0.25, -0.5, -0.25],
    "xp.fft.rfftfreq(4)": [0.0, 0.25, 0.5],
    "xp.fft.fftn(f + 0j).shape": (2, 3),
    "xp.fft.rfftn(f).shape": (2, 2),
    "xp.fft.irfftn(xp.fft.rfftn(f), s=(2, 3), axes=(0, 1))": [
        [1.0, 2.0, 3.0],
        [4.0, 5.0, 6.0],
    ],
    "xp.fft.hfft(xp.asarray([1.0 + 0j, 2.0, 3.0])).shape": (4,),
    "xp.fft.ihfft(xp.asarray([1.0, 2.0, 3.0, 4.0])).shape": (3,),
    # data types and information
    "xp.finfo(xp.float32).bits": 32,
    "xp.iinfo(xp.int8).min": -128,
    "xp.iinfo(xp.int64).max": 2**63 - 1,
    "xp.isdtype(xp.int8, 'signed integer')": True,
    "xp.isdtype(xp.uint8, ('bool', 'unsigned integer'))": True,
    "xp.isdtype(xp.float64, 'integral')": False,
    "xp.isdtype(xp.complex64, 'numeric')": True,
    "xp.can_cast(xp.int8, xp.int16)": True,
    "xp.can_cast(xp.int16, xp.int8)": False,
    "xp.astype(f, xp.int64)": GRID,
    "xp.astype(xp.asarray([1.9, -1.9]), xp.int64)": [1, -1],
    "xp.astype(x, xp.bool)": [[True] * 3] * 2,
    "x.ndim": 2,
    "x.size": 6,
    "x.__array_namespace__() is not None": True,
    "int(r[0])": 3,
    "float(f[0, 1])": 2.0,
    "bool(r[0] == 3)": True,
    "complex(f[0, 0])": 1 + 0j,
    "xp.from_dlpack(r)": ROW,
    "x.__dlpack_device__()[0] == 1": True,
    "xp.pi": math.pi,
    "xp.e": math.e,
    "xp.isnan(xp.asarray(xp.nan))": True,
    "xp.asarray(xp.inf) > 1e30": True,
    "xp.__array_namespace_info__().capabilities()['boolean indexing']": True,
    "'float64' in xp.__array_namespace_info__().dtypes()": True,
    # operators and Python numbers
    "x + 1": [[2, 3, 4], [5, 6, 7]],
    "1 - r": [-2, 0, -1],
    "x * 2": [[2, 4, 6], [8, 10, 12]],
    "f / 2": [[0.5, 1.0, 1.5], [2.0, 2.5, 3.0]],
    "x // 2": [[0, 1, 1], [2, 2, 3]],
    "x % 2": [[1, 0, 1], [0, 1, 0]],
    "r ** 2": [9, 1, 4],
    "2 ** r": [8, 2, 4],
    "-r": [-3, -1, -2],
    "+r": ROW,
    "abs(-r)": ROW,
    "~r": [-4, -2, -3],
    "r & 1": [1, 1, 0],
    "r | 4": [7, 5, 6],
    "r ^ 1": [2, 0, 3],
    "r << 1": [6, 2, 4],
    "r >> 1": [1, 0, 1],
    "x == 2": [[False, True, False], [False] * 3],
    "x != 2": [[True, False, True], [True] * 3],
    "r < 2": [False, True, False],
    "r <= 2": [False, True, True],
    "r > 2": [True, False, False],
    "r >= 2": [True, False, True],
}


def _as_lists(value: Any) -> Any:
    if isinstance(value, tuple) or (hasattr(value, "__len__") and not hasattr(
            value, "dtype")):  # fmt: skip
        return tuple(int(n) for n in value)
    return value.tolist() if hasattr(value, "tolist") else value


def _close(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(_close, found, wanted))
    if isinstance(wanted, (float, complex)):
        return abs(found - wanted) <= 1e-6 * max(abs(wanted), 1.0)
    return bool(found == wanted)


def _checked(expression: str, wanted: Any) -> Callable[[Namespace], None]:
    def check(xp: Namespace) -> None:
        names = {
            "xp": xp, "GRID": GRID, "x": xp.asarray(GRID), "c": xp.asarray(CUBE),
            "r": xp.asarray(ROW), "f": xp.asarray(GRID, dtype=xp.float64),
            "s": xp.asarray([[1.0, 2.0], [1.0, 1.0]], dtype=xp.float64),
        }  # fmt: skip
        found = _as_lists(eval(expression, names))
        if not _close(found, wanted):
            raise AssertionError((found, wanted))

    return check


#: What must hold, by its name.
SHAPE_CASES: dict[str, Callable[[Namespace], None]] = {
    f"shapes {expression}": _checked(expression, wanted)
    for expression, wanted in EXPRESSIONS.items()
}
