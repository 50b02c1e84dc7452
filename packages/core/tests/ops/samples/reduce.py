"""Records of reductions and scans."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..sample import Array, Case, Sample, case


def _axes(axis: list[int], rank: int) -> tuple[int, ...]:
    return tuple(axis) if axis else tuple(range(rank))


def _over(function: Callable[..., Array]) -> Callable[..., Array]:
    """A NumPy reduction with the row's attributes."""

    def of(x: Array, *, axis: list[int], keepdim: bool) -> Array:
        return function(x, axis=_axes(axis, x.ndim), keepdims=keepdim)

    return of


def _cases(*, empty: bool = True) -> list[Case]:
    given: list[tuple[tuple[int, ...], list[int], bool]] = [
        ((2, 3), [], False),
        ((2, 3), [0], True),
        ((3, 70), [1], False),
        ((3, 70), [0], False),
        ((2, 3, 4, 5), [1, 3], False),
        ((2, 3, 4, 5), [0, -1], True),
        ((4, 5, 33), [0, 1], False),
        ((4, 5, 33), [1], False),
        ((), [], False),
        ((300, 7), [0], False),
        ((5, 1, 2), [1], False),
    ]
    if empty:
        given += [((0, 3), [1], False), ((0, 3), [0], False)]
    return [case(s, axis=a, keepdim=k) for s, a, k in given]


# Long ones are cut into parts that are put together.
_LONG = [
    case((90000,), axis=[], keepdim=False),
    case((3, 70000), axis=[1], keepdim=False),
    case((9000, 24), axis=[0], keepdim=False),
]
_SMALL = [c for c in _cases(empty=False) if c.inputs != ((300, 7),)]


def _sum(x: Array, *, axis: list[int], keepdim: bool) -> Array:
    wide = np.int64 if x.dtype.kind in "iub" else None
    return np.sum(x, axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=wide)


_LOOSE = {
    "rtol": {"float16": 5e-3, "bfloat16": 4e-2, "float32": 2e-5},
    "atol": {"float16": 5e-3, "bfloat16": 4e-2, "float32": 1e-4},
}
Sample("sum", ref=_sum, cases=[*_cases(), *_LONG], grad_cases=_SMALL, **_LOOSE)
Sample("mean", ref=_over(np.mean), cases=[*_cases(), *_LONG], grad_cases=_SMALL)
Sample(
    "max",
    ref=_over(np.max),
    cases=[*_cases(empty=False), *_LONG],
    grad_cases=_SMALL,
    repeats=False,
)
Sample(
    "min",
    ref=_over(np.min),
    cases=[*_cases(empty=False), *_LONG],
    grad_cases=_SMALL,
    repeats=False,
)
Sample("all", ref=_over(np.all), cases=[*_cases(), *_LONG], domain=(-1, 1))
Sample("any", ref=_over(np.any), cases=[*_cases(), *_LONG], domain=(-1, 1))


def _prod(x: Array, *, axis: list[int], keepdim: bool) -> Array:
    wide = np.int64 if x.dtype.kind in "iub" else None
    return np.prod(x, axis=_axes(axis, x.ndim), keepdims=keepdim, dtype=wide)


_FEW = [
    case((2, 3), axis=[], keepdim=False),
    case((2, 3), axis=[1], keepdim=True),
    case((4, 40), axis=[0], keepdim=False),
    case((2, 3, 4), axis=[0, 2], keepdim=False),
]
Sample(
    "prod",
    ref=_prod,
    cases=[*_FEW, case((0, 3), axis=[0], keepdim=False)],
    grad_cases=_FEW,
    domain=(0.5, 1.5),
)


def _prod_grad(
    dy: Array, y: Array, x: Array, *, axis: list[int], keepdim: bool
) -> Array:
    axes = _axes(axis, x.ndim)
    full = dy if keepdim else np.expand_dims(dy, axes)
    out = np.zeros(x.shape, np.result_type(x, dy))
    for at in np.ndindex(x.shape):
        rest = x.copy()
        rest[at] = 1
        share = np.prod(rest, axis=axes, keepdims=True)
        at_full = tuple(
            0 if d in [a % x.ndim for a in axes] else i for d, i in enumerate(at)
        )
        out[at] = full[at_full] * share[at_full]
    return out


_ZEROS = np.array([[1.5, 0.0, 2.0], [0.0, 0.0, 3.0], [1.0, 2.0, 0.5]])
Sample(
    "prod_grad",
    ref=_prod_grad,
    cases=[
        case((3,), (3,), lambda rng: _ZEROS, axis=[1], keepdim=False),
        case((3, 1), (3, 1), lambda rng: _ZEROS, axis=[1], keepdim=True),
    ],
    dtypes=("float16", "bfloat16", "float32", "float64"),
    grad=False,
)


def _expanded(dy: Array, like: Array, *, axis: list[int], keepdim: bool) -> Array:
    full = dy if keepdim else np.expand_dims(dy, _axes(axis, like.ndim))
    return np.broadcast_to(full, like.shape).copy()


_EXPANDED = [
    case((2,), (2, 3), axis=[1], keepdim=False),
    case((2, 1), (2, 3), axis=[1], keepdim=True),
    case((), (2, 3), axis=[], keepdim=False),
    case((4,), (3, 4, 50), axis=[0, 2], keepdim=False),
]
Sample("expand_reduced", ref=_expanded, cases=_EXPANDED)
Sample(
    "mean_grad",
    ref=lambda dy, like, **a: _expanded(dy, like, **a) * (max(dy.size, 1) / like.size),
    cases=_EXPANDED,
)


def _logsumexp(x: Array, *, axis: list[int], keepdim: bool) -> Array:
    axes = _axes(axis, x.ndim)
    peak = np.max(x, axis=axes, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0)
    y = np.log(np.sum(np.exp(x - peak), axis=axes, keepdims=True)) + peak
    return y if keepdim else np.squeeze(y, axes)


Sample(
    "logsumexp",
    ref=_logsumexp,
    cases=[
        *_cases(empty=False),
        case(
            np.array([[np.inf, 1.0], [-np.inf, -np.inf], [np.nan, 2.0], [1e4, -1e4]]),
            axis=[1],
            keepdim=False,
        ),
    ],
    grad_cases=_SMALL,
)


def _arg(function: Callable[..., Array]) -> Callable[..., Array]:
    def of(x: Array, *, axis: int, keepdim: bool) -> Array:
        if x.ndim == 0:
            return np.array(0)
        return function(x, axis=axis, keepdims=keepdim)

    return of


_NAN = np.array([[1.0, np.nan, 3.0, np.nan], [2.0, 2.0, 1.0, 1.0]])
_ARG = [
    case((2, 3), axis=-1, keepdim=False),
    case((2, 3), axis=0, keepdim=True),
    case((3, 400), axis=1, keepdim=False),
    case((4, 30, 3), axis=1, keepdim=False),
    case(_NAN, axis=1, keepdim=False),
    case((), axis=-1, keepdim=False),
]
Sample("argmax", ref=_arg(np.argmax), cases=_ARG)
Sample("argmin", ref=_arg(np.argmin), cases=_ARG)


def _cumsum(x: Array, *, axis: int, reverse: bool) -> Array:
    if x.ndim == 0:
        return x
    if reverse:
        return np.flip(np.cumsum(np.flip(x, axis), axis, dtype=x.dtype), axis)
    return np.cumsum(x, axis, dtype=x.dtype)


Sample(
    "cumsum",
    ref=_cumsum,
    cases=[
        case((2, 3), axis=-1, reverse=False),
        case((4, 5, 3), axis=1, reverse=True),
        case((2, 300), axis=1, reverse=False),
        case((0, 3), axis=1, reverse=False),
    ],
    rtol={"float16": 1e-2, "bfloat16": 4e-2, "float32": 2e-5},
)
Sample(
    "cumprod",
    ref=lambda x, *, axis: np.cumprod(x, axis, dtype=x.dtype).reshape(x.shape),
    cases=[case((2, 3), axis=-1), case((4, 5), axis=0)],
    domain=(0.5, 1.5),
)


def _linear_recurrence(
    x: Array, b: Array, *, axis: int, reverse: bool, initial: float
) -> Array:
    x, b = (np.moveaxis(a, axis, 0) for a in np.broadcast_arrays(x, b))
    if reverse:
        x, b = x[::-1], b[::-1]
    y = np.empty_like(x)
    state = np.full(x.shape[1:], initial, x.dtype)
    for k in range(len(x)):
        y[k] = state
        state = x[k] * state + b[k]
    return np.moveaxis(y[::-1] if reverse else y, 0, axis)


Sample(
    "linear_recurrence",
    ref=_linear_recurrence,
    cases=[
        case((2, 3), (2, 3), axis=-1, reverse=False, initial=0.0),
        case((4, 5, 3), (4, 5, 3), axis=1, reverse=True, initial=1.5),
        case((3, 4), (4,), axis=0, reverse=False, initial=-1.0),
        case((1, 4), (5, 1), axis=1, reverse=True, initial=1.0),
        case((2, 40), (2, 40), axis=1, reverse=False, initial=1.0),
        case((0, 3), (0, 3), axis=1, reverse=False, initial=0.0),
        case((2, 0), (2, 0), axis=1, reverse=True, initial=0.0),
    ],
    domain=(-1.0, 1.0),
)


def _sum_to(x: Array, like: Array) -> Array:
    lead = x.ndim - like.ndim
    axes = tuple(range(lead)) + tuple(
        lead + d for d, n in enumerate(like.shape) if n == 1 and x.shape[lead + d] != 1
    )
    kind = {"dtype": x.dtype} if x.dtype.kind != "b" else {}
    return (
        np.sum(x, axis=axes, keepdims=True, **kind).reshape(like.shape).astype(x.dtype)
    )


Sample(
    "sum_to",
    ref=_sum_to,
    cases=[
        case((2, 3), (3,)),
        case((2, 3), (2, 1)),
        case((2, 3), (2, 3)),
        case((4, 5, 33), (5, 1)),
        case((2, 3, 4, 5), (3, 1, 5)),
        case((600, 17), (17,)),
        case((2, 3), ()),
    ],
    **_LOOSE,
)
Sample(
    "squared_norm",
    ref=lambda *xs: np.array(sum(float(np.sum(np.square(x))) for x in xs)),
    cases=[case((2, 3)), case((3, 40), (5,), ()), case((0,), (2,))],
    rtol={"float64": 1e-6},
)
