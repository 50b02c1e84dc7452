"""List the capabilities (L001, L002, …) that tests show, and where.

    python tools/features.py [--table features.tsv] [--missing PACKAGE]

A test shows a capability by `@pytest.mark.feature("L053")` on it, its class, or its
module's `pytestmark`. With the table of all capabilities (a TSV with the columns `id`,
`package`, `testable` and `capability`) the report gives each package's share, and an id
that the table does not have is an error.
"""

from __future__ import annotations

import argparse
import ast
import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def marked(path: Path) -> Iterator[tuple[str, int]]:
    """Every (id, line) of a `pytest.mark.feature(...)` in a test file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "feature"
            and isinstance(node.func.value, ast.Attribute)
            and node.func.value.attr == "mark"
        ):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(
                    argument.value, str
                ):
                    yield argument.value, node.lineno


def shown(root: Path) -> dict[str, list[str]]:
    """Where each id is shown: {id: ["packages/core/tests/test_x.py:12", …]}."""
    places: dict[str, list[str]] = defaultdict(list)
    folders = [*root.glob("packages/*/tests"), root / "tests-integration"]
    for path in sorted(p for folder in folders for p in folder.rglob("*.py")):
        for feature, line in marked(path):
            places[feature].append(f"{path.relative_to(root).as_posix()}:{line}")
    return dict(sorted(places.items()))


def read_table(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["id"]: row for row in reader}


def share(places: dict[str, list[str]], table: dict[str, dict[str, str]]) -> list[str]:
    """One line for each package: how many of its testable capabilities are shown."""
    testable = {i: row for i, row in table.items() if row["testable"] == "yes"}
    lines = []
    for package in sorted({row["package"] for row in testable.values()}):
        ids = [i for i, row in testable.items() if row["package"] == package]
        count = sum(i in places for i in ids)
        lines.append(f"{package:12} {count:5} of {len(ids):5} shown")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", type=Path, help="the TSV of all capabilities")
    parser.add_argument("--missing", metavar="PACKAGE", help="list what is not shown")
    options = parser.parse_args()
    places = shown(ROOT)
    table = read_table(options.table) if options.table else {}
    if options.missing:
        for feature, row in table.items():
            wanted = row["package"] == options.missing and row["testable"] == "yes"
            if wanted and feature not in places:
                print(f"{feature}  {row['capability']}")
        return 0
    for feature, where in places.items():
        capability = table.get(feature, {}).get("capability", "")
        print(f"{feature}  {', '.join(where)}  {capability}".rstrip())
    print(f"{len(places)} capabilities shown by {sum(map(len, places.values()))} marks")
    if not table:
        return 0
    print("\n".join(share(places, table)))
    unknown = [feature for feature in places if feature not in table]
    for feature in unknown:
        print(f"unknown id {feature} in {', '.join(places[feature])}")
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
