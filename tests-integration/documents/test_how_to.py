"""The code of the how-to pages works, and excerpts are what the files say."""

from __future__ import annotations

import re
from pathlib import Path

from proa.ir import Builder, verify
from proa.ir.passes.dead_code import remove_dead_code
from proa.ir.program import Program

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


def test_the_pass_of_the_page_passes_its_test() -> None:
    function, test = blocks("add-a-pass.md")
    names = {
        "Program": Program,
        "Builder": Builder,
        "verify": verify,
        "remove_dead_code": remove_dead_code,
    }
    exec(function, names)
    exec(test, names)
    again = Builder()
    x = again.input("x", "float32", [2, 3])
    again.output(again.neg(again.neg(x)))  # an output keeps its name
    exec(
        "changed = remove_double_negation(program)", names | {"program": again.program}
    )
    assert len(again.program.main.nodes) == 2


def test_the_layer_of_the_page_passes_its_test() -> None:
    names: dict[str, object] = {}
    for block in blocks("add-a-layer.md"):
        exec(block, names)


def test_excerpts_in_the_style_match_the_files() -> None:
    text = (DOCS / "style.md").read_text(encoding="utf-8")
    found = re.findall(
        r"`([\w./-]+\.(?:py|h|cc))`[^`]*?\n```\w+\n(.*?)^```", text, re.M | re.S
    )
    assert len(found) == 3
    for path, excerpt in found:
        lines = (DOCS.parent / path).read_text(encoding="utf-8").splitlines()
        wanted = excerpt.rstrip("\n").splitlines()
        starts = [i for i, line in enumerate(lines) if line == wanted[0]]
        assert any(lines[i : i + len(wanted)] == wanted for i in starts), path
