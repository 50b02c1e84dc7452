"""Report pages: one HTML file that reads no other."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_STYLE = """
body { font: 14px/1.4 sans-serif; margin: 2em auto; max-width: 70em; color: #222 }
table { border-collapse: collapse } td, th { padding: .2em .7em; text-align: right }
th { border-bottom: 1px solid #888 } td:first-child, th:first-child { text-align: left }
tr:nth-child(even) { background: #f4f4f4 } svg { background: #fafafa }
.bar { fill: #4a7ab5 } .limit { stroke: #c22; stroke-width: 1.5 }
.line { fill: none; stroke: #c22; stroke-width: 1.5 } .dim { fill: #bbb }
.best td { font-weight: bold }
"""


def document(title: str, body: str) -> str:
    """The page; `body` is HTML."""
    name = html.escape(title)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<title>{name}</title><style>{_STYLE}</style><h1>{name}</h1>{body}</html>\n"
    )


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], best: int | None = None
) -> str:
    """A table of cells, which are HTML; row `best` is bold."""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    lines = []
    for number, row in enumerate(rows):
        mark = " class=best" if number == best else ""
        cells = "".join(f"<td>{cell}</td>" for cell in row)
        lines.append(f"<tr{mark}>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"
