"""Write the page of the names of Paddle 1.x and what each is called in 2.x.

    python tools/migration_names.py [--check]

docs/migration-names.md is made from the table that `proa migrate` reads. With --check
nothing is written, and it exits with 1 if the page is not what would be written.
"""

from __future__ import annotations

import argparse
import sys
from itertools import groupby
from pathlib import Path

from proa.migrate.table import ACTIVATION, DROPPED, OUTPUT, Row, rows

PAGE = Path(__file__).resolve().parent.parent / "docs" / "migration-names.md"
HEAD = """# Names of Paddle 1.x

What the names of Paddle 1.8 are called in 2.x: the table that `proa migrate` reads,
from which `tools/migration_names.py` writes this page. Arguments are listed that have
another name now (`dim: axis`) or are gone (`force_cpu: –`). `act` becomes a function
or layer of its own. Where there is no new name the last column says what to do.
"""


def arguments(row: Row) -> str:
    """The arguments that changed."""
    shown = {DROPPED: "–", ACTIVATION: "applied to the result", OUTPUT: "assigned to"}
    changed = [(old, shown.get(new, new)) for old, new in row.arguments if old != new]
    return ", ".join(f"`{old}`: {new}" for old, new in changed)


def line(row: Row) -> str:
    """The row of the page."""
    name = row.old.rpartition(".")[2]
    new = f"`{row.new}`" if row.new else ""
    cells = (f"`{name}`", new, arguments(row), row.note)
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    table = sorted(rows().values(), key=lambda row: row.old.rpartition(".")[::2])
    for module, group in groupby(table, key=lambda row: row.old.rpartition(".")[0]):
        lines = [f"\n## {module}\n", "| 1.x | 2.x | arguments | |", "|---|---|---|---|"]
        parts.append("\n".join([*lines, *map(line, group)]) + "\n")
    return "".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE.name} is not up to date: python tools/migration_names.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
