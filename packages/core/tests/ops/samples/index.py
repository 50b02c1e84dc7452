"""Records of reading and writing by index arrays."""

from __future__ import annotations

import numpy as np

from ..sample import Array, Sample, case

FOUR = np.array([2, 0, -1, 2], np.int64)
MATRIX = np.array([[0, 1, -2], [2, 2, 0]], np.int64)
_SUMS = {
    "rtol": {"float16": 1e-2, "bfloat16": 5e-2},
    "atol": {"float16": 1e-2, "bfloat16": 8e-2},
}

Sample(
    "gather",
    ref=lambda x, index, *, axis: np.take(x, index, axis),
    cases=[
        case((3, 4), FOUR, axis=0),
        case((2, 3, 5), FOUR, axis=1),
        case((2, 3), FOUR, axis=-1),
        case((3, 70), MATRIX, axis=0),
        case((30, 20), np.arange(70) * 7 % 60 - 30, axis=0),
        case((3, 4), np.array(1), axis=0),
        case((3, 4), np.zeros((0,), np.int64), axis=0),
    ],
)


def _gather_grad(dy: Array, index: Array, like: Array, *, axis: int) -> Array:
    axis %= like.ndim
    out = np.zeros(like.shape, dy.dtype)
    moved = np.moveaxis(out, axis, 0)
    parts = np.moveaxis(dy, range(axis, axis + index.ndim), range(index.ndim))
    np.add.at(moved, index, parts)
    return out


Sample(
    "gather_grad",
    ref=_gather_grad,
    cases=[
        case((4, 4), FOUR, (3, 4), axis=0),
        case((2, 4, 5), FOUR, (2, 3, 5), axis=1),
        case((2, 3, 70), MATRIX, (3, 70), axis=0),
    ],
    **_SUMS,
)

POINTS = np.array([[0, 1], [2, -1], [0, 1]], np.int64)
ROWS_OF = np.array([[[1], [0]], [[-1], [1]]], np.int64)


def _tuple(index: Array) -> tuple[Array, ...]:
    return tuple(index[..., k] for k in range(index.shape[-1]))


def _scatter_nd(dy: Array, index: Array, like: Array) -> Array:
    out = np.zeros(like.shape, dy.dtype)
    np.add.at(out, _tuple(index), dy)
    return out


Sample(
    "gather_nd",
    ref=lambda x, index: x[_tuple(index)],
    cases=[case((3, 4), POINTS), case((3, 4, 5), POINTS), case((3, 4), ROWS_OF)],
)
Sample(
    "scatter_nd_like",
    ref=_scatter_nd,
    cases=[
        case((3,), POINTS, (3, 4)),
        case((3, 5), POINTS, (3, 4, 5)),
        case((2, 2, 4), ROWS_OF, (3, 4)),
    ],
    **_SUMS,
)

ALONG = np.array([[0, 2, 1], [1, -1, 0]], np.int64)
Sample(
    "take_along_axis",
    ref=lambda x, index, *, axis: np.take_along_axis(x, index, axis),
    cases=[
        case((3, 3), ALONG, axis=0),
        case((2, 4), ALONG, axis=1),
        case((3, 1), ALONG, axis=0),
    ],
    grad_cases=[case((3, 3), ALONG, axis=0), case((2, 4), ALONG, axis=1)],
)


def _add_along(out: Array, index: Array, v: Array, axis: int) -> Array:
    out = out.copy()
    for at in np.ndindex(index.shape):
        to = list(at)
        to[axis] = index[at]
        out[tuple(to)] += v[at]
    return out


Sample(
    "take_along_axis_grad",
    ref=lambda dy, index, like, *, axis: _add_along(
        np.zeros(like.shape, dy.dtype), index, dy, axis
    ),
    cases=[case((2, 3), ALONG, (3, 3), axis=0), case((2, 3), ALONG, (2, 4), axis=1)],
)


def _put(x: Array, index: Array, v: Array, *, axis: int) -> Array:
    out = x.copy()
    for at in np.ndindex(index.shape):  # in order: the last of equal indices wins
        to = list(at)
        to[axis] = index[at]
        out[tuple(to)] = v[at]
    return out


_DISTINCT = np.array([[0, 2, 1], [1, 0, 3]], np.int64)
Sample(
    "put_along_axis",
    ref=_put,
    cases=[
        case((2, 4), ALONG, (2, 3), axis=1),
        case((2, 4), np.array([[1, 1]]), (1, 2), axis=1),
    ],
    grad_cases=[case((2, 4), _DISTINCT, (2, 3), axis=1)],
)
Sample(
    "scatter_add_axis",
    ref=lambda x, index, v, *, axis: _add_along(x, index, v, axis),
    cases=[case((2, 4), ALONG, (2, 3), axis=1), case((3, 3), ALONG, (2, 3), axis=0)],
)


def _index_put(x: Array, index: Array, v: Array) -> Array:
    out = x.copy()
    out[_tuple(index)] = v
    return out


_APART = np.array([[0, 1], [2, -1], [1, 1]], np.int64)
Sample(
    "index_put",
    ref=_index_put,
    cases=[case((3, 4), _APART, (3,)), case((3, 4, 5), _APART, (3, 5))],
)
Sample(
    "count_nonzero",
    ref=lambda x: np.array(np.count_nonzero(x)),
    cases=[case((2, 3)), case((0, 3)), case((40, 50)), case(())],
    domain=(-1, 1),
)
_HOLES = np.array([[0, 1, 0, -2], [3, 0, 0, 0], [0, 0, 0, 5]], np.int64)
Sample(
    "nonzero",
    ref=lambda x, *, count: np.argwhere(x),
    cases=[
        case(_HOLES, count=4),
        case(_HOLES.astype(bool), count=4),
        case(_HOLES.astype(np.float32), count=4),
    ],
    strided=False,
)
Sample(
    "one_hot",
    ref=lambda x, *, depth: np.eye(depth, dtype=np.float32)[x],
    cases=[case(FOUR, depth=4), case(MATRIX, depth=3), case(np.array(2), depth=5)],
)


def _embedding(ids: Array, weight: Array, *, padding_idx: int) -> Array:
    out = weight[ids]
    return np.where((ids == padding_idx)[..., None] & (padding_idx >= 0), 0, out)


def _embedding_grad(ids: Array, dy: Array, like: Array, *, padding_idx: int) -> Array:
    unpadded = np.where((ids == padding_idx)[..., None] & (padding_idx >= 0), 0, dy)
    out = np.zeros(like.shape, dy.dtype)
    np.add.at(out, ids, unpadded)
    return out


IDS = np.array([[1, 0, 3], [3, 3, 2]], np.int64)
Sample(
    "embedding",
    ref=_embedding,
    cases=[
        case(IDS, (4, 5), padding_idx=-1),
        case(IDS, (4, 70), padding_idx=3),
        case(IDS, (4, 200), padding_idx=3),  # rows that are copied one by one
        case(np.arange(120).reshape(4, 30) ** 2 % 50, (50, 16), padding_idx=9),
    ],
)


def _put_rows(table: Array, rows: Array, values: Array) -> Array:
    out = table.copy()
    out[rows] = values
    return out


Sample(
    "put_rows_",
    ref=_put_rows,
    cases=[
        case((4, 3), np.array([2, 0, -1], np.int64), (3, 3)),
        case((5, 2, 70), np.array([4, 1], np.int64), (2, 2, 70)),
        case((4,), np.zeros((0,), np.int64), (0,)),
    ],
)


def _merge_rows(rows: Array, values: Array) -> tuple[Array, Array]:
    once, place = np.unique(rows, return_inverse=True)
    sums = np.zeros((len(once), *values.shape[1:]), values.dtype)
    np.add.at(sums, place.reshape(-1), values)
    last = np.minimum(np.arange(len(rows)), len(once) - 1)
    return once[last], sums[last]


Sample(
    "merge_rows",
    ref=_merge_rows,
    cases=[
        case(np.array([7, 2, 7, 9, 2, 7, 0], np.int64), (7, 3)),
        case(np.array([1, 0, 3], np.int64), (3, 2, 35)),
        case(np.array([5, 5], np.int64), (2,)),
        case(np.zeros((0,), np.int64), (0, 3)),
    ],
    **_SUMS,
)
Sample(
    "embedding_grad",
    ref=_embedding_grad,
    cases=[
        case(IDS, (2, 3, 5), (4, 5), padding_idx=-1),
        case(IDS, (2, 3, 70), (4, 70), padding_idx=3),
    ],
    **_SUMS,
)
