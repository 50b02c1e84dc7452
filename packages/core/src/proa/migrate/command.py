"""The command `proa migrate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from proa import migrate


def main(arguments: Sequence[str]) -> int:
    """Print what becomes of programs for Paddle 1.x, or write it.

    Returns:
        0; 1 if a place is left to be done by hand.
    """
    parser = argparse.ArgumentParser(
        "proa migrate", description="Rewrite programs for Paddle 1.x (fluid) for 2.x."
    )
    parser.add_argument("path", help="a Python file, or a folder of such")
    parser.add_argument("--write", action="store_true", help="change the files")
    parser.add_argument("--report", metavar="PAGE", help="write a page in Markdown")
    given = parser.parse_args(arguments)
    files = migrate.migrate(given.path, given.write)
    for file in files:
        sys.stdout.write("" if given.write else file.diff())
        if file.error:
            print(f"{file.path}: {file.error}", file=sys.stderr)
        for found in file.result.findings if file.result else ():
            if found.kind != "rewritten":
                where = f"{file.path}:{found.line}: {found.kind}: {found.old}"
                print(f"{where}: {found.text}", file=sys.stderr)
    if given.report:
        Path(given.report).write_text(migrate.report_page(files), encoding="utf-8")
    left = any(f.error or (f.result and f.result.by_hand) for f in files)
    return 1 if left else 0
