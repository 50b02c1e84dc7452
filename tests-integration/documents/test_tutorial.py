"""The core that docs/tutorial.md builds runs, from top to bottom."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_the_code_of_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    source = "\n".join(blocks)
    lines = [line for line in source.splitlines() if line.strip()]
    assert len(lines) <= 250  # a core to read in one sitting
    names: dict[str, object] = {"__name__": "tutorial"}
    sys.modules["tutorial"] = types.ModuleType("tutorial")  # where dataclasses look
    try:
        exec(compile(source, str(PAGE), "exec"), names)
    finally:
        del sys.modules["tutorial"]
