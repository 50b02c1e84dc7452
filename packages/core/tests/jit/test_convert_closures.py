"""Branches and loops that call functions which change variables around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .equivalence import agree

INPUTS = [np.float32(a) for a in ([1, 2, 3], [-1, 9, 3], [1, -9, 3], [-4, -5, 1])]


def counts(x: Any) -> Any:
    calls, last = 0, x

    def step(y: Any) -> Any:
        nonlocal calls, last
        calls += 1
        if y[0] > 0:
            last = y * 2
        return y + calls

    if x.sum() > 0:
        y = step(x)
    else:
        y = x
    while y.sum() < 20:
        y = step(y) + calls
    for k in range(int(x[2])):
        if k > 0:
            step(last)
    return y, calls, last


def of_a_parameter(x: Any) -> Any:
    def negate() -> None:
        nonlocal x
        x = -x

    if x[0] > 0:
        negate()
        if x[1] > 0:
            negate()
    return x


@pytest.mark.parametrize("function", [counts, of_a_parameter])
def test_what_called_functions_change_is_returned(function: Any):
    agree(function, INPUTS)
