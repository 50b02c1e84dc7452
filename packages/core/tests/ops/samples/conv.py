"""Records of the convolutions. The reference adds one tap of the kernels at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..sample import Sample, case
from .linear import activated


def taps(
    x: Any,
    w: Any,
    y: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Iterator[tuple[Any, ...]]:
    """For each tap and group: its slice of padded x, of w, and of y."""
    rows, cols = y.shape[2:]
    inner, outer = w.shape[1], w.shape[0] // groups
    for g in range(groups):
        for p in range(w.shape[2]):
            for q in range(w.shape[3]):
                top, left = p * dilation[0], q * dilation[1]
                at = (
                    slice(None),
                    slice(g * inner, (g + 1) * inner),
                    slice(top, top + (rows - 1) * stride[0] + 1, stride[0]),
                    slice(left, left + (cols - 1) * stride[1] + 1, stride[1]),
                )
                o = slice(g * outer, (g + 1) * outer)
                yield x[at], at, (o, slice(None), p, q), (slice(None), o)


def padded(x: Any, padding: Sequence[int]) -> Any:
    """x (N, C, H, W) with zeros around it."""
    return np.pad(x, ((0, 0), (0, 0), tuple(padding[:2]), tuple(padding[2:])))


def conv2d(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: Any = (1, 1),
    padding: Any = (0,) * 4,
    dilation: Any = (1, 1),
    groups: int = 1,
) -> Any:
    """conv2d of x (N, C, H, W) with w (O, C / groups, KH, KW)."""
    x = padded(x, padding)
    size = [
        (x.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1
        for i in range(2)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *size), np.result_type(x, w))
    for part, _, k, o in taps(x, w, y, stride, padding, dilation, groups):
        y[o] += np.einsum("nchw,oc->nohw", part, w[k])
    return y if bias is None else y + bias[:, None, None]


def _grad_input(
    dy: Any,
    w: Any,
    like: Any,
    *,
    stride: Any = (1, 1),
    padding: Any = (0,) * 4,
    dilation: Any = (1, 1),
    groups: int = 1,
) -> Any:
    dx = padded(np.zeros(like.shape), padding)
    for _, at, k, o in taps(dx, w, dy, stride, padding, dilation, groups):
        dx[at] += np.einsum("nohw,oc->nchw", dy[o], w[k])
    top, left = padding[0], padding[2]
    return dx[:, :, top : top + like.shape[2], left : left + like.shape[3]]


def conv2d_transpose(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    stride: Any = (1, 1),
    padding: Any = (0,) * 4,
    dilation: Any = (1, 1),
    groups: int = 1,
    output_padding: Any = (0, 0),
) -> Any:
    """The transpose of conv2d: x (N, C, H, W), w (C, O / groups, KH, KW)."""
    size = [
        (x.shape[2 + i] - 1) * stride[i] + dilation[i] * (w.shape[2 + i] - 1) + 1
        + output_padding[i] - padding[2 * i] - padding[2 * i + 1]
        for i in range(2)
    ]  # fmt: skip
    like = np.empty((x.shape[0], w.shape[1] * groups, *size))
    y = _grad_input(
        x, w, like, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    return y if bias is None else y + bias[:, None, None]


def _grad_weight(
    x: Any,
    dy: Any,
    like: Any,
    *,
    stride: Any = (1, 1),
    padding: Any = (0,) * 4,
    dilation: Any = (1, 1),
    groups: int = 1,
) -> Any:
    dw = np.zeros(like.shape)
    for part, _, k, o in taps(
        padded(x, padding), dw, dy, stride, padding, dilation, groups
    ):
        dw[k] = np.einsum("nchw,nohw->oc", part, dy[o])
    return dw


def _conv2d_act(
    x: Any,
    w: Any,
    bias: Any = None,
    residual: Any = None,
    *,
    act: str = "none",
    **geometry: Any,
) -> Any:
    y = conv2d(x, w, bias, **geometry)
    return activated(act, y if residual is None else y + residual)


# x, w, y shapes and geometry: each size, step and border unlike the others.
GEOMETRIES: list[tuple[Any, Any, Any, dict[str, Any]]] = [
    ((2, 3, 5, 6), (4, 3, 3, 2), (2, 4, 3, 5), {}),
    (
        (1, 2, 7, 8),
        (3, 2, 3, 3),
        (1, 3, 4, 3),
        {"stride": [2, 3], "padding": [1, 2, 0, 1]},
    ),
    ((1, 2, 8, 7), (3, 2, 3, 2), (1, 3, 4, 4), {"dilation": [2, 3]}),
    ((2, 4, 5, 5), (6, 2, 3, 3), (2, 6, 5, 5), {"padding": [1, 1, 1, 1], "groups": 2}),
    (
        (1, 5, 6, 5),
        (5, 1, 3, 3),
        (1, 5, 3, 3),
        {"stride": [2, 2], "padding": [1, 1, 1, 1], "groups": 5},
    ),
    ((1, 3, 4, 4), (2, 3, 1, 1), (1, 2, 2, 2), {"stride": [2, 2]}),
    ((0, 2, 4, 4), (3, 2, 3, 3), (0, 3, 2, 2), {}),
]
_SMALL: list[tuple[Any, Any, Any, dict[str, Any]]] = [
    ((1, 2, 4, 3), (2, 2, 2, 2), (1, 2, 2, 2), {"stride": [2, 1]}),
    ((1, 2, 3, 3), (2, 1, 2, 2), (1, 2, 4, 3), {"padding": [1, 1, 0, 1], "groups": 2}),
]

Sample(
    "conv2d",
    ref=conv2d,
    cases=[case(x, w, (w[0],), **a) for x, w, _, a in GEOMETRIES]
    + [case((2, 17, 9, 8), (35, 17, 3, 3), None, padding=[1, 1, 1, 1])],
    grad_cases=[case(x, w, (w[0],), **a) for x, w, _, a in _SMALL],
)
Sample(
    "conv2d_grad_input",
    ref=_grad_input,
    cases=[case(y, w, x, **a) for x, w, y, a in GEOMETRIES],
    grad_cases=[case(y, w, x, **a) for x, w, y, a in _SMALL],
)
Sample(
    "conv2d_grad_weight",
    ref=_grad_weight,
    cases=[case(x, y, w, **a) for x, w, y, a in GEOMETRIES],
    grad_cases=[case(x, y, w, **a) for x, w, y, a in _SMALL],
)
# y, w, the bias's shape, and geometry with what conv2d of GEOMETRIES leaves over.
_TRANSPOSED: list[tuple[Any, Any, Any, dict[str, Any]]] = [
    ((2, 4, 3, 5), (4, 3, 3, 2), (3,), {}),
    (
        (1, 3, 4, 3),
        (3, 2, 3, 3),
        (2,),
        {"stride": [2, 3], "padding": [1, 2, 0, 1], "output_padding": [1, 2]},
    ),
    ((1, 3, 4, 4), (3, 2, 3, 2), None, {"dilation": [2, 3]}),
    ((2, 6, 5, 5), (6, 2, 3, 3), (4,), {"padding": [1, 1, 1, 1], "groups": 2}),
    ((1, 3, 2, 2), (3, 4, 1, 1), (4,), {"stride": [2, 3]}),
    ((0, 3, 2, 2), (3, 2, 3, 3), (2,), {}),
]

Sample(
    "conv2d_transpose",
    ref=conv2d_transpose,
    cases=[case(x, w, b, **a) for x, w, b, a in _TRANSPOSED],
    grad_cases=[
        case((1, 2, 2, 3), (2, 1, 2, 2), (2,), stride=[2, 1], groups=2),
        case((1, 1, 2, 2), (1, 2, 3, 2), (2,), stride=[2, 2], output_padding=[1, 0]),
    ],
)
Sample(
    "sum_channels",
    ref=lambda x: x.sum(axis=tuple(i for i in range(x.ndim) if i != 1)),
    cases=[case((2, 3)), case((2, 3, 4, 5)), case((1, 17, 3, 3)), case((0, 2, 3))],
)
Sample(
    "broadcast_channels",
    ref=lambda x, like: np.broadcast_to(
        x.reshape(-1, *[1] * (like.ndim - 2)), like.shape
    ),
    cases=[case((3,), (2, 3, 4)), case((2,), (4, 2)), case((3,), (0, 3, 2, 2))],
)
Sample(
    "conv2d_act",
    ref=_conv2d_act,
    cases=[case(x, w, (w[0],), y, act="relu", **a) for x, w, y, a in GEOMETRIES]
    + [case((1, 2, 4, 4), (3, 2, 3, 3), None, None, act="hard_swish")],
)


def _conv2d_norm(
    x: Any,
    w: Any,
    center: Any,
    factor: Any,
    shift: Any,
    bias: Any = None,
    residual: Any = None,
    *,
    act: str = "none",
    scale: float = 1.0,
    offset: float = 0.0,
    **geometry: Any,
) -> Any:
    y = conv2d(x, w, bias, **geometry)
    y = (y - center[:, None, None]) * factor[:, None, None] + shift[:, None, None]
    return activated(act, y if residual is None else y + residual) * scale + offset


Sample(
    "conv2d_norm",
    ref=_conv2d_norm,
    cases=[case(x, w, *[(w[0],)] * 4, y, act="relu", **a) for x, w, y, a in GEOMETRIES]
    + [
        case(
            (1, 2, 4, 4), (3, 2, 3, 3), *[(3,)] * 3, None, None, act="hard_swish",
            scale=1.5, offset=-0.25,
        ),
        case(
            (2, 18, 5, 4), (18, 1, 3, 3), *[(18,)] * 3, None, None, groups=18,
            scale=-2.0,
        ),
    ],
)  # fmt: skip
