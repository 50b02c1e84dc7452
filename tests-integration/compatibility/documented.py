"""The examples in the docstrings of PaddlePaddle's wheel, and what they print."""

from __future__ import annotations

import ast
import doctest
import importlib.metadata
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

Examples = list[doctest.Example]

#: Types, places and addresses have digits that are no results.
_NO_RESULT = re.compile(
    r"Place\([^)]*\)|place=[^,]*,|dtype=\S+|CPUPlace|0x[0-9a-f]+"
    r"|\b(b?float|int|uint|complex)\d+"
)
_NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf|nan)|True|False")


def sources() -> Path:
    """The folder of the wheel's package, which need not be importable."""
    for file in importlib.metadata.files("paddlepaddle") or []:
        if str(file) == "paddle/__init__.py":
            return Path(str(file.locate())).parent
    raise AssertionError("the wheel of paddlepaddle is needed")


def of(file: Path) -> Iterator[tuple[str, Examples]]:
    """(qualified name, examples) of a source file's functions, classes and methods."""
    parser = doctest.DocTestParser()
    todo: list[tuple[str, Any]] = [("", ast.parse(file.read_text()))]
    while todo:
        prefix, parent = todo.pop()
        for node in parent.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            name = f"{prefix}{node.name}"
            if isinstance(node, ast.ClassDef):
                todo.append((f"{name}.", node))
            text = ast.get_docstring(node) or ""
            if ">>>" not in text:
                continue
            try:
                yield name, parser.get_examples(text)
            except ValueError:  # not well indented
                continue


def _numbers(text: str) -> list[float]:
    words = {"True": "1", "False": "0"}
    found = _NUMBER.findall(_NO_RESULT.sub("", text))
    return [float(words.get(word, word)) for word in found]


def failure(examples: Sequence[doctest.Example]) -> str | None:
    """What differs when the examples run one after the other: an error, or numbers."""
    names: dict[str, Any] = {"__name__": "__main__", "np": np}
    for example in examples:
        printed = io.StringIO()
        try:
            code = compile(example.source, "<example>", "single")
            with redirect_stdout(printed):
                exec(code, names)
        except Exception as error:
            if example.exc_msg is not None:
                continue
            return f"{example.source.strip()[:120]}: {type(error).__name__}: {error}"
        if not example.want.strip() or example.options or "..." in example.want:
            continue
        got, want = _numbers(printed.getvalue()), _numbers(example.want)
        if len(got) != len(want) or not np.allclose(
            got, want, rtol=1e-3, atol=1e-3, equal_nan=True
        ):
            return f"{example.source.strip()[:120]}: {printed.getvalue().strip()[:200]}"
    return None
