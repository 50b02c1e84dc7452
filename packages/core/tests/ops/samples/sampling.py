"""Records of windows, resampling and weighted rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sample import Sample, case


def _windows(x: Any, *, axis: int, size: int, step: int = 1, dilation: int = 1) -> Any:
    reach = (size - 1) * dilation + 1
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis)
    count = [slice(None)] * view.ndim
    count[axis], count[-1] = slice(None, None, step), slice(None, None, dilation)
    return view[tuple(count)]


def _windows_grad(dy: Any, like: Any, *, axis: int, **a: Any) -> Any:
    places = np.arange(like.size).reshape(like.shape)
    dx = np.zeros(like.size, dy.dtype)
    np.add.at(dx, _windows(places, axis=axis, **a).ravel(), dy.ravel())
    return dx.reshape(like.shape)


_WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 7), {"axis": 1, "size": 3}),
    ((7, 2, 3), {"axis": 0, "size": 2, "step": 3, "dilation": 2}),
    ((2, 5, 1), {"axis": -2, "size": 3, "step": 2, "dilation": 2}),
    ((0, 4), {"axis": 1, "size": 4}),
]
_WINDOW_SHAPES = [(2, 5, 3), (2, 2, 3, 2), (2, 1, 1, 3), (0, 1, 4)]

Sample("windows", ref=_windows, cases=[case(x, **a) for x, a in _WINDOWS])
Sample(
    "windows_grad",
    ref=_windows_grad,
    cases=[case(y, x, **a) for y, (x, a) in zip(_WINDOW_SHAPES, _WINDOWS, strict=True)],
)


def _cubic(d: Any) -> Any:
    """Keys's kernel, a = -0.75."""
    a, d = -0.75, np.abs(d)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    outer = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, outer, 0.0))


def resize_matrix(
    n: int,
    size: int,
    scale: float = 0.0,
    mode: str = "nearest",
    corners: bool = False,
    half: bool = True,
) -> Any:
    """(size or floor(n * scale), n): what each element is made of."""
    count = size or int(n * scale)
    ratio = n / count if scale == 0 else 1 / scale
    if corners:
        ratio = (n - 1) / max(count - 1, 1)
    at = np.arange(count) * (ratio if count > 1 else 0.0)
    if ((half and mode == "linear") or mode == "cubic") and not corners:
        at = at + 0.5 * (ratio if count > 1 else 0.0) - 0.5
    matrix = np.zeros((count, n))
    for i, p in enumerate(at):
        if mode == "nearest":
            matrix[i, min(int(np.float32(p) + (0.5 if corners else 0)), n - 1)] = 1
        elif mode == "linear":
            p = min(max(p, 0.0), n - 1)
            matrix[i] += np.maximum(0, 1 - np.abs(p - np.arange(n)))
        else:
            for j in range(int(np.floor(p)) - 1, int(np.floor(p)) + 3):
                matrix[i, min(max(j, 0), n - 1)] += _cubic(p - j)
    return matrix


def _resize(x: Any, *, axis: int, size: int = 0, **a: Any) -> Any:
    matrix = resize_matrix(x.shape[axis], size, **a)
    return np.moveaxis(np.moveaxis(x, axis, -1) @ matrix.T, -1, axis)


def _resize_grad(dy: Any, like: Any, *, axis: int, size: int = 0, **a: Any) -> Any:
    matrix = resize_matrix(like.shape[axis], size, **a)
    return np.moveaxis(np.moveaxis(dy, axis, -1) @ matrix, -1, axis)


_RESIZE: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 5), {"axis": 2, "size": 8}),
    ((2, 5, 4), {"axis": 1, "size": 3, "mode": "linear"}),
    ((2, 4, 17), {"axis": -2, "size": 7, "mode": "linear", "corners": True}),
    ((4, 3, 2), {"axis": 0, "scale": 1.6, "mode": "linear", "half": False}),
    ((2, 3, 6), {"axis": 2, "size": 9, "mode": "cubic"}),
    ((1, 6, 3), {"axis": 1, "size": 4, "mode": "cubic", "corners": True}),
    ((2, 1, 3), {"axis": 1, "size": 3, "mode": "cubic"}),
    ((3, 4), {"axis": 1, "size": 1, "mode": "linear"}),
    ((2, 5), {"axis": 1, "size": 9, "corners": True}),
]

Sample(
    "resize_axis",
    ref=_resize,
    cases=[case(x, **a) for x, a in _RESIZE],
    dtypes=("float16", "bfloat16", "float32", "float64"),
    domain=(-1.0, 1.0),
)
Sample(
    "resize_axis_grad",
    ref=_resize_grad,
    cases=[case(_resize(np.zeros(x), **a).shape, x, **a) for x, a in _RESIZE],
    atol={"float16": 8e-3, "bfloat16": 8e-2},
)


def _weights(index: Any, weight: Any) -> Any:
    return np.where(index < 0, 0.0, weight)


def _blend(x: Any, index: Any, weight: Any) -> Any:
    return np.einsum("rkc,rk->rc", x[index], _weights(index, weight))


def _scatter(dy: Any, index: Any, weight: Any, like: Any) -> Any:
    dx = np.zeros(like.shape)
    np.add.at(dx, index, _weights(index, weight)[..., None] * dy[:, None])
    return dx


def _dot(dy: Any, x: Any, index: Any) -> Any:
    return _weights(index, np.einsum("rc,rkc->rk", dy, x[index]))


_INDEX = np.array([[0, 3, -1], [2, 2, 0]], np.int64)

Sample(
    "blend_rows",
    ref=_blend,
    cases=[case((4, 3), _INDEX, (2, 3)), case((4, 70), _INDEX, (2, 3))],
)
Sample(
    "blend_rows_scatter",
    ref=_scatter,
    cases=[case((2, c), _INDEX, (2, 3), (4, c)) for c in (1, 70)],
)
Sample(
    "blend_rows_dot",
    ref=_dot,
    cases=[case((2, c), (4, c), _INDEX) for c in (3, 70)],
)


def _roi_max(x: Any, boxes: Any, image: Any, *, size: Any, scale: float = 1.0) -> Any:
    height, width = x.shape[2:]
    places = np.arange(x.size).reshape(x.shape)
    y = np.full((len(boxes), x.shape[1], *size), -1, np.int64)
    for r, n in enumerate(image):
        x1, y1, x2, y2 = np.floor(boxes[r] * scale + 0.5)
        tall, wide = max(y2 - y1 + 1, 1) / size[0], max(x2 - x1 + 1, 1) / size[1]
        for i in range(size[0]):
            for j in range(size[1]):
                h = np.clip([y1 + np.floor(i * tall), y1 + np.ceil((i + 1) * tall)],
                            0, height).astype(int)  # fmt: skip
                w = np.clip([x1 + np.floor(j * wide), x1 + np.ceil((j + 1) * wide)],
                            0, width).astype(int)  # fmt: skip
                part = x[n, :, h[0] : h[1], w[0] : w[1]]
                if part.size:
                    best = part.reshape(len(part), -1).argmax(-1)
                    here = places[n, :, h[0] : h[1], w[0] : w[1]]
                    y[r, :, i, j] = here.reshape(len(part), -1)[range(len(best)), best]
    return y


_BOXES = np.array([[0, 0, 3, 4], [2, 1, 11, 8], [20, 20, 30, 30.0]], np.float32)

Sample(
    "roi_max_index",
    ref=_roi_max,
    cases=[
        case((2, 3, 6, 7), _BOXES, np.array([0, 1, 1]), size=[2, 3], scale=0.5),
        case((2, 3, 6, 7), _BOXES, np.array([1, 0, 1]), size=[1, 2]),
    ],
)


def _suppress(boxes: Any, valid: Any, *, threshold: float) -> Any:
    selected = np.zeros(valid.shape, bool)
    for n, i in np.ndindex(*valid.shape):
        better = boxes[n, :i][selected[n, :i]]
        low = np.maximum(better[:, :2], boxes[n, i, :2])
        high = np.minimum(better[:, 2:], boxes[n, i, 2:])
        common = np.maximum(high - low, 0).prod(1)
        both = [(b[..., 2:] - b[..., :2]).prod(-1) for b in (better, boxes[n, i])]
        union = both[0] + both[1] - common
        selected[n, i] = valid[n, i] and bool((common <= threshold * union).all())
    return selected


def _sorted_boxes(n: int, k: int) -> Any:
    corners = np.random.default_rng(3).integers(0, 12, (n, k, 2))
    sides = np.random.default_rng(4).integers(1, 12, (n, k, 2))
    return np.concatenate([corners, corners + sides], -1).astype(np.float32)


_VALID = np.random.default_rng(5).uniform(size=(3, 20)) < 0.9

Sample(
    "box_suppress",
    ref=_suppress,
    cases=[
        case(_sorted_boxes(3, 20), _VALID, threshold=0.3),
        case(_sorted_boxes(3, 20), _VALID, threshold=0.55),
        case(_sorted_boxes(3, 20), ~_VALID, threshold=0.1),
        case(np.zeros((2, 0, 4), np.float32), np.zeros((2, 0), bool), threshold=0.5),
    ],
)
