"""Plain NumPy forms of what the tests of this folder compare with, for any rank."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import proa


def numbers(*shape: int, seed: int = 0) -> Any:
    """float64, distinct enough that no two are nearer than a finite difference."""
    rng = np.random.default_rng(seed + sum(shape))
    size = int(np.prod(shape))
    return (rng.permutation(size) / max(size, 1) * 4 - 2).reshape(shape)


def conv(
    x: Any,
    w: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Any:
    """Cross-correlation of (N, C, axes) with (O, C / groups, axes), tap by tap."""
    axes = x.ndim - 2
    pads = [(0, 0), (0, 0), *zip(padding[::2], padding[1::2], strict=True)]
    x = np.pad(x, pads)
    size = [
        (x.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1
        for i in range(axes)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *size))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for tap in itertools.product(*map(range, w.shape[2:])):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, size, stride, strict=True)
        )
        for g in range(groups):
            part = x[(slice(None), slice(g * per_in, (g + 1) * per_in), *at)]
            o = slice(g * per_out, (g + 1) * per_out)
            y[:, o] += np.einsum("nc...,oc->no...", part, w[(o, slice(None), *tap)])
    return y


def conv_transpose(
    x: Any,
    w: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
    extra: Sequence[int] = (0, 0, 0),
) -> Any:
    """Every element of x (N, C, axes) adds itself times w (C, O / groups, axes)."""
    axes = x.ndim - 2
    whole = [
        (x.shape[2 + i] - 1) * stride[i] + dilation[i] * (w.shape[2 + i] - 1) + 1
        + extra[i]
        for i in range(axes)
    ]  # fmt: skip
    per_in, per_out = w.shape[0] // groups, w.shape[1]
    y = np.zeros((x.shape[0], per_out * groups, *whole))
    for tap in itertools.product(*map(range, w.shape[2:])):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, x.shape[2:], stride, strict=True)
        )
        for g in range(groups):
            c = slice(g * per_in, (g + 1) * per_in)
            o = slice(g * per_out, (g + 1) * per_out)
            k = w[(c, slice(None), *tap)]
            y[(slice(None), o, *at)] += np.einsum("nc...,co->no...", x[:, c], k)
    cut = tuple(
        slice(padding[2 * i], whole[i] - padding[2 * i + 1]) for i in range(axes)
    )
    return y[(slice(None), slice(None), *cut)]


def pool(x: Any, windows: Sequence[Sequence[slice]], f: Callable[..., Any]) -> Any:
    """f(part (N, C, window), slices) of every window; they are listed axis by axis."""
    counts = [len(w) for w in windows]
    y = np.zeros((*x.shape[:2], *counts))
    for place in itertools.product(*map(range, counts)):
        at = tuple(w[i] for w, i in zip(windows, place, strict=True))
        y[(slice(None), slice(None), *place)] = f(
            x[(slice(None), slice(None), *at)], at
        )
    return y


def windows_of(
    size: int, kernel: int, stride: int, low: int, high: int, ceil: bool = False
) -> list[slice]:
    """The windows along one axis, cut to what is no padding."""
    room = size + low + high - kernel
    count = (room + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (count - 1) * stride >= size + low:
        count -= 1
    starts = [i * stride - low for i in range(count)]
    return [slice(max(s, 0), min(s + kernel, size)) for s in starts]


def adaptive_windows(size: int, count: int) -> list[slice]:
    """Windows that cover an axis."""
    return [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def resample(x: Any, axis: int, at: Any, kind: str) -> Any:
    """x at the places ``at`` along an axis: nearest (below), linear or cubic."""
    n = x.shape[axis]

    def line(v: Any) -> Any:
        if kind == "linear":
            return np.interp(at, np.arange(n), v)
        if kind == "nearest":
            return v[np.minimum(at.astype(int), n - 1)]
        first = np.floor(at).astype(int)
        total = np.zeros(len(at))
        for k in range(-1, 3):
            d = np.abs(at - first - k)
            near = 1.25 * d**3 - 2.25 * d**2 + 1
            outer = -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)
            total += v[np.clip(first + k, 0, n - 1)] * np.where(d <= 1, near, outer)
        return total

    return np.apply_along_axis(line, axis, x)


def channels_last(x: Any) -> Any:
    """(N, C, axes) -> (N, axes, C)."""
    return np.moveaxis(x, 1, -1)


def slopes_agree(
    f: Callable[..., Any], *arrays: Any, second: bool = True, tol: float = 1e-5
) -> None:
    """First (and second) derivatives of sum(f * weights) are finite differences."""
    rng = np.random.default_rng(3)
    along = [rng.standard_normal(a.shape) for a in arrays]
    h = 1e-5

    def run(step: float, graph: bool = False) -> tuple[float, list[Any], list[Any]]:
        xs = [
            proa.to_tensor(a + step * d, stop_gradient=False)
            for a, d in zip(arrays, along, strict=True)
        ]
        y = f(*xs)
        weights = np.random.default_rng(4).standard_normal(y.shape)
        loss = (y * y * proa.to_tensor(weights)).sum()
        grads = proa.grad([loss], xs, create_graph=graph)
        return float(loss.numpy()), xs, grads

    def component(grads: list[Any]) -> float:
        return float(
            sum((g.numpy() * d).sum() for g, d in zip(grads, along, strict=True))
        )

    _, xs, grads = run(0.0, second)
    want = (run(h)[0] - run(-h)[0]) / (2 * h)
    np.testing.assert_allclose(component(grads), want, rtol=tol, atol=tol)
    if second:
        inner = sum(
            (g * proa.to_tensor(d)).sum() for g, d in zip(grads, along, strict=True)
        )
        got = component(proa.grad([inner], xs, allow_unused=True))
        want = (component(run(h)[2]) - component(run(-h)[2])) / (2 * h)
        np.testing.assert_allclose(got, want, rtol=10 * tol, atol=10 * tol)
