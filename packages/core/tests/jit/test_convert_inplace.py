"""Tensors changed in place inside nested branches and loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa

from .equivalence import agree

INPUTS = [np.float32(a) for a in ([1, 2, 3], [-1, 9, 3], [1, -9, 3], [-4, -5, 1])]


def defined_in_an_inner_branch(x: Any) -> Any:
    if x.mean() < 3:
        x = x + 1
        if x[2] < 2:
            x = x + 1
            if x[0] < 0:
                x = x * 1.0
                x.add_(proa.tanh(x))
    return x


def defined_in_a_branch_of_a_loop(x: Any) -> Any:
    y = x
    count = proa.full([], 0, "int64")
    while count < 3:
        count += 1
        if y.sum() > 0:
            y = y * 1.0
            y.add_(x - 4)
    return y


def of_the_function_around(x: Any) -> Any:
    y = x * 1.0
    for _ in range(int(x[2])):
        if y.sum() > 0:
            y.add_(x)
            if x[0] > 0:
                y[1] = x[0]
    return y


@pytest.mark.parametrize(
    "function",
    [defined_in_an_inner_branch, defined_in_a_branch_of_a_loop, of_the_function_around],
)
def test_changes_belong_to_the_part_that_makes_the_tensor(function: Any):
    agree(function, INPUTS)
