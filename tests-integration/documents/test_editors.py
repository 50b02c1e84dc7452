"""What an editor shows of the installed package: jedi completes, explains and finds."""

from __future__ import annotations

from pathlib import Path

import jedi
import pytest


def script(*lines: str) -> tuple[jedi.Script, int, int]:
    """A program whose end is the place of the cursor."""
    return jedi.Script("\n".join(lines)), len(lines), len(lines[-1])


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (("import proa", "proa.er"), "erf"),
        (("import proa", "x = proa.ones([2])", "x.er"), "erf"),
        (("import proa", "x = proa.ones([2])", "x.er"), "erf_"),
        (("import proa", "net = proa.nn.Linear(3, 4)", "net.para"), "parameters"),
        (("import proa", "proa.nn.functional.soft"), "softmax"),
    ],
)
def test_completion(lines: tuple[str, ...], name: str) -> None:
    program, line, column = script(*lines)
    assert name in [found.name for found in program.complete(line, column)]


@pytest.mark.parametrize(
    ("lines", "file", "says"),
    [
        (("import proa", "proa.erf"), "ops.pyi", "Error function"),
        (
            ("import proa", "x = proa.ones([2])", "x.erf"),
            "methods.pyi",
            "Error function",
        ),
        (("import proa", "proa.nn.Conv2D"), "conv.py", "(N, out, H', W')"),
    ],
)
def test_definition(lines: tuple[str, ...], file: str, says: str) -> None:
    program, line, column = script(*lines)
    (found,) = program.goto(line, column, follow_imports=True)
    path = Path(str(found.module_path))
    assert path.name == file
    assert found.name in path.read_text("utf-8").splitlines()[(found.line or 0) - 1]
    assert says in found.docstring()


def test_signature() -> None:
    program, line, column = script("import proa", "proa.nn.functional.softmax(")
    (shown,) = program.get_signatures(line, column)
    assert [p.name for p in shown.params] == ["x", "axis", "dtype", "name"]
