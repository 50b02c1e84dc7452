"""The cases of the standard pass, and no fewer than in NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from proa import array_api

from .conformance import Case, cases, failures

GROUPS = sorted({case.name.split()[0] for case in cases()})


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_of_cases_passes(group: str) -> None:
    chosen: list[Case] = [c for c in cases() if c.name.split()[0] == group]
    for case in chosen:
        case.check(array_api)


def test_no_fewer_cases_pass_than_in_numpy() -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        assert len(failures(array_api)) <= len(failures(np))
    assert len(cases()) >= 2700
