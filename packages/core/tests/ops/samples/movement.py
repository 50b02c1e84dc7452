"""Records of the ops that move elements, and of views."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..sample import Array, Sample, case

END = 2**63 - 1

Sample(
    "reshape",
    ref=lambda x, *, shape: x.reshape(shape),
    cases=[
        case((2, 6), shape=[3, 4]),
        case((2, 6), shape=[-1]),
        case((4,), shape=[2, -1, 1]),
    ],
)
Sample(
    "reshape_like",
    ref=lambda x, like: x.reshape(like.shape),
    cases=[case((2, 6), (3, 4))],
)


def _sized(
    *xs: Array, sizes: Any, axes: Any, divisors: Any, extras: Any, plus: Any,
    limits: Any = (),
):  # fmt: skip
    def named(code: int) -> int:
        return int(xs[code // 8].shape[code % 8])

    def size(i: int) -> int:
        n = int(sizes[i])
        if axes[i] >= 0:
            more = named(plus[i]) if plus[i] >= 0 else 0
            less = named(-2 - plus[i]) if plus[i] < -1 else 0
            n = named(axes[i]) * n // divisors[i] + extras[i] + more - less
        if not limits or limits[i] == -1:
            return n
        if limits[i] >= 0:
            return min(max(n, 0), named(limits[i]))
        return slice(n, None).indices(named(-2 - limits[i]))[0]

    free = [i for i, n in enumerate(sizes) if n == -1 and axes[i] < 0]
    free = [i for i in free if not limits or limits[i] == -1]
    shape = [1 if i in free else size(i) for i in range(len(sizes))]
    shape = [xs[0].size // math.prod(shape) if i in free else n
             for i, n in enumerate(shape)]  # fmt: skip
    return np.full(shape, xs[0].reshape(-1)[0])


Sample(
    "sized",
    ref=_sized,
    cases=[
        case(
            (2, 6), sizes=[5, 1, 3], axes=[-1, 1, 0], divisors=[1, 1, 2],
            extras=[0, 0, 1], plus=[-1, -1, -1],
        ),
        case(
            (4, 3), (2, 6), sizes=[1, -1], axes=[9, -1], divisors=[1, 1],
            extras=[0, 0], plus=[-1, -1],
        ),
        case(
            (4, 3), (2, 6), sizes=[1, 2], axes=[1, 9], divisors=[1, 1],
            extras=[-2, 0], plus=[9, -10],
        ),
        case((3,), sizes=[], axes=[], divisors=[], extras=[], plus=[]),
        case(  # rounded down
            (3, 2), sizes=[-1], axes=[0], divisors=[2], extras=[5], plus=[-1],
        ),
        case(  # 4 up to 2, 2 up to 4, 7 up to 3, and what is left
            (4, 3), (2, 1), sizes=[1, 1, 7, -1], axes=[0, 8, -1, -1],
            divisors=[1] * 4, extras=[0] * 4, plus=[-1] * 4, limits=[8, 0, 1, -1],
        ),
        case(  # 1 - 3 up to 4
            (4, 3), (2, 1), sizes=[1], axes=[9], divisors=[1], extras=[0], plus=[-3],
            limits=[0],
        ),
        case(  # as bounds of slices -1 of 2, -2 of 4, 1 of 4, -1 of 3; and 2
            (4, 3), (2, 1), sizes=[-1, -1, 1, -1, 2], axes=[0, 8, 9, -1, -1],
            divisors=[1] * 5, extras=[3, 0, 0, 0, 0], plus=[-1] * 5,
            limits=[-10, -2, -2, -3, -1],
        ),
    ],
)  # fmt: skip
Sample(
    "transpose",
    ref=lambda x, *, perm: np.transpose(x, perm),
    cases=[case((2, 3), perm=[1, 0]), case((2, 3, 4), perm=[2, 0, 1])],
)
Sample(
    "swap_last",
    ref=lambda x: np.swapaxes(x, -1, -2),
    cases=[case((2, 3)), case((4, 2, 3))],
)


def _broadcast(x: Array, *, shape: list[int]) -> Array:
    lead = len(shape) - x.ndim
    full = [x.shape[d - lead] if n == -1 else n for d, n in enumerate(shape)]
    return np.broadcast_to(x, full).copy()


Sample(
    "broadcast_to",
    ref=_broadcast,
    cases=[
        case((3,), shape=[2, 3]),
        case((2, 1), shape=[4, -1, 5]),
        case((), shape=[2]),
    ],
)
Sample(
    "broadcast_like",
    ref=lambda x, like: np.broadcast_to(x, like.shape).copy(),
    cases=[case((3,), (2, 3)), case((2, 1), (4, 2, 5))],
)
Sample(
    "squeeze",
    ref=lambda x, *, axis: np.squeeze(
        x, tuple(a for a in (axis or range(x.ndim)) if x.shape[a] == 1)
    ),
    cases=[
        case((1, 3, 1), axis=[]),
        case((1, 3, 1), axis=[0]),
        case((2, 1), axis=[0, 1]),
    ],
)
Sample(
    "unsqueeze",
    ref=lambda x, *, axis: np.expand_dims(x, tuple(axis)),
    cases=[case((2, 3), axis=[0]), case((2, 3), axis=[1, -1])],
)


def _flatten(x: Array, *, start_axis: int, stop_axis: int) -> Array:
    start, stop = start_axis % x.ndim, stop_axis % x.ndim
    return x.reshape((*x.shape[:start], -1, *x.shape[stop + 1 :]))


Sample(
    "flatten",
    ref=_flatten,
    cases=[
        case((2, 3, 4), start_axis=0, stop_axis=-1),
        case((2, 3, 4, 5), start_axis=1, stop_axis=2),
    ],
)


def _slices(
    rank: int, axes: Any, starts: Any, ends: Any, steps: Any
) -> tuple[slice, ...]:
    out = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        out[axis] = slice(start, None if end in (END, -END - 1) else end, step)
    return tuple(out)


_SLICES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, list[int]]]] = [
    ((4, 5), (2, 5), {"axes": [0], "starts": [1], "ends": [3], "steps": [1]}),
    ((4, 5), (4, 5), {"axes": [1], "starts": [-1], "ends": [-END - 1], "steps": [-1]}),
    (
        (6, 70),
        (3, 35),
        {"axes": [0, 1], "starts": [0, 1], "ends": [END, END], "steps": [2, 2]},
    ),
    ((4, 5), (0, 5), {"axes": [0], "starts": [3], "ends": [2], "steps": [1]}),
]
Sample(
    "slice",
    ref=lambda x, **s: x[_slices(x.ndim, **s)],
    cases=[case(x, **s) for x, _, s in _SLICES],
)


def _slice_grad(dy: Array, like: Array, **spec: Any) -> Array:
    out = np.zeros(like.shape, dy.dtype)
    out[_slices(like.ndim, **spec)] = dy
    return out


Sample("slice_grad", ref=_slice_grad, cases=[case(v, x, **s) for x, v, s in _SLICES])


def _slice_assign(x: Array, v: Array, **spec: Any) -> Array:
    out = x.copy()
    out[_slices(x.ndim, **spec)] = v
    return out


Sample(
    "slice_assign",
    ref=_slice_assign,
    cases=[
        *[case(x, v, **s) for x, v, s in _SLICES],
        case((4, 5), (1, 5), axes=[0], starts=[1], ends=[3], steps=[1]),
        case((4, 5), (), axes=[1], starts=[0], ends=[2], steps=[1]),
    ],
    grad_cases=[case(x, v, **s) for x, v, s in _SLICES],
)
Sample(
    "select",
    ref=lambda x, *, axis, index: np.take(x, index, axis),
    cases=[case((2, 3), axis=0, index=1), case((2, 3, 4), axis=-2, index=-1)],
)


def _select_grad(dy: Array, like: Array, *, axis: int, index: int) -> Array:
    out = np.zeros(like.shape, dy.dtype)
    np.moveaxis(out, axis, 0)[index] = dy
    return out


Sample(
    "select_grad",
    ref=_select_grad,
    cases=[
        case((3,), (2, 3), axis=0, index=1),
        case((2, 4), (2, 3, 4), axis=1, index=-1),
    ],
)
Sample(
    "diagonal",
    ref=lambda x, *, offset, axis1, axis2: np.diagonal(x, offset, axis1, axis2),
    cases=[
        case((3, 4), offset=0, axis1=0, axis2=1),
        case((2, 3, 4), offset=1, axis1=1, axis2=2),
        case((3, 3), offset=-1, axis1=0, axis2=1),
    ],
)


def _diagonal_grad(
    dy: Array, like: Array, *, offset: int, axis1: int, axis2: int
) -> Array:
    out = np.zeros(like.shape, dy.dtype)
    view = np.diagonal(out, offset, axis1, axis2)
    view.flags.writeable = True
    view[...] = dy
    return out


Sample(
    "diagonal_grad",
    ref=_diagonal_grad,
    cases=[
        case((3,), (3, 4), offset=0, axis1=0, axis2=1),
        case((2, 3), (2, 3, 4), offset=1, axis1=1, axis2=2),
    ],
)

# -- copies --------------------------------------------------------------
Sample(
    "concat",
    ref=lambda *xs, axis: np.concatenate(xs, axis),
    cases=[
        case((2, 3), axis=0),
        case((2, 3), (4, 3), axis=0),
        case((2, 3), (2, 0), (2, 65), axis=-1),
        case((2, 3, 4), (2, 1, 4), axis=1),
    ],
)
Sample(
    "stack",
    ref=lambda *xs, axis: np.stack(xs, axis),
    cases=[
        case((2, 3), (2, 3), axis=0),
        case((2, 3), (2, 3), (2, 3), axis=-1),
        case((), (), axis=0),
    ],
)
_TILES = [
    ((2, 3), [2, 3]),
    ((2, 3), [4]),
    ((3,), [2, 2]),
    ((2, 1, 3), [1, 50, 2]),
    ((2, 3), [1, 0]),
]


def _tile_grad(dy: Array, like: Array, *, repeats: list[int]) -> Array:
    rank = max(like.ndim, len(repeats))
    counts = [1] * (rank - len(repeats)) + list(repeats)
    sizes = [1] * (rank - like.ndim) + list(like.shape)
    split = dy.reshape([n for pair in zip(counts, sizes, strict=True) for n in pair])
    total = split.sum(axis=tuple(range(0, 2 * rank, 2)), dtype=dy.dtype)
    return total.reshape(like.shape)


Sample(
    "tile",
    ref=lambda x, *, repeats: np.tile(x, repeats),
    cases=[case(s, repeats=r) for s, r in _TILES],
)
Sample(
    "tile_grad",
    ref=_tile_grad,
    cases=[case(np.tile(np.empty(s), r).shape, s, repeats=r) for s, r in _TILES],
    rtol={"float16": 1e-2, "bfloat16": 1e-1},
    atol={"float16": 2e-2, "bfloat16": 2e-1, "float32": 1e-4},
)

_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad(
    x: Array, *, low: list[int], high: list[int], mode: str, value: float = 0
) -> Array:
    if mode == "constant":
        crop = tuple(
            slice(max(-a, 0), n - max(-b, 0))
            for a, b, n in zip(low, high, x.shape, strict=True)
        )
        widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
        return np.pad(x[crop], widths, constant_values=x.dtype.type(value))
    return np.pad(x, list(zip(low, high, strict=True)), mode=_MODES[mode])


def _pad_grad(
    dy: Array, like: Array, *, low: list[int], high: list[int], mode: str
) -> Array:
    number = np.arange(1, like.size + 1).reshape(like.shape)
    source = _pad(number, low=low, high=high, mode=mode)
    out = np.zeros(like.size + 1, dy.dtype)
    np.add.at(out, source.ravel(), dy.ravel())
    return out[1:].reshape(like.shape)


_PADS: list[tuple[tuple[int, ...], list[int], list[int], str]] = [
    ((2, 3), [1, 0], [0, 2], "constant"),
    ((4, 5), [-1, 2], [1, -2], "constant"),
    ((2, 3, 40), [0, 1, 3], [0, 1, 5], "constant"),
    ((4, 5), [2, 0], [3, 4], "reflect"),
    ((3, 4), [2, 1], [0, 5], "replicate"),
    ((3, 4), [3, 1], [2, 4], "circular"),
]
Sample(
    "pad",
    ref=_pad,
    cases=[
        *[case(s, low=a, high=b, mode=m, value=0) for s, a, b, m in _PADS],
        case((2, 3), low=[1, 1], high=[1, 1], mode="constant", value=1),
    ],
)
Sample(
    "pad_grad",
    ref=_pad_grad,
    cases=[
        case(_pad(np.empty(s), low=a, high=b, mode=m).shape, s, low=a, high=b, mode=m)
        for s, a, b, m in _PADS
    ],
    rtol={"float16": 1e-2, "bfloat16": 5e-2},
    atol={"float16": 2e-2, "bfloat16": 1e-1},
)
for _name, _ref in [("tril", np.tril), ("triu", np.triu)]:
    Sample(
        _name,
        ref=lambda x, *, diagonal, _ref=_ref: _ref(x, diagonal),
        cases=[
            case((3, 4), diagonal=0),
            case((2, 5, 3), diagonal=1),
            case((5, 5), diagonal=-2),
            case((3, 3), diagonal=9),
        ],
    )
