"""Programs of 1.x, rewritten and run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import proa
from proa import migrate


def executed(source: str) -> dict[str, Any]:
    """The names of a program in which `paddle` is Proa."""
    names: dict[str, Any] = {}
    with mock.patch.dict(sys.modules, {"paddle": proa}):
        exec(compile(source, "program", "exec"), names)
    return names


def rewritten(source: str) -> str:
    """What becomes of a program; once more it stays as it is."""
    result = migrate.rewrite(source)
    assert migrate.rewrite(result.code).code == result.code
    return result.code


@contextmanager
def migrated(source: str) -> Iterator[dict[str, Any]]:
    """The names of a static program with no place left by hand; dynamic mode after."""
    result = migrate.rewrite(source)
    assert result.by_hand == ()
    assert "paddle.fluid" not in result.code.replace("paddle.migrate.fluid", "")
    assert "paddle.enable_static()" in result.code
    programs = (proa.static.Program(), proa.static.Program())
    proa.enable_static()
    try:
        with (
            proa.static.program_guard(*programs),
            proa.static.scope_guard(proa.static.Scope()),
            proa.utils.unique_name.guard(),
        ):
            yield executed(result.code)
    finally:
        proa.disable_static()
