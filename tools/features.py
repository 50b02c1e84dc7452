"""Check the feature marks of the tests against a report, and write docs/features.md.

    python tools/features.py [--report FOLDER] [--write [--table features.tsv]]
                             [--missing PACKAGE --table features.tsv]

A test shows a capability by `@pytest.mark.feature("L053")` on it, its class, or by its
module's `pytestmark`. `how="mechanism"` says that it shows what makes a figure possible
and not the figure, `how="figure"` that it asserts the figure; the default is behaviour.

With `--report`, a folder of JUnit XML files that `nox -s test` wrote, a mark counts if
its test passed. A mark whose test the report lacks is an error, unless the test is
`full`; skipped and full tests are listed separately.

docs/features.md holds the texts of the capabilities; `--table` renews them from a TSV
with the columns `id`, `package`, `feature`, `testable`, `capability` and `figure`.
"""

from __future__ import annotations

import argparse
import ast
import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/features.md"
KINDS = ("behaviour", "mechanism", "figure")
INTRODUCTION = """# What the tests show

Each capability of PaddlePaddle that tests show, and these tests. Written by
`tools/features.py --write`; `.ci/run` fails if a test named here did not pass.

- behaviour: the test does what a user would do, and checks the result.
- mechanism: the test shows what a gain of speed or memory rests on; the figure that
  Paddle published is not measured.
- figure: the test asserts the figure.

Tests marked "full" are run by `nox -s test-full` alone. All is shown on Linux, also
where a capability names Windows or macOS. Proa computes on CPUs: what only a GPU or
another accelerator can show is at the end, with the reason, or not listed.
"""

#: Capabilities that no test of a package shows, and why.
ABSENT = {
    "L164": "Programs of 1.x run after the [migration tool](migration.md) has changed "
    "them, not as they are, and 16 of 648 names have a note of what to write in place "
    "of a rule ([names](migration-names.md)). Tests of L167 train whole programs.",
    "L332": "`nox -s variants -- light` builds the wheels without AVX, uses each on an "
    "emulated CPU of 2008 and holds them to budgets; a build is too long for a test.",
    "L342": "Python 3.9 has had no security updates since October 2025: wheels are for "
    "3.10 to 3.14.",
    "L517": "A choice of GPUs: `Config.enable_use_gpu` raises an error that says so "
    "(`packages/inference/tests/test_config.py`).",
    "L536": "Fusions for a GPU. On CPUs attention becomes one operator as well (L539), "
    "and an activation the end of its product (L537); embeddings and layer norms stay "
    "apart.",
    "L555": "The same models run on CPUs (L554).",
    "L563": "Streams of a GPU. Predictors of several threads have memory of their own "
    "(L564).",
    "L608": "An image for GPUs with TensorRT.",
    "L611": "Kernels for GPUs. `nox -s size` holds the size of the libraries.",
    "L612": "A library for CUDA.",
    "L613": "Wheels for CUDA.",
    "L670": "The figure is of one GPU against another server's, and Proa computes on "
    "CPUs; L671 shows the same service, Chinese text vectors by BERT, on those.",
    "L676": "No image was built, for CPUs or GPUs: hadolint checks the Dockerfile, and "
    "`packages/serving/tests/test_container.py` the server under what a container "
    "runtime does to it.",
}


@dataclass(frozen=True)
class Mark:
    """One id of one `feature` mark."""

    id: str
    how: str
    path: str
    line: int
    test: str  # "Class::test"; with a whole class "Class", with a whole module ""
    full: bool

    @property
    def node(self) -> str:
        return f"{self.path}::{self.test}" if self.test else self.path


@dataclass(frozen=True)
class Capability:
    """A row of the table or of the page."""

    id: str
    area: str  # "core: Slicing"
    text: str
    figure: str


# --- marks


def calls_of(node: ast.AST, name: str) -> Iterator[ast.expr]:
    """Every `pytest.mark.<name>` below the node: the attribute, or the call of it."""
    called = {id(n.func): n for n in ast.walk(node) if isinstance(n, ast.Call)}
    for n in ast.walk(node):
        if (
            isinstance(n, ast.Attribute)
            and n.attr == name
            and isinstance(n.value, ast.Attribute)
            and n.value.attr == "mark"
        ):
            yield called.get(id(n), n)


def read_mark(node: ast.expr) -> tuple[list[str], str]:
    """The ids of a `feature(...)` and how it shows them."""
    if not isinstance(node, ast.Call):
        raise ValueError("feature takes ids and how")
    ids = [ast.literal_eval(argument) for argument in node.args]
    options = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
    how = options.pop("how", "behaviour")
    if not ids or not all(isinstance(i, str) for i in ids) or options:
        raise ValueError("feature takes ids and how")
    if how not in KINDS:
        raise ValueError(f"how must be one of {', '.join(KINDS)}, got {how!r}")
    return ids, how


def marked(path: Path, name: str) -> Iterator[Mark]:
    """The marks of a test file; ValueError for one that is wrong or on no test."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left = {id(call): call for call in calls_of(tree, "feature")}

    def found(holders: list[ast.expr], test: str, full: bool) -> Iterator[Mark]:
        for call in (c for holder in holders for c in calls_of(holder, "feature")):
            del left[id(call)]
            try:
                ids, how = read_mark(call)
            except ValueError as error:
                raise ValueError(f"{name}:{call.lineno}: {error}") from None
            for feature in ids:
                yield Mark(feature, how, name, call.lineno, test, full)

    def walk(body: list[ast.stmt], outer: str, full: bool) -> Iterator[Mark]:
        for node in body:
            is_class = isinstance(node, ast.ClassDef)
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            if not node.name.startswith("Test" if is_class else "test_"):
                continue
            test = f"{outer}::{node.name}".removeprefix("::")
            held = [d for d in node.decorator_list if not parametrizes(d)]
            slow = full or any(True for d in held for _ in calls_of(d, "full"))
            yield from found(held, test, slow)
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, test, slow)

    whole = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and "pytestmark" in map(ast.unparse, node.targets)
    ]
    full = any(True for value in whole for _ in calls_of(value, "full"))
    yield from found(whole, "", full)
    yield from walk(tree.body, "", full)
    for call in left.values():
        raise ValueError(f"{name}:{call.lineno}: a feature mark must be on a test")


def parametrizes(decorator: ast.expr) -> bool:
    return any(True for _ in calls_of(decorator, "parametrize"))


def all_marks(root: Path) -> list[Mark]:
    folders = [*root.glob("packages/*/tests"), root / "tests-integration"]
    files = sorted(p for folder in folders for p in folder.rglob("*.py"))
    marks = [m for p in files for m in marked(p, p.relative_to(root).as_posix())]
    return sorted(marks, key=lambda m: (m.id, m.path, m.line))


# --- reports


def read_reports(folder: Path) -> dict[str, Counter[str]]:
    """{"packages.core.tests.test_x.test_y": {"passed": 3}} of JUnit XML files.

    A module that was skipped as a whole is there by its own name.
    """
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(path).iter("testcase"):
            name = re.sub(r"\[.*", "", case.get("name", ""), flags=re.S)
            key = f"{case.get('classname')}.{name}".lstrip(".")
            tags = {child.tag for child in case}
            outcome = "failed" if tags & {"failure", "error"} else "passed"
            found[key]["skipped" if "skipped" in tags else outcome] += 1
    return dict(found)


def outcome_of(mark: Mark, reports: dict[str, Counter[str]]) -> str:
    """passed, failed, skipped, full (and not run) or missing."""
    module = mark.path.removesuffix(".py").replace("/", ".")
    wanted = ".".join([module, *mark.test.split("::")]).rstrip(".")
    counts = Counter(reports.get(module, {}))
    for key, outcomes in reports.items():
        if key == wanted or key.startswith(wanted + "."):
            counts += outcomes
    for outcome in ("failed", "passed", "skipped"):
        if counts[outcome]:
            return outcome
    return "full" if mark.full else "missing"


def state_of(outcomes: list[str]) -> str:
    """The worst outcome of the tests of a capability; one that failed is the worst."""
    order = ("failed", "missing", "passed", "skipped", "full")
    return min(outcomes, key=order.index)


# --- capabilities


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def capabilities(rows: list[dict[str, str]]) -> dict[str, Capability]:
    return {
        row["id"]: Capability(
            row["id"], f"{row['package']}: {row['feature']}",
            row["capability"], row["figure"] or "",
        )
        for row in rows
    }  # fmt: skip


def read_page(text: str) -> dict[str, Capability]:
    """The capabilities that the page describes."""
    found, area = {}, ""
    for line in text.splitlines():
        if line.startswith("## "):
            area = line[3:]
        elif re.match(r"\| L\d", line):
            cells = [
                c.replace(r"\|", "|").strip() for c in re.split(r"(?<!\\)\|", line)
            ]
            found[cells[1]] = Capability(cells[1], area, cells[2], cells[3])
    return found


def page_of(marks: list[Mark], known: dict[str, Capability]) -> str:
    tests = by_id(marks)
    lines = [INTRODUCTION.strip()]
    last = ""
    for feature in sorted(tests, key=lambda i: (known[i].area.split(":")[0], i)):
        row = known[feature]
        if row.area != last:
            lines += [
                f"\n## {row.area}\n",
                "| Id | Capability | Figure | How | Tests |",
            ]
            lines += ["|---|---|---|---|---|"]
            last = row.area
        how = ", ".join(k for k in KINDS if k in {m.how for m in tests[feature]})
        nodes = {f"`{m.node}`" + " (full)" * m.full: None for m in tests[feature]}
        cells = [row.text, row.figure, how, "<br>".join(nodes)]
        cells = [cell.replace("|", r"\|") for cell in cells]
        lines.append(f"| {feature} | " + " | ".join(cells) + " |")
    lines.append("\n## What no test shows\n")
    lines += [f"- {feature}: {reason}" for feature, reason in ABSENT.items()]
    return "\n".join(lines) + "\n"


def by_id(marks: list[Mark]) -> dict[str, list[Mark]]:
    found: dict[str, list[Mark]] = defaultdict(list)
    for mark in marks:
        found[mark.id].append(mark)
    return dict(sorted(found.items()))


# --- checks


def faults_of(marks: list[Mark], known: dict[str, Capability]) -> Iterator[str]:
    """Ids without a description, and figures that a mark does not account for."""
    for feature, own in by_id(marks).items():
        if feature in ABSENT:
            yield f"{feature} is marked, and one of those that no test shows"
        if feature not in known:
            yield f"{feature} is not described in {PAGE}: {own[0].node}"
        elif known[feature].figure and {m.how for m in own} == {"behaviour"}:
            figure = known[feature].figure
            yield f'{feature} must say how="mechanism" or "figure" for: {figure}'


def check_report(marks: list[Mark], folder: Path) -> Iterator[str]:
    """Print what is shown; the faults."""
    reports = read_reports(folder)
    outcomes = {mark: outcome_of(mark, reports) for mark in marks}
    for mark, outcome in outcomes.items():
        if outcome == "missing":
            yield f"{mark.path}:{mark.line}: {mark.id}'s test was not collected"
        elif outcome == "failed":
            yield f"{mark.path}:{mark.line}: {mark.id}'s test failed"
    states = {
        feature: state_of([outcomes[m] for m in own])
        for feature, own in by_id(marks).items()
    }
    print(f"{list(states.values()).count('passed')} capabilities shown")
    for state, words in (("full", "by full tests alone"), ("skipped", "skipped here")):
        ids = [feature for feature, s in states.items() if s == state]
        print(f"{len(ids)} {words}{': ' * bool(ids)}{' '.join(ids)}")


def share(ids: set[str], rows: list[dict[str, str]]) -> list[str]:
    """One line for each package: how many of its testable capabilities have marks."""
    testable = [row for row in rows if row["testable"] == "yes"]
    lines = []
    for package in sorted({row["package"] for row in testable}):
        own = [row["id"] in ids for row in testable if row["package"] == package]
        lines.append(f"{package:12} {sum(own):5} of {len(own):5} marked")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--report", type=Path, help="a folder of JUnit XML files")
    parser.add_argument("--table", type=Path, help="the TSV of all capabilities")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    parser.add_argument("--missing", metavar="PACKAGE", help="list what has no mark")
    options = parser.parse_args()
    try:
        marks, page = all_marks(ROOT), ROOT / PAGE
    except ValueError as error:
        print(error)
        return 1
    ids = {mark.id for mark in marks}
    rows = read_table(options.table) if options.table else []
    if options.missing:
        for row in rows:
            wanted = row["package"] == options.missing and row["testable"] == "yes"
            if wanted and row["id"] not in ids:
                print(f"{row['id']}  {row['capability']}")
        return 0
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    known = capabilities(rows) or read_page(text)
    faults = list(faults_of(marks, known))
    if all(feature in known for feature in ids):
        wanted = page_of(marks, known)
        if options.write:
            page.write_text(wanted, encoding="utf-8")
        elif wanted != text:
            faults.append(f"{PAGE} is out of date: run tools/features.py --write")
    print(f"{len(ids)} capabilities have {len(marks)} marks")
    print("\n".join(share(ids, rows)), end="\n" * bool(rows))
    if options.report:
        faults += check_report(marks, options.report)
    print("\n".join(faults), end="\n" * bool(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
