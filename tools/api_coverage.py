"""Compare the public names of the installed `proa` with a table of Paddle's API.

    python tools/api_coverage.py TABLE [--missing] [--areas AREA ...] [--priority N]
                                 [--page docs/coverage.md]

TABLE is a TSV with the columns `name` (`paddle.nn.Linear`), `kind`, `signature`,
`since`, `area`, `priority` and `note`. A name is in scope if Paddle 2.0 or 2.1
documents it and it is not of distributed training or export. Three things are
checked: that it exists, that it takes the documented parameters (of the signature, or
of 2.1's in the note), and that a test mentions it. `--missing` lists the names that
fall short, `--page` writes the page of the documentation.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Distributed training, export and devices that Proa does not have are other features.
OTHER_AREAS = ("distributed", "onnx")
# Programs get these from functions (`static.data`) and do not call the class.
NOT_CONSTRUCTED = ("paddle.static.Variable",)
OTHER_NAMES = re.compile(r"cuda|npu|xpu|cudnn")


@dataclass(frozen=True)
class Name:
    """One row of the table and what was found of it."""

    path: str
    area: str
    priority: int
    exists: bool
    lacking: tuple[str, ...]  # documented parameters that are not taken
    tested: bool

    @property
    def complete(self) -> bool:
        return self.exists and not self.lacking and self.tested

    def shortfall(self) -> str:
        if not self.exists:
            return "missing"
        parts = []
        if self.lacking:
            parts.append(f"does not take {', '.join(self.lacking)}")
        if not self.tested:
            parts.append("no test")
        return "; ".join(parts)


def in_scope(row: dict[str, str]) -> bool:
    return (
        row["since"] in ("docs>=2.0", "docs>=2.1")
        and not row["area"].startswith(OTHER_AREAS)
        and not OTHER_NAMES.search(row["name"])
    )


def found(path: str) -> object | None:
    """The object of a dotted name, `paddle` read as `proa`; None if it is missing."""
    parts = path.replace("paddle", "proa", 1).split(".")
    value: object = importlib.import_module(parts[0])
    for index, part in enumerate(parts[1:], 2):
        try:
            if inspect.ismodule(value) and not hasattr(value, part):
                importlib.import_module(".".join(parts[:index]))
            if _is_property(value, part):
                value = inspect.getattr_static(value, part)
            else:
                value = getattr(value, part)
        except (ImportError, AttributeError):
            return None
    return value


def _is_property(owner: object, name: str) -> bool:
    return inspect.isclass(owner) and isinstance(
        inspect.getattr_static(owner, name, None), property
    )


def parameters(text: str) -> list[str]:
    """The parameter names in the text of a signature."""
    if not text.startswith("(") or "[" in text.split("=")[0] or text == "(native)":
        return []
    names, depth, part = [], 0, ""
    for letter in text[1:-1] + ",":
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            names.append(part.split("=")[0].split(":")[0].strip())
            part = ""
        else:
            part += letter
    return [n for n in names if n.isidentifier() and n not in ("self", "cls")]


def lacking(value: object, row: dict[str, str]) -> tuple[str, ...]:
    """Documented parameters that a callable does not take by name."""
    if row["kind"] not in ("function", "class", "method") or not callable(value):
        return ()
    if row["name"] in NOT_CONSTRUCTED:
        return ()
    if row["name"].rpartition(".")[2].startswith("__"):
        return ()  # operators are called by position
    try:
        taken = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ()
    if any(p.kind is p.VAR_KEYWORD for p in taken):
        return ()
    names = {p.name for p in taken}
    older = re.search(r"docs 2\.1: (\(.*?\))(?:$|; )", row["note"])
    wanted = [parameters(row["signature"])]
    if older and older.group(1) != "()":
        wanted.append(parameters(older.group(1)))
    missing = []
    for one in wanted:
        # A method that is also a function is listed with the tensor as first parameter.
        bound = row["name"].startswith("paddle.Tensor.") and one[:1] in (
            ["x"],
            ["input"],
        )
        missing.append(tuple(n for n in one[bound:] if n not in names))
    return min(missing, key=len)


@functools.cache
def test_words() -> frozenset[str]:
    """Every identifier that occurs in a test or an operator's sample."""
    words: set[str] = set()
    for path in sorted(ROOT.glob("packages/*/tests/**/*.py")):
        words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    for path in sorted(ROOT.glob("tests-integration/**/*.py")):
        words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return frozenset(words)


def tested(row: dict[str, str]) -> bool:
    """Whether tests use the name; a dunder or `extra_repr` counts by its owner."""
    owner, _, last = row["name"].rpartition(".")
    if last.startswith("__") or last in ("forward", "extra_repr"):
        last = owner.rpartition(".")[2]
        return last in test_words() or last == "Tensor"
    return last in test_words()


def names(table: Path) -> Iterator[Name]:
    with table.open(newline="", encoding="utf-8") as lines:
        rows = (line for line in lines if not line.startswith("#"))
        for row in csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE):
            if in_scope(row):
                value = found(row["name"])
                yield Name(
                    row["name"],
                    row["area"],
                    int(row["priority"]),
                    value is not None or _is_none(row["name"]),
                    lacking(value, row) if value is not None else (),
                    tested(row),
                )


def _is_none(path: str) -> bool:
    """Whether the name exists with the value None."""
    owner, _, last = path.rpartition(".")
    parent = found(owner)
    return isinstance(parent, type) and last in getattr(parent, "__annotations__", {})


def table_of(rows: list[Name]) -> list[str]:
    """Shares by area, as lines of a Markdown table."""
    lines = [
        "| Area | Names | Exist | Take the parameters | Tested |",
        "|---|---:|---:|---:|---:|",
    ]
    for area in [*sorted({r.area for r in rows}), "all"]:
        own = [r for r in rows if area in (r.area, "all")]
        exist = [r for r in own if r.exists]
        lines.append(
            f"| {area} | {len(own)} | {len(exist)} "
            f"| {sum(not r.lacking for r in exist)} | {sum(r.complete for r in own)} |"
        )
    return lines


def page(rows: list[Name]) -> str:
    """The documentation's page: shares by area, then every name that falls short."""
    short = [r for r in rows if not r.exists or r.lacking]
    lines = [
        "# Coverage of Paddle's API",
        "",
        "The names that Paddle 2.0 and 2.1 document for dynamic and static graphs, and",
        "what Proa has of them. Written by `tools/api_coverage.py`; distributed",
        "training and devices that Proa does not support are left out.",
        "",
        *table_of(rows),
        "",
        "## What falls short",
        "",
        *(f"- `{r.path}`: {r.shortfall()}" for r in short),
        *([] if short else ["Nothing: all names exist and take the parameters."]),
        "",
        "What behaves otherwise on purpose is described on the page",
        "[for users of Paddle](migration.md).",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--missing", action="store_true", help="list what falls short")
    parser.add_argument("--areas", nargs="*", help="only these areas")
    parser.add_argument("--priority", type=int, help="up to this priority")
    parser.add_argument("--page", type=Path, help="write the documentation's page")
    options = parser.parse_args()
    rows = [
        r
        for r in names(options.table)
        if (not options.areas or r.area in options.areas)
        and (not options.priority or r.priority <= options.priority)
    ]
    if options.missing:
        for row in rows:
            if not row.complete:
                print(f"{row.priority} {row.path}: {row.shortfall()}")
    print("\n".join(table_of(rows)))
    for level in (1, 2, 3):
        own = [r for r in rows if r.priority == level]
        if own:
            print(f"priority {level}: {sum(r.complete for r in own)} of {len(own)}")
    if options.page:
        options.page.write_text(page(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
