"""Files and folders of programs, their differences, and a report of what was found."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from proa.errors import InvalidArgumentError, MissingFileError
from proa.migrate.rewriter import Rewritten, rewrite


@dataclass(frozen=True)
class File:
    """One program, as it was and as it becomes.

    Attributes:
        path: The file.
        source: What is in it.
        result: What becomes of it; None if it is no Python 3.
        error: Why, then.
    """

    path: Path
    source: str
    result: Rewritten | None
    error: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether it becomes another program."""
        return self.result is not None and self.result.code != self.source

    def diff(self) -> str:
        """The difference in the unified form."""
        if self.result is None:
            return ""
        old, new = (t.splitlines(True) for t in (self.source, self.result.code))
        names = (f"{self.path} (1.x)", f"{self.path} (2.x)")
        return "".join(difflib.unified_diff(old, new, *names))


def migrate(path: str | Path, write: bool = False) -> list[File]:
    """The programs of a file or folder, rewritten.

    Args:
        path: A Python file, or a folder, with those within it, whose ``*.py`` are read.
        write: Whether changed files are written.

    Raises:
        MissingFileError: If there is no such file or folder.
    """
    where = Path(path)
    if not where.exists():
        raise MissingFileError(f"[migrate] expected a file or folder, got {where}")
    paths = sorted(where.rglob("*.py")) if where.is_dir() else [where]
    files = [_read(each) for each in paths]
    for file in files:
        if write and file.result is not None and file.is_changed:
            file.path.write_text(file.result.code, encoding="utf-8")
    return files


def _read(path: Path) -> File:
    try:
        source = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        return File(path, "", None, f"[migrate] expected UTF-8: {error}")
    try:
        return File(path, source, rewrite(source))
    except InvalidArgumentError as error:
        return File(path, source, None, str(error))


def report_page(files: list[File]) -> str:
    """A page in Markdown: what was rewritten, and what is to be checked and done."""
    kinds = Counter(
        f.kind for file in files if file.result for f in file.result.findings
    )
    changed = sum(file.is_changed for file in files)
    lines = [
        "# From Paddle 1.x to 2.x",
        "",
        f"{len(files)} files read, {changed} changed: {kinds['rewritten']} places "
        f"rewritten, {kinds['check']} to check, {kinds['by hand']} to do by hand.",
    ]
    for file in files:
        findings = file.result.findings if file.result else ()
        if not findings and not file.error:
            continue
        lines += ["", f"## {file.path}", ""]
        if file.error:
            lines += [file.error]
            continue
        lines += ["| line | | 1.x | 2.x | |", "|---:|---|---|---|---|"]
        lines += [
            f"| {f.line} | {f.kind} | `{f.old}` | {f'`{f.new}`' if f.new else ''} "
            f"| {f.text} |"
            for f in findings
        ]
    return "\n".join(lines) + "\n"
