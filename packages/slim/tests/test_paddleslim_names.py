"""Every public name of PaddleSlim 2.6 is here, or a page says what is there instead."""

from __future__ import annotations

import importlib
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: What `dir` shows in the modules of PaddleSlim 2.6.0, and methods of its classes.
NAMES = Path(__file__).with_name("paddleslim_names.txt").read_text().split()


def is_here(name: str) -> bool:
    parts = name.split(".")
    for count in range(len(parts), -1, -1):
        try:
            found = importlib.import_module(".".join(["proa_slim", *parts[:count]]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def patterns(page: str) -> list[str]:
    """Names in the first column of the table of names that are absent."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    (table,) = re.findall(
        r"^<!-- names of PaddleSlim that are absent -->\n(.*?)\n\n", text, re.M | re.S
    )
    first = [line.split("|")[1] for line in table.splitlines()[2:]]
    return re.findall(r"`([^`]+)`", " ".join(first))


def covers(pattern: str, name: str) -> bool:
    """Whether dotted parts of the name, next to each other, are those of a pattern."""
    parts, wanted = name.split("."), pattern.split(".")
    return any(
        all(map(fnmatchcase, parts[i : i + len(wanted)], wanted))
        for i in range(len(parts) - len(wanted) + 1)
    )


@pytest.mark.parametrize("page", ["slim-api", "slim-api-zh"])
def test_a_name_of_paddleslim_is_here_or_on_the_page(page: str) -> None:
    absent = [name for name in NAMES if not is_here(name)]
    known = patterns(page)
    assert [n for n in absent if not any(covers(p, n) for p in known)] == []
    assert [p for p in known if not any(covers(p, n) for n in absent)] == []


def test_names_are_found_as_they_are_called() -> None:
    assert is_here("prune.UnstructuredPruner.set_static_masks")
    assert not is_here("nas.GPNAS") and not is_here("common.SAController")
    assert covers("Re*.prepare", "dygraph.rep.Reparameter.prepare")
    assert not covers("quant.nn", "quant.nns.Conv")
