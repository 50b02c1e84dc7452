"""The table on the terminal, the figures in report.json, the page report.html."""

from __future__ import annotations

import base64
import html
import io
import json
import os
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

COLUMNS: list[tuple[str, str, str]] = [
    ("runtime", "runtime", "{}"),
    ("precision", "precision", "{}"),
    ("accuracy", "accuracy", "{:.4f}"),
    ("agreement", "agreement", "{:.4f}"),
    ("p50_ms", "p50 ms", "{:.3f}"),
    ("p99_ms", "p99 ms", "{:.3f}"),
    ("images_per_s", "images/s", "{:,.0f}"),
    ("file_bytes", "file bytes", "{:,}"),
    ("rss_mb", "RSS MB", "{:.1f}"),
]


def _cells(row: dict[str, Any]) -> list[str]:
    return [form.format(row[key]) for key, _, form in COLUMNS]


def print_table(rows: list[dict[str, Any]]) -> None:
    """One line for each runtime and precision."""
    table = Table(title="LeNet, the same file in every runtime")
    for i, (_, title, _) in enumerate(COLUMNS):
        table.add_column(title, justify="left" if i < 2 else "right")
    for row in rows:
        table.add_row(*_cells(row))
    Console(width=max(Console().width, 110)).print(table)


def write(
    folder: Path,
    report: dict[str, Any],
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    logits: NDArray[np.float32],
    classes: tuple[str, ...],
) -> None:
    """Write report.json, report.html and the pictures, each in one step."""
    figures = {
        "training": _training_curve(report["train"]),
        "confusion": _confusion(labels, logits, classes),
        "samples": _samples(images, labels, logits, classes),
        "table": _table_picture(report["runtimes"]),
    }
    pictures = {}
    for name, figure in figures.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130, bbox_inches="tight")
        plt.close(figure)
        pictures[name] = buffer.getvalue()
        _replace(folder / f"{name}.png", buffer.getvalue())
    _replace(folder / "report.json", json.dumps(report, indent=2).encode())
    _replace(folder / "report.html", _page(report, pictures).encode())


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def _training_curve(train: dict[str, Any]) -> Figure:
    figure, axes = plt.subplots(figsize=(7, 3.5))
    loss = np.asarray(train["loss"])
    axes.plot(loss, color="#b8c9dd", linewidth=0.6, label="loss by step")
    width = max(1, len(loss) // 60)
    if len(loss) >= width:
        smooth = np.convolve(loss, np.ones(width) / width, "valid")
        axes.plot(
            np.arange(len(smooth)) + width // 2, smooth, color="#1f5a99", label="mean"
        )
    axes.set(xlabel="step", ylabel="cross-entropy", ylim=(0, None))
    right = axes.twinx()
    epochs = len(train["accuracy"])
    steps = np.linspace(len(loss) / max(epochs, 1), len(loss), epochs)
    right.plot(steps, train["accuracy"], "o-", color="#c25b12", label="test accuracy")
    right.set(ylabel="test accuracy")
    lines = axes.get_legend_handles_labels()[0] + right.get_legend_handles_labels()[0]
    axes.legend(lines, [str(line.get_label()) for line in lines], loc="center right")
    return figure


def _confusion(
    labels: NDArray[np.int64], logits: NDArray[np.float32], classes: tuple[str, ...]
) -> Figure:
    n = len(classes)
    counts = np.zeros((n, n), np.int64)
    np.add.at(counts, (labels, logits.argmax(1)), 1)
    figure, axes = plt.subplots(figsize=(6.5, 6))
    axes.imshow(counts, cmap="Blues")
    axes.set_xticks(range(n), classes, rotation=60, ha="right")
    axes.set_yticks(range(n), classes)
    axes.set(xlabel="predicted", ylabel="true")
    for i, j in np.ndindex(n, n):
        colour = "white" if counts[i, j] > counts.max() / 2 else "black"
        axes.text(
            j, i, str(counts[i, j]), ha="center", va="center", color=colour, fontsize=7
        )
    return figure


def _samples(
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    logits: NDArray[np.float32],
    classes: tuple[str, ...],
) -> Figure:
    figure, grid = plt.subplots(3, 8, figsize=(11, 5))
    guess = logits.argmax(1)
    wrong = np.flatnonzero(guess != labels)[:8]
    shown = np.concatenate([np.flatnonzero(guess == labels)[: 24 - len(wrong)], wrong])
    for axes, i in zip(grid.ravel(), shown, strict=False):
        axes.imshow(images[i, 0], cmap="gray")
        right = guess[i] == labels[i]
        title = (
            classes[guess[i]]
            if right
            else f"{classes[guess[i]]}\n({classes[labels[i]]})"
        )
        axes.set_title(title, fontsize=7, color="black" if right else "#b00020")
    for axes in grid.ravel():
        axes.set_axis_off()
    return figure


def _table_picture(rows: list[dict[str, Any]]) -> Figure:
    figure, axes = plt.subplots(figsize=(11, 0.4 * (len(rows) + 1)))
    axes.set_axis_off()
    cells = [_cells(row) for row in rows]
    table = axes.table(cells, colLabels=[t for _, t, _ in COLUMNS], loc="center")
    table.scale(1, 1.4)
    table.set_fontsize(9)
    return figure


def _page(report: dict[str, Any], pictures: dict[str, bytes]) -> str:
    def picture(name: str, caption: str) -> str:
        data = base64.b64encode(pictures[name]).decode()
        return (
            f'<figure><img src="data:image/png;base64,{data}" alt="{caption}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )

    head = "".join(f"<th>{title}</th>" for _, title, _ in COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in _cells(row)) + "</tr>"
        for row in report["runtimes"]
    )
    seconds = ", ".join(
        f"{k} {v:.1f} s" for k, v in report["seconds"].items() if v is not None
    )
    data = report["data"]
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8">
<title>Proa: LeNet from training to serving</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; }}
body {{ max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #ddd; }}
td:nth-child(-n+2), th:nth-child(-n+2) {{ text-align: left; }}
img {{ max-width: 100%; }} figure {{ margin: 2rem 0; }} figcaption {{ color: #555; }}
</style>
<h1>LeNet, from training to serving</h1>
<p>Data: {html.escape(data["name"])} from {html.escape(data["source"])}
({data["train"]:,} + {data["test"]:,} images). {seconds}.</p>
<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>
<p>fp32 logits differ by at most {report["fp32_max_abs_diff"]:.2e} between runtimes;
int8 logits are
{"bit-equal" if report["int8_bit_equal"] else "NOT bit-equal"} between them.</p>
{picture("training", "Training: loss by step and test accuracy by epoch")}
{picture("confusion", "Confusion matrix of the fp32 model on the test images")}
{picture("samples", "Sample predictions; in red what it got wrong (truth in brackets)")}
{picture("table", "The table as a picture")}
</html>
"""
