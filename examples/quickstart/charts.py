"""Charts as SVG, in colours of the page around them, so that they follow its theme.

Every axis of bars begins at zero; accuracies are drawn from 0 to 1.
"""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = Sequence[dict[str, Any]]
WIDTH = 480


def kilobytes(size: float) -> str:
    """A size in KB of 1,000 bytes, with a digit after the point below 100."""
    return f"{size / 1000:,.1f} KB" if size < 100_000 else f"{size / 1000:,.0f} KB"


def label(row: dict[str, Any]) -> str:
    return f"{row['runtime']} {row['precision']}"


def bars(
    items: Sequence[tuple[str, float, str]], title: str, form: Callable[[float], str]
) -> str:
    """Horizontal bars of (label, value, kind), from zero; the kind is the colour."""
    height, left, maximum = 26, 150, max(value for _, value, _ in items)
    room = WIDTH - left - 84
    parts = []
    for i, (name, value, kind) in enumerate(items):
        y, length = i * height, max(1.5, room * value / maximum)
        parts.append(
            f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{html.escape(name)}'
            f'</text><rect class="{kind}" x="{left}" y="{y + 4}" width="{length:.1f}" '
            f'height="{height - 8}" rx="3"/>'
            f'<text x="{left + length + 7:.1f}" y="{y + 17}">{form(value)}</text>'
        )
    return svg(title, height * len(items), "".join(parts))


def svg(title: str, height: float, content: str) -> str:
    """An SVG element of the common width, which says what it shows."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{html.escape(title)}">{content}</svg>'
    )


def training_curve(train: dict[str, Any]) -> str:
    """Loss by step (left axis, from 0) and test accuracy by epoch (right, 0 to 1)."""
    loss = np.asarray(train["loss"], np.float64)
    accuracy, left, right, top, bottom = train["accuracy"], 40, 440, 12, 212
    window = max(1, len(loss) // 60)
    smooth = np.convolve(loss, np.ones(window) / window, "valid")
    maximum = float(np.ceil(smooth.max() * 2) / 2)

    def points(values: NDArray[np.float64], first: float) -> str:
        x = left + (right - left) * (first + np.arange(len(values))) / len(loss)
        y = bottom - (bottom - top) * values / maximum
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = bottom - (bottom - top) * share
        parts.append(
            f'<path class="grid" d="M{left} {y}H{right}"/>'
            f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{maximum * share:.3g}'
            f'</text><text x="{right + 6}" y="{y + 4}">{share:g}</text>'
        )
    parts.append(f'<polyline class="fp32" points="{points(smooth, window / 2)}"/>')
    marks = []
    for epoch, value in enumerate(accuracy, 1):
        x = left + (right - left) * epoch / max(len(accuracy), 1)
        y = bottom - (bottom - top) * value
        marks.append((x, y))
        parts.append(f'<circle class="int8" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
        parts.append(
            f'<text x="{x - 8:.1f}" y="{y + 20:.1f}" text-anchor="end">{value:.3f}'
            "</text>"
        )
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in marks)
    parts.append(f'<polyline class="int8" points="{line}"/>')
    parts.append(
        f'<text x="{left}" y="{bottom + 20}">0</text>'
        f'<text x="{right}" y="{bottom + 20}" text-anchor="end">{len(loss):,} steps'
        "</text>"
        f'<text x="{left + 60}" y="{bottom + 20}" class="key-fp32">loss (left)</text>'
        f'<text x="{left + 160}" y="{bottom + 20}" class="key-int8">'
        "test accuracy (right)</text>"
    )
    return svg("Loss by step and test accuracy by epoch", bottom + 28, "".join(parts))


def confusion(
    labels: NDArray[np.int64], logits: NDArray[np.float32], classes: Sequence[str]
) -> str:
    """Counts of (true, predicted) pairs; the darker, the more."""
    n = len(classes)
    counts = np.zeros((n, n), np.int64)
    np.add.at(counts, (labels, logits.argmax(1)), 1)
    left, top, cell = 84, 78, (WIDTH - 84 - 34) / n
    parts = []
    for i, j in np.ndindex(n, n):
        x, y = left + j * cell, top + i * cell * 0.75
        share = counts[i, j] / max(counts[i].sum(), 1)
        kind = "true" if i == j else "false"
        parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{cell - 1:.1f}" '
            f'height="{cell * 0.75 - 1:.1f}" fill-opacity="{0.06 + 0.94 * share:.2f}"/>'
        )
        if counts[i, j]:
            strong = ' class="strong"' if share > 0.6 else ""
            parts.append(
                f'<text{strong} x="{x + cell / 2:.1f}" y="{y + cell * 0.375 + 4:.1f}" '
                f'text-anchor="middle">{counts[i, j]}</text>'
            )
    for i, name in enumerate(classes):
        y = top + (i + 0.5) * cell * 0.75 + 4
        x = left + (i + 0.5) * cell
        parts.append(
            f'<text x="{left - 6}" y="{y:.1f}" text-anchor="end">{html.escape(name)}'
            f'</text><text transform="translate({x:.1f} {top - 8}) rotate(-50)">'
            f"{html.escape(name)}</text>"
        )
    title = "Confusion matrix: rows are the truth, columns the prediction"
    return svg(title, top + n * cell * 0.75 + 2, "".join(parts))


def image_uri(image: NDArray[np.float32]) -> str:
    """A grey image in [-1, 1] as a PNG, inline."""
    grey = np.clip((image + 1) * 127.5, 0, 255).astype(np.uint8)
    height, width = grey.shape
    scanlines = b"".join(b"\0" + row.tobytes() for row in grey)

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    png += chunk(b"IDAT", zlib.compress(scanlines, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


# A picture outside of the page needs its own colours, for light and dark.
PICTURE_STYLE = """
svg { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; }
.card { fill: #fff; stroke: #d5dbe3; } text { fill: #1c2733; }
.soft, .head { fill: #5a6878; } .head { font-size: 11px; } .title { font-weight: 600; }
.fp32 { fill: #3d74b8; } .int8 { fill: #d9782d; } .rule { stroke: #e6eaef; }
@media (prefers-color-scheme: dark) {
.card { fill: #161b22; stroke: #30363d; } text { fill: #e3e8ee; }
.soft, .head { fill: #9aa7b5; }
.fp32 { fill: #6ba3e5; } .int8 { fill: #f09a55; } .rule { stroke: #262d36; } }
"""


def runtimes_picture(rows: Rows, title: str, note: str) -> str:
    """The table of runtimes as a picture of its own, with bars of latency and size."""
    width, line, top = 820, 30, 86
    height = top + line * len(rows) + 38
    slowest = max(row["p50_ms"] for row in rows)
    largest = max(row["file_bytes"] for row in rows)
    heads = ((24, "runtime"), (130, "precision"), (206, "accuracy"),
             (290, "latency of one image, median"), (590, "file"))  # fmt: skip
    parts = [
        f'<rect class="card" x=".5" y=".5" width="{width - 1}" height="{height - 1}" '
        f'rx="8"/><text class="title" x="24" y="34" font-size="16">'
        f"{html.escape(title)}</text>"
    ]
    parts += [f'<text class="head" x="{x}" y="{top - 14}">{t}</text>' for x, t in heads]
    for i, row in enumerate(rows):
        y, kind = top + i * line, row["precision"]
        wide = 170 * row["p50_ms"] / slowest
        size = 110 * row["file_bytes"] / largest
        parts.append(
            f'<path class="rule" d="M24 {y - 4}H{width - 24}"/>'
            f'<text x="24" y="{y + 16}">{html.escape(row["runtime"])}</text>'
            f'<text class="soft" x="130" y="{y + 16}">{kind}</text>'
            f'<text x="206" y="{y + 16}">{row["accuracy"]:.4f}</text>'
            f'<rect class="{kind}" x="290" y="{y + 4}" width="{max(2, wide):.1f}" '
            f'height="15" rx="3"/>'
            f'<text x="{298 + max(2, wide):.1f}" y="{y + 16}">{row["p50_ms"]:.3f} ms'
            "</text>"
            f'<rect class="{kind}" x="590" y="{y + 4}" width="{max(2, size):.1f}" '
            f'height="15" rx="3"/><text x="{598 + max(2, size):.1f}" y="{y + 16}">'
            f"{kilobytes(row['file_bytes'])}</text>"
        )
    parts.append(
        f'<text class="head" x="24" y="{height - 16}">{html.escape(note)}</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        f'aria-label="{html.escape(title)}"><style>{PICTURE_STYLE}</style>'
        f"{''.join(parts)}</svg>\n"
    )
