"""The check of words finds what the glossary lists, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from .loaded import tool

words = tool("words")

PAGE = """# Glossary

## Words to avoid in identifiers

| avoid | the term | allowed |
|---|---|---|
| turned, turn | transposed | `turn_off` |
| look_at | summarize | |

## Phrases to avoid

| avoid | the term | allowed |
|---|---|---|
| as it lies | as stored | |
| turned | transposed | `turned off` |
"""


def found(tmp_path: Path, name: str, text: str) -> list[tuple[int, str]]:
    (tmp_path / name).write_text(text)
    return [(use.line, use.found) for use in words.uses(tmp_path, [name], PAGE)]


@pytest.mark.parametrize(
    ("name", "text", "uses"),
    [
        ("a.py", "x = 1\n_turned_x = 2\n", [(2, "_turned_x")]),
        ("a.py", "class TurnedCopy: ...\n", [(1, "TurnedCopy")]),
        ("a.py", "def do_look_at(x): ...\n", [(1, "do_look_at")]),
        ("a.cc", "int turnedX = 0;  // turnedY\n", [(1, "turnedX")]),
        ("a.cc", 'f("turnX");\n\nint turn;\n', [(3, "turn")]),
        ("turned.py", "", [(1, "turned")]),
        ("a.py", "# the panel is read as it\n# lies\n", [(1, "as it lies")]),
        ("a.md", "A matrix is Turned.\n", [(1, "turned")]),
        ("a.cc", "/// Read as it\n/// lies.\n", [(1, "as it lies")]),
        ("a.hpp", "int look_at;\n", [(1, "look_at")]),
        ("a.go", "func LookAt() {}\n", [(1, "LookAt")]),
        ("CMakeLists.txt", "# The panel is turned.\n", [(1, "turned")]),
    ],
)
def test_a_word_to_avoid_is_reported(
    tmp_path: Path, name: str, text: str, uses: list[tuple[int, str]]
) -> None:
    assert found(tmp_path, name, text) == uses


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "x.turn_off()\nreturned = look.at\n"),
        ("a.md", "The cache is turned off. It returned.\n"),
        ("a.txt", "turned\n"),
        ("a.cc", "int returned = 0;  // look_at\n"),
    ],
)
def test_other_words_and_allowed_names_are_accepted(
    tmp_path: Path, name: str, text: str
) -> None:
    assert found(tmp_path, name, text) == []


def test_a_page_without_the_tables_is_rejected() -> None:
    with pytest.raises(ValueError, match="Words to avoid in identifiers"):
        words.table("# Glossary\n", words.IDENTIFIERS)


def test_the_tree_uses_none_of_the_words() -> None:
    page = (words.ROOT / words.GLOSSARY).read_text()
    uses = list(words.uses(words.ROOT, words.tracked(words.ROOT), page))
    assert not uses, "\n".join(map(str, uses))
