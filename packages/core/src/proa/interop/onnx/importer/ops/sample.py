"""GridSample: elements at places between those of an array."""

from __future__ import annotations

import itertools
import math
from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op

#: The coefficient of cubic interpolation (Keys, 1981).
_CUBIC = -0.75
_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@onnx_op("GridSample")
def grid_sample(call: Call, x: Any, grid: Any) -> Any:
    mode = call.get("mode", "linear")
    mode = _MODES.get(mode, mode)
    padding, corners = call.get("padding_mode", "zeros"), call.get("align_corners", 0)
    if mode == "linear" and x.ndim == 4:
        return F.grid_sample(x, grid, "bilinear", padding, bool(corners))
    return _by_taps(call, x, grid, mode, padding)


def _taps(at: Any, mode: str) -> list[tuple[Any, Any]]:
    """The places along an axis that an element is made of, with their weights."""
    if mode == "nearest":
        return [(proa.round(at), None)]
    low = proa.floor(at)
    t = at - low
    if mode == "linear":
        return [(low, 1.0 - t), (low + 1.0, t)]
    found = []
    for i in range(-1, 3):
        d = proa.abs(t - float(i))
        if i in (0, 1):
            weight = ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1.0
        else:
            weight = ((d - 5.0) * d + 8.0) * d * _CUBIC - 4.0 * _CUBIC
        found.append((low + float(i), weight))
    return found


def _inside(at: Any, n: int, padding: str, corners: bool) -> tuple[Any, Any]:
    """A place within an axis of n elements, and which ones were; None if all."""
    if padding == "zeros":
        inside = proa.logical_and(
            proa.greater_equal(at, proa.zeros_like(at)),
            proa.less_equal(at, proa.full_like(at, n - 1)),
        )
        return proa.clip(at, 0.0, n - 1.0), inside
    if padding == "reflection":
        low, span = (0.0, n - 1.0) if corners else (-0.5, float(n))
        span = max(span, 1.0)
        away = proa.abs(at - low)
        periods = proa.floor(away / span)
        rest = away - periods * span
        odd = periods - 2.0 * proa.floor(periods / 2.0)
        at = low + rest + odd * (span - 2.0 * rest)
    return proa.clip(at, 0.0, n - 1.0), None


def _by_taps(call: Call, x: Any, grid: Any, mode: str, padding: str) -> Any:
    """Any number of axes, as a sum over the places that surround each element."""
    batch, channels, *sizes = call.known(x.shape)
    rank, corners = len(sizes), bool(call.get("align_corners", 0))
    outer = call.known(grid.shape)[1:-1]
    lines = []
    for i, n in enumerate(sizes):
        # The grid has x first, which is the last axis.
        g = proa.slice(grid, [rank + 1], [rank - 1 - i], [rank - i])
        g = proa.reshape(g, [batch, 1, -1])
        at = (g + 1.0) * (0.5 * (n - 1)) if corners else ((g + 1.0) * n - 1.0) * 0.5
        lines.append(
            [(*_inside(p, n, padding, corners), w) for p, w in _taps(at, mode)]
        )
    flat = proa.reshape(x, [batch, channels, -1])
    steps = [math.prod(sizes[i + 1 :]) for i in range(rank)]
    found: Any = None
    for taps in itertools.product(*lines):
        places = [p * float(s) for (p, _, _), s in zip(taps, steps, strict=True)]
        index = sum(places[1:], places[0]).astype("int64")
        index = proa.expand(index, [batch, channels, index.shape[2]])
        value = proa.take_along_axis(flat, index, 2)
        for _, inside, weight in taps:
            value = value if weight is None else value * weight
            if inside is not None:
                value = value * inside.astype(value.dtype)
        found = value if found is None else found + value
    return proa.reshape(found, [batch, channels, *outer])
