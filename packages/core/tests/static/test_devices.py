"""Devices and attributes of Variables where the CPU alone runs programs."""

from __future__ import annotations

import pytest

from proa import static
from proa.errors import NotFoundError, UnavailableError


def test_no_part_of_a_program_runs_on_another_device() -> None:
    exe = static.Executor()
    for call in (
        lambda: exe.split_program_by_device(static.Program()),
        lambda: exe.start_heter_trainer(static.Program()),
    ):
        with pytest.raises(UnavailableError, match="devices other than the CPU"):
            call()


def test_a_variable_has_attributes_by_name(
    static_mode: tuple[static.Program, static.Program],
) -> None:
    x = static.data("x", [None, 2])
    w = static.create_parameter([2, 3], "float32")
    assert {"persistable", "is_parameter"} <= set(x.attr_names)
    assert [v.attr("is_parameter") for v in (x, w)] == [False, True]
    assert [v.attr("is_data") for v in (x, w)] == [True, False]
    assert x.dist_attr is None
    with pytest.raises(NotFoundError, match="expected one of"):
        x.attr("colour")
