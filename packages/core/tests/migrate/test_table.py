"""The table of 1.x names: what it says is there is there."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from proa.migrate import Row, rows
from proa.migrate.rules import RULES
from proa.migrate.table import MARKS, found, lookup, member

ROOT = Path(__file__).resolve().parents[4]
RENAMED = [row for row in rows().values() if row.new]


@pytest.mark.feature("L166")
def test_the_table_has_the_names_of_1_x() -> None:
    for module in ("layers", "dygraph", "optimizer", "io", "initializer"):
        assert any(old.startswith(f"paddle.fluid.{module}.") for old in rows())
    assert len(rows()) >= 500


@pytest.mark.parametrize("row", RENAMED, ids=lambda row: row.old)
def test_a_new_name_is_there_and_takes_the_arguments(row: Row) -> None:
    value = found(row.new)
    try:
        parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    wanted = {new for _, new in row.arguments}.difference(MARKS)
    assert wanted <= set(parameters)


def test_a_name_without_a_new_one_says_what_to_do() -> None:
    for row in rows().values():
        assert row.new or row.note or row.rule in RULES or row.rule == "guard"
        assert not row.rule or row.rule in {*RULES, "guard"}


def test_what_is_left_by_hand_is_no_more_than_that() -> None:
    left = [r.old for r in rows().values() if not (r.new or r.rule)]
    assert len(rows()) - len(left) >= 630 and len(left) <= 16


def test_old_parameters_are_named_once() -> None:
    for row in rows().values():
        old = [name for name, _ in row.arguments]
        assert len(set(old)) == len(old), row.old


def test_a_name_is_found_in_submodules_too() -> None:
    row = lookup("paddle.fluid.dygraph.nn.Linear")
    assert row is not None and row.new == "paddle.nn.Linear"
    assert lookup("paddle.fluid.layers.missing") is None
    of_class = member("paddle.fluid.BuildStrategy.ReduceStrategy.Reduce")
    assert of_class is not None
    assert of_class[1] == "paddle.static.BuildStrategy.ReduceStrategy.Reduce"
    assert member("paddle.fluid.layers.fc.missing") is None


@pytest.mark.feature("L166")
@pytest.mark.skipif(not (ROOT / "tools").is_dir(), reason="needs the repository")
def test_the_page_of_names_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "migration_names.py"), "--check"]
    subprocess.run(command, check=True)
