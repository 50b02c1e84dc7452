"""Records of the poolings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sample import Sample, case

Window = tuple[slice, slice]


def _axis(
    size: int, kernel: int, stride: int, low: int, high: int, ceil: bool
) -> list[slice]:
    room = size + low + high - kernel
    count = (room + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (count - 1) * stride >= size + low:
        count -= 1
    starts = [i * stride - low for i in range(count)]
    return [slice(max(s, 0), min(s + kernel, size)) for s in starts]


def _grid(shape: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> Any:
    return [
        _axis(
            shape[2 + i], kernel[i], stride[i], *padding[2 * i : 2 * i + 2], ceil_mode
        )
        for i in range(2)
    ]


def _pooled(x: Any, grid: Any, f: Any) -> Any:
    rows = [np.stack([f(x[:, :, h, w], h, w) for w in grid[1]], -1) for h in grid[0]]
    return np.stack(rows, -2)


def _windows(x: Any, a: dict[str, Any]) -> Any:
    padding, ceil = a.get("padding", [0] * 4), a.get("ceil_mode", False)
    return _grid(x.shape, a["kernel"], a["stride"], padding, ceil)


def _max(x: Any, **a: Any) -> Any:
    return _pooled(x, _windows(x, a), lambda part, h, w: part.max(axis=(2, 3)))


def _index(x: Any, **a: Any) -> Any:
    return _places(x, _windows(x, a))


def _places(x: Any, grid: Any) -> Any:
    """h * W + w of the greatest element of each window."""

    def place(part: Any, h: slice, w: slice) -> Any:
        best = part.reshape(*part.shape[:2], _area(h, w)).argmax(-1)
        width = w.stop - w.start
        return (h.start + best // width) * x.shape[3] + w.start + best % width

    return _pooled(x, grid, place).astype(np.int32)


def _divisor(h: slice, w: slice, a: dict[str, Any]) -> int:
    if a.get("exclusive", True):
        return (h.stop - h.start) * (w.stop - w.start)
    return int(a["kernel"][0] * a["kernel"][1])


def _avg(x: Any, **a: Any) -> Any:
    return _pooled(
        x,
        _windows(x, a),
        lambda part, h, w: part.sum(axis=(2, 3)) / _divisor(h, w, a),
    )


def _spread(dy: Any, like: Any, grid: Any, share: Any) -> Any:
    dx = np.zeros(like.shape)
    for i, h in enumerate(grid[0]):
        for j, w in enumerate(grid[1]):
            dx[:, :, h, w] += dy[:, :, i, j][..., None, None] / share(h, w)
    return dx


def _avg_grad(dy: Any, like: Any, **a: Any) -> Any:
    return _spread(dy, like, _windows(like, a), lambda h, w: _divisor(h, w, a))


def _adaptive_grid(x: Any, size: Any) -> Any:
    return [
        [
            slice(
                i * x.shape[2 + d] // size[d], -(-(i + 1) * x.shape[2 + d] // size[d])
            )
            for i in range(size[d])
        ]
        for d in range(2)
    ]


def _area(h: slice, w: slice) -> int:
    return int((h.stop - h.start) * (w.stop - w.start))


def _scatter(dy: Any, index: Any, like: Any) -> Any:
    n, c, h, w = like.shape
    dx = np.zeros((n, c, h * w))
    for i in range(n):
        for j in range(c):
            np.add.at(dx[i, j], index[i, j].ravel(), dy[i, j].ravel())
    return dx.reshape(n, c, h, w)


def _gather(x: Any, index: Any) -> Any:
    flat = index.reshape(*index.shape[:2], -1)
    picked = np.take_along_axis(x.reshape(*x.shape[:2], -1), flat, -1)
    return picked.reshape(index.shape)


_INDEX = np.array(
    [[[[3, 0], [7, 3]], [[11, 5], [0, 1]]]], np.int32
)  # into planes 3 x 4
_WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 6, 8), {"kernel": [2, 2], "stride": [2, 2]}),
    ((1, 17, 7, 6), {"kernel": [3, 2], "stride": [2, 1], "padding": [1, 1, 1, 0]}),
    (
        (1, 2, 6, 7),
        {
            "kernel": [3, 3],
            "stride": [2, 2],
            "padding": [0, 1, 1, 1],
            "ceil_mode": True,
        },
    ),
    ((0, 2, 4, 4), {"kernel": [2, 2], "stride": [1, 1]}),
]
_APART = [  # no two elements of a window so near that a finite difference swaps them
    case(
        lambda rng: rng.permutation(48).reshape(1, 2, 4, 6) / 8.0,
        kernel=[2, 3],
        stride=[2, 1],
    )
]

Sample(
    "max_pool2d", ref=_max, cases=[case(x, **a) for x, a in _WINDOWS], grad_cases=_APART
)
Sample("max_pool2d_index", ref=_index, cases=[case(x, **a) for x, a in _WINDOWS])
Sample("pool_scatter", ref=_scatter, cases=[case((1, 2, 2, 2), _INDEX, (1, 2, 3, 4))])
Sample("pool_gather", ref=_gather, cases=[case((1, 2, 3, 4), _INDEX)])
Sample(
    "avg_pool2d",
    ref=_avg,
    cases=[case(x, **a, exclusive=e) for x, a in _WINDOWS for e in (True, False)],
    grad_cases=[
        case(
            (1, 2, 4, 5),
            kernel=[3, 2],
            stride=[2, 2],
            padding=[1, 1, 0, 1],
            exclusive=e,
        )
        for e in (True, False)
    ],
)
Sample(
    "avg_pool2d_grad",
    ref=_avg_grad,
    cases=[
        case(_avg(np.zeros(x), **a).shape, x, **a, exclusive=e)
        for x, a in _WINDOWS
        for e in (True, False)
    ],
    grad_cases=[case((1, 1, 2, 2), (1, 1, 4, 4), kernel=[2, 2], stride=[2, 2])],
)
Sample(
    "adaptive_avg_pool2d",
    ref=lambda x, *, size: _pooled(
        x, _adaptive_grid(x, size), lambda part, h, w: part.mean(axis=(2, 3))
    ),
    cases=[case((2, 3, 5, 7), size=s) for s in ([1, 1], [2, 3], [5, 7])],
    grad_cases=[case((1, 2, 5, 3), size=[2, 2])],
)
Sample(
    "adaptive_avg_pool2d_grad",
    ref=lambda dy, like, *, size: _spread(dy, like, _adaptive_grid(like, size), _area),
    cases=[case((2, 3, 2, 3), (2, 3, 5, 7), size=[2, 3])],
    grad_cases=[case((1, 1, 2, 2), (1, 1, 3, 3), size=[2, 2])],
)

_ADAPTIVE = [case((2, 3, 5, 7), size=s) for s in ([1, 1], [2, 3], [5, 7])]


def _adaptive_index(x: Any, *, size: Any) -> Any:
    return _places(x, _adaptive_grid(x, size))


Sample(
    "adaptive_max_pool2d",
    ref=lambda x, *, size: _pooled(
        x, _adaptive_grid(x, size), lambda part, h, w: part.max(axis=(2, 3))
    ),
    cases=_ADAPTIVE,
    grad_cases=[
        case(lambda rng: rng.permutation(30).reshape(1, 2, 5, 3) / 8.0, size=[2, 2])
    ],
)
Sample("adaptive_max_pool2d_index", ref=_adaptive_index, cases=_ADAPTIVE)
