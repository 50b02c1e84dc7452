"""The wheel's files besides Python: one module, one library, and headers in use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import proa

PACKAGE = Path(proa.__file__).parent
INCLUDE = Path(proa.sysconfig.get_include())
#: What is included from outside: by operators, and by proa-inference's C library.
ENTRIES = ("proa/extension.h", "paddle/extension.h", "proa/runtime/engine.h")
#: Size of all headers, in bytes.
BUDGET = 100_000


def _headers() -> dict[str, Path]:
    return {str(p.relative_to(INCLUDE)): p for p in INCLUDE.rglob("*") if p.is_file()}


@pytest.mark.feature("L253", how="mechanism")
def test_every_header_is_reached_from_one_that_is_included_from_outside() -> None:
    headers = _headers()
    left = [name for name in ENTRIES if name in headers]
    assert left[:2] == list(ENTRIES[:2])
    reached: set[str] = set()
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            text = headers[name].read_text()
            left += re.findall(r'^#include "(\S+)"', text, re.M)
    assert reached == set(headers)
    assert sum(p.stat().st_size for p in headers.values()) <= BUDGET


@pytest.mark.feature("L253", how="mechanism")
def test_there_is_one_library_next_to_the_module() -> None:
    others = {
        str(p.relative_to(PACKAGE))
        for p in PACKAGE.rglob("*")
        if p.is_file() and p.suffix not in (".py", ".pyi", ".pyc", ".h")
    }
    module = {name for name in others if re.fullmatch(r"_core\.\S+\.so", name)}
    assert len(module) == 1
    shipped = {"lib/libproa_runtime.so", "migrate/names.tsv", "py.typed"}
    assert others - module == shipped


@pytest.mark.feature("L253", how="mechanism")
def test_operators_are_built_by_one_scheme_alone() -> None:
    text = "".join(p.read_text() for p in _headers().values())
    assert "PD_BUILD_OP" in text
    for old in ("REGISTER_OPERATOR", "REGISTER_OP_CPU_KERNEL", "fluid/framework"):
        assert old not in text
    assert not hasattr(proa.utils, "load_op_library")
