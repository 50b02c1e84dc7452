"""What the documents name: paths, identifiers, dotted names, commands."""

from __future__ import annotations

import fnmatch
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
HERE = "tests-integration/documents/"

# Folders that a relative path in a document may start from, besides the document's own.
BASES = (
    "", "packages", "packages/core", "packages/core/src", "packages/core/src/proa",
    "packages/core/csrc", "packages/core/csrc/host", "packages/core/csrc/portable",
    "packages/core/tests", "packages/core/codegen", "packages/core/include",
    *(f"packages/{p}{rest}" for p in ("slim", "inference", "lite", "serving")
      for rest in ("", f"/src/proa_{p}")),
)  # fmt: skip
# Written by a build or a command, so in no checkout: `proa/gen/ops.h`, `build/bench`.
WRITTEN = ("build/", "dist/", "quickstart/", "proa/gen/", "ops/", "api/", "docs/ops/",
           "docs/api/", "proa/_core", "proa/lib/", "proa/include/", ".nox/",
           "proa_lite/include", "include/proa/")  # fmt: skip
SUFFIXES = "py|pyi|cc|h|c|md|toml|cmake|yml|json|proto|txt|svg|png|html"
PATH = re.compile(rf"(?:[\w.*<>{{}},-]+/)+[\w.*<>{{}},-]*|[\w<>*]+\.(?:{SUFFIXES})")
IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,}(?:\(\))?")
DOTTED = re.compile(r"(?:proa(?:_\w+)?|paddle|_core)(?:\.\w+)+")
COMMANDS = ("nox", "python", "python3", "proa", "proa-infer", "proa-lite", "proa-serve",
            "cmake", "ninja", "pytest")  # fmt: skip


class Span(NamedTuple):
    """A code span or block in a document."""

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: {self.text}"


@cache
def tracked() -> tuple[str, ...]:
    """The files of the checkout, new ones included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    )
    return tuple(f for f in listed.stdout.splitlines() if (ROOT / f).is_file())


def pages() -> list[Path]:
    """Every document."""
    return [ROOT / f for f in tracked() if f.endswith(".md") and "/tests/" not in f]


def _without_fences(text: str) -> Iterator[tuple[int, str]]:
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line


def code_spans(page: Path) -> Iterator[Span]:
    """The text between single backticks, outside of fenced blocks."""
    for number, line in _without_fences(page.read_text(encoding="utf-8")):
        for text in re.findall(r"(?<!`)`([^`]+)`(?!`)", line):
            yield Span(page, number, text)


def shell_lines(page: Path) -> Iterator[Span]:
    """Commands: spans that begin with one, and lines of `sh` and `console` blocks."""
    for span in code_spans(page):
        if span.text.split()[0] in COMMANDS and " " in span.text:
            yield span
    language = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            language = None if language is not None else line[3:].strip()
        elif language == "console" and line.startswith("$ "):
            yield Span(page, number, line[2:])
        elif language == "sh" and line.strip():
            yield Span(page, number, line)


def links(page: Path) -> Iterator[Span]:
    """The targets of relative links."""
    for number, line in _without_fences(page.read_text(encoding="utf-8")):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if not re.match(r"[a-z]+:", target):
                yield Span(page, number, target)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as mkdocs and GitHub make them."""
    found = set()
    for _, line in _without_fences(page.read_text(encoding="utf-8")):
        if heading := re.match(r"#+\s+(.*)", line):
            plain = re.sub(r"[^\w\s-]", "", heading[1].lower()).strip()
            found.add(re.sub(r"[-\s]+", "-", plain))
    return found


def missing_path(span: Span) -> bool:
    """Whether the span is a path that leads nowhere."""
    if not PATH.fullmatch(span.text) or span.text.startswith(WRITTEN):
        return False
    if re.search(r"\b[A-Z]{2,}/", span.text):
        return False  # NAME/VERSION/model.proa: the reader's own names
    if "/" in span.text and "." not in span.text and not span.text.endswith("/"):
        return False  # a ratio, a pair of words, a media type
    return not all(_exists(span.page, name) for name in _expanded(span.text))


def _expanded(text: str) -> Iterator[str]:
    """`a/{b,c}.py` is two paths; `<family>` matches any name."""
    parts = re.split(r"\{([^}]*)\}", re.sub(r"<\w+>", "*", text))
    choices = [[p] if i % 2 == 0 else p.split(",") for i, p in enumerate(parts)]
    return ("".join(choice) for choice in product(*choices))


def _exists(page: Path, name: str) -> bool:
    if "/" not in name:
        names = _file_names() | _generated()
        return name in names or bool("*" in name and fnmatch.filter(names, name))
    if name.startswith("proa/"):  # how C++ includes, and how Python's folder is called
        inner = name.removeprefix("proa/")
        names = [name, inner]
    else:
        names = [name]
    folders = [page.parent, *(ROOT / base for base in BASES)]
    return any(any(f.glob(n.rstrip("/"))) for f in folders for n in names)


@cache
def _file_names() -> frozenset[str]:
    return frozenset(Path(name).name for name in tracked())


@cache
def _generated() -> frozenset[str]:
    """Files that programs of this repository write or look for, as they name them."""
    found: set[str] = set()
    for name in tracked():
        if name.endswith(".py") and not name.startswith(HERE):
            text = (ROOT / name).read_text(encoding="utf-8")
            found.update(re.findall(rf"[\w{{}}]+\.(?:{SUFFIXES})\b", text))
    return frozenset(re.sub(r"\{\w+\}", "*", name) for name in found)


@cache
def words_of_the_code() -> frozenset[str]:
    """Every word of the sources, to find identifiers in."""
    suffixes = (".py", ".pyi", ".cc", ".h", ".hpp", ".c", ".inc", ".toml", ".cmake",
                ".txt", ".yml", ".proto", ".go", ".java", ".R")  # fmt: skip
    found: set[str] = set()
    for name in tracked():
        if name.endswith(suffixes) and not name.startswith(HERE):
            text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
            found.update(re.findall(r"\w+", text))
    return frozenset(found)
