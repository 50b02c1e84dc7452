"""The table on the terminal, the figures in report.json, the page report.html and the
table as a picture, runtimes.svg.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import charts
import numpy as np
from numpy.typing import NDArray
from page import COLUMNS, cells, page
from rich.console import Console
from rich.table import Table


def print_table(rows: list[dict[str, Any]]) -> None:
    """One line for each runtime and precision."""
    table = Table(title="LeNet, the same file in every runtime, one thread each")
    for i, (_, title, _) in enumerate(COLUMNS):
        table.add_column(title, justify="left" if i < 2 else "right")
    for row in rows:
        table.add_row(*cells(row))
    Console(width=max(Console().width, 110)).print(table)


def write(
    folder: Path,
    report: dict[str, Any],
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    logits: NDArray[np.float32],
    classes: tuple[str, ...],
) -> None:
    """Write report.json, report.html and runtimes.svg, each in one step."""
    machine, measured = report["machine"], report["measured"]
    title = f"One file in every runtime: LeNet on {report['data']['name']}"
    note = f"{machine['cpu']}, {measured['threads']} thread each, {machine['date']}"
    pages = {
        "report.json": json.dumps(report, indent=2),
        "report.html": page(folder, report, images, labels, logits, classes),
        "runtimes.svg": charts.runtimes_picture(report["runtimes"], title, note),
    }
    for name, text in pages.items():
        _replace(folder / name, text.encode())


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)
