"""The layer report as one HTML page with histograms; it reads no other file."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proa.ir.program import Array, Node, Program, Value
from proa_slim.quant.interpret import interpret
from proa_slim.quant.model import QuantizedModel
from proa_slim.quant.scales import Scale
from proa_slim.web_page import document, table

_BINS, _WIDTH, _HEIGHT = 64, 260, 60


class Histogram(NamedTuple):
    """Counts of values between `low` and `high`, and where int8 clamps."""

    counts: NDArray[np.float64]
    low: float
    high: float
    limits: tuple[float, ...] = ()


def histograms(
    program: Program,
    nodes: Sequence[Node],
    batches: Sequence[Sequence[Array]],
    scales: Mapping[Value, Scale],
) -> dict[str, tuple[Histogram, Histogram]]:
    """Histograms of each node's first two operands, input and weight, by the name of
    its result.
    """
    read = [v for n in nodes for v in n.inputs[:2] if v is not None]
    wanted = {v for v in read if not v.is_constant}
    spans: dict[Value, tuple[float, float]] = {}
    counts: dict[Value, NDArray[np.float64]] = {}

    def span(value: Value, array: Array) -> None:
        if value in wanted:
            low, high = spans.get(value, (math.inf, -math.inf))
            spans[value] = min(low, float(array.min())), max(high, float(array.max()))

    def count(value: Value, array: Array) -> None:
        if value in wanted:
            found = np.histogram(array, _BINS, _bounds(*spans[value]))[0]
            counts[value] = counts.get(value, 0.0) + found.astype(np.float64)

    for watch in (span, count):
        for batch in batches:
            interpret(program, batch, watch)

    def histogram(value: Value | None) -> Histogram:
        assert value is not None
        if value.data is not None:
            return _of_array(np.asarray(value.data))
        scale, offset = scales[value]
        limits = (offset - 127 * scale, offset + 127 * scale)
        return Histogram(counts[value], *_bounds(*spans[value]), limits)

    return {
        node.outputs[0].name: (histogram(node.inputs[0]), histogram(node.inputs[1]))
        for node in nodes
    }


def _of_array(array: Array) -> Histogram:
    edges = _bounds(float(array.min()), float(array.max()))
    counts = np.histogram(array, _BINS, edges)[0].astype(np.float64)
    return Histogram(counts, *edges)


def _bounds(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def page(
    model: QuantizedModel,
    drops: Mapping[str, float],
    found: Mapping[str, tuple[Histogram, Histogram]],
) -> str:
    """The page.

    Args:
        model: With its report.
        drops: By the paths of layers, what the metric loses if one alone is quantized.
        found: Histograms, by the names of products' results.
    """
    rows = []
    order = sorted(model.report, key=lambda r: (-drops.get(r.layer, 0.0), r.sqnr_db))
    for r in order:
        drop = f"{drops[r.layer]:.4g}" if r.layer in drops else "&ndash;"
        cells = [
            html.escape(r.layer or r.name),
            html.escape(r.op),
            f"{r.sqnr_db:.2f}",
            f"{r.layer_sqnr_db:.2f}",
            f"{r.worst_channel_sqnr_db:.2f} (channel {r.worst_channel})",
            f"{r.max_abs_error:.4g}",
            drop,
            *[_svg(histogram) for histogram in found.get(r.name, ())],
        ]
        rows.append(cells)
    heads = (
        "layer", "op", "SQNR, dB", "alone, dB", "worst channel, dB", "max error",
        "drop alone", "input", "weight",
    )  # fmt: skip
    left = "".join(
        f"<li>{html.escape(path)}: {html.escape(why)}</li>"
        for path, why in model.unquantized.items()
    )
    unquantized = f"<h2>In float32</h2><ul>{left}</ul>" if left else ""
    return document(
        "Quantization by layer",
        "<p>Histograms have a logarithmic height; red lines are where int8 clamps the "
        f"input.</p>{table(heads, rows)}{unquantized}",
    )


def _svg(histogram: Histogram) -> str:
    counts, low, high, limits = histogram
    heights = np.log1p(counts) / max(float(np.log1p(counts.max())), 1e-9) * _HEIGHT
    width = _WIDTH / len(counts)
    bars = "".join(
        f'<rect class=bar x="{i * width:.1f}" y="{_HEIGHT - h:.1f}" '
        f'width="{width - 0.5:.1f}" height="{h:.1f}"/>'
        for i, h in enumerate(heights)
        if h > 0
    )
    lines = ""
    for limit in limits:
        at = (limit - low) / (high - low) * _WIDTH
        if 0 <= at <= _WIDTH:
            lines += (
                f'<line class=limit x1="{at:.1f}" x2="{at:.1f}" y1=0 y2={_HEIGHT} />'
            )
    return (
        f"<svg width={_WIDTH} height={_HEIGHT + 14} role=img>{bars}{lines}"
        f"<text x=0 y={_HEIGHT + 12} font-size=10>{low:.3g}</text>"
        f"<text x={_WIDTH} y={_HEIGHT + 12} font-size=10 text-anchor=end>{high:.3g}"
        "</text></svg>"
    )
