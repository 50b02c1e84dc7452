"""The page of a search: rewards over trials, and what each trial was."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proa_slim.web_page import document, table

if TYPE_CHECKING:
    from proa_slim.search.study import Record

_WIDTH, _HEIGHT = 720, 200


def page(
    name: str, records: Sequence[Record], best: int, size: int, maximize: bool
) -> str:
    """The page.

    Args:
        name: Name of the search.
        records: Its trials.
        best: The number of the best.
        size: How many architectures the space has.
        maximize: Whether greater rewards are better.
    """
    chosen = next(record for record in records if record.number == best)
    stopped = sum(record.stopped for record in records)
    epochs = sum(record.epochs for record in records)
    full = max((record.epochs for record in records), default=0) * len(records)
    saved = f", {1 - epochs / full:.0%} of the epochs saved" if full else ""
    seconds = sum(record.seconds for record in records)
    text = (
        f"<p>{len(records)} trials of {size:,} architectures in {seconds:.0f} s; "
        f"{stopped} stopped early{saved}. The best is trial {best} with "
        f"{chosen.reward:.6g}:</p><pre>{_arch(chosen)}</pre>"
    )
    notes = list(dict.fromkeys(key for record in records for key in record.notes))
    sign = 1 if maximize else -1
    order = sorted(records, key=lambda r: (r.stopped, -sign * r.reward, r.number))
    rows = [
        [
            str(record.number),
            f"{record.reward:.6g}",
            (f"stopped after {record.epochs}" if record.stopped else "finished"),
            f"{record.seconds:.1f}",
            *[html.escape(_text(record.notes.get(key, "–"))) for key in notes],
            _arch(record),
        ]
        for record in order
    ]
    heads = ("trial", "reward", "state", "seconds", *notes, "architecture")
    chart = _chart(records, sign)
    return document(
        f"Architecture search: {name}", text + chart + table(heads, rows, best=0)
    )


def _arch(record: Record) -> str:
    text = ", ".join(f"{name}: {option}" for name, option in record.arch.items())
    return html.escape(text)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _chart(records: Sequence[Record], sign: int) -> str:
    """A dot for each trial, grey if it was stopped, and the best so far as a line."""
    rewards = [record.reward for record in records]
    low, high = min(rewards), max(rewards)
    span = (high - low) or 1.0

    def at(i: int, reward: float) -> tuple[float, float]:
        x = 10 + (_WIDTH - 20) * i / max(len(records) - 1, 1)
        return x, _HEIGHT - 10 - (_HEIGHT - 20) * (reward - low) / span

    dots, points, best = "", [], -sign * float("inf")
    for i, record in enumerate(records):
        x, y = at(i, record.reward)
        kind = "dim" if record.stopped else "bar"
        dots += f'<circle class={kind} cx="{x:.1f}" cy="{y:.1f}" r=3 />'
        if not record.stopped:
            best = sign * max(sign * best, sign * record.reward)
            points.append(at(i, best))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f"<svg width={_WIDTH} height={_HEIGHT + 14} role=img>{dots}"
        f'<polyline class=line points="{line}"/>'
        f"<text x=0 y={_HEIGHT + 12} font-size=10>{low:.4g} to {high:.4g}; red: the "
        "best so far; grey: stopped early</text></svg>"
    )
