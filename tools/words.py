"""Check that code and documents use the field's terms: docs/glossary.md.

    python tools/words.py [FILE ...]

Two tables of that page are the list: "Words to avoid in identifiers" and "Phrases to
avoid". Identifiers are split at `_` and at capital letters, so that `turned` is found
in `_turned_x` and in `TurnedCopy`. Prints one line for each use and exits with 1 if
there is any.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = "docs/glossary.md"
IDENTIFIERS, PHRASES = "Words to avoid in identifiers", "Phrases to avoid"
CODE = (".cc", ".h", ".c", ".hpp", ".inc", ".go", ".java")
SUFFIXES = (
    ".py",
    ".pyi",
    ".md",
    ".R",
    ".cmake",
    "CMakeLists.txt",
    ".toml",
    ".proto",
    *CODE,
)
# These name the words themselves.
EXEMPT = (GLOSSARY, "docs/style.md", "tools/tests/test_words.py")

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Comments and literals of C++, which are no identifiers.
_NOT_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL
)


class Word(NamedTuple):
    """One row of a table of the glossary."""

    avoid: str
    instead: str
    allowed: frozenset[str]  # identifiers, or phrases, that may contain it


class Use(NamedTuple):
    """One place that uses a word to avoid."""

    path: str
    line: int
    found: str
    word: Word

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}: {self.found!r} contains {self.word.avoid!r}"
        return f"{where}, the term is: {self.word.instead}"


def table(page: str, heading: str) -> list[Word]:
    """The rows of the table under a heading, each word of a first cell on its own."""
    section = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.M | re.S
    )
    if section is None:
        raise ValueError(f"{GLOSSARY} must have a section {heading!r}")
    rows = [line for line in section[1].splitlines() if line.startswith("| ")]
    words = []
    for row in rows[1:]:  # the first holds the titles
        avoid, instead, allowed = (cell.strip() for cell in row.strip("|").split("|"))
        exceptions = frozenset(re.findall(r"`([^`]+)`", allowed))
        words += [Word(w.strip(), instead, exceptions) for w in avoid.split(",")]
    return words


def identifiers(name: str, text: str) -> Iterator[tuple[int, str]]:
    """The identifiers of a source file, with their lines."""
    if name.endswith((".py", ".pyi")):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                yield token.start[0], token.string
    elif name.endswith(CODE):
        code = _NOT_CODE.sub(lambda found: "\n" * found[0].count("\n"), text)
        for number, line in enumerate(code.splitlines(), 1):
            yield from ((number, found) for found in _IDENTIFIER.findall(line))


def parts(identifier: str) -> str:
    """`_turnedCopy_of` -> `_turned_copy_of_`, in which `_turned_` can be found."""
    return f"_{'_'.join(_PARTS.findall(identifier)).lower()}_"


def in_identifiers(name: str, text: str, words: list[Word]) -> Iterator[Use]:
    """Identifiers, and the file's own name, that contain a word to avoid."""
    found = {
        identifier: word
        for identifier in {Path(name).stem, *_IDENTIFIER.findall(text)}
        if (word := _word_in(identifier, tuple(words)))
    }
    if not found:  # text without any needs no tokens
        return
    for line, identifier in [(1, Path(name).stem), *identifiers(name, text)]:
        if identifier in found:
            yield Use(name, line, identifier, found[identifier])


@cache
def _word_in(identifier: str, words: tuple[Word, ...]) -> Word | None:
    split = parts(identifier)
    contained = (w for w in words if f"_{w.avoid}_" in split)
    return next((w for w in contained if identifier not in w.allowed), None)


@cache
def _any_of(phrases: tuple[Word, ...]) -> re.Pattern[str]:
    """Matches each of the phrases, the longest first."""
    ordered = sorted((phrase.avoid for phrase in phrases), key=len, reverse=True)
    patterns = (r"\s+".join(map(re.escape, avoid.split())) for avoid in ordered)
    return re.compile(rf"(?<![\w`])(?:{'|'.join(patterns)})(?![\w`])", re.I)


def in_text(name: str, text: str, phrases: list[Word]) -> Iterator[Use]:
    """Lines, or two consecutive ones, that contain a phrase to avoid."""
    by_text = {phrase.avoid.lower(): phrase for phrase in phrases}
    flat = re.sub(
        r"\n[ \t]*(?:#|//+|\*)?[ \t]*", lambda found: " " * len(found[0]), text
    )
    for found in _any_of(tuple(phrases)).finditer(flat):
        phrase = by_text[" ".join(found[0].lower().split())]
        around = flat[max(found.start() - 40, 0) : found.end() + 40]
        if not any(allowed in around for allowed in phrase.allowed):
            line = text.count("\n", 0, found.start()) + 1
            yield Use(name, line, phrase.avoid, phrase)


def uses(root: Path, files: Iterable[str], page: str) -> Iterator[Use]:
    """All uses of words and phrases to avoid in files of a tree."""
    words, phrases = table(page, IDENTIFIERS), table(page, PHRASES)
    for name in files:
        if not name.endswith(SUFFIXES) or name.startswith(EXEMPT):
            continue
        text = (root / name).read_text()
        yield from in_identifiers(name, text, words)
        yield from in_text(name, text, phrases)


def tracked(root: Path) -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(
        command, cwd=root, check=True, capture_output=True, text=True
    ).stdout
    return sorted(name for name in listing.splitlines() if (root / name).is_file())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="default: all")
    options = parser.parse_args()
    page = (ROOT / GLOSSARY).read_text()
    files = options.files or tracked(ROOT)
    found = list(uses(ROOT, files, page))
    for use in found:
        print(use)
    print(f"[words] {len(found)} uses of words that {GLOSSARY} replaces")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
