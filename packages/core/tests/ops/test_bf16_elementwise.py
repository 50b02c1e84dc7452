"""Elementwise operators of bfloat16 on every number that it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import _core

BITS = np.arange(1 << 16, dtype=np.uint32)
#: Every bfloat16, as the float32 of the same value.
EVERY = (BITS << 16).view(np.float32)


def every() -> Any:
    return proa.to_tensor(EVERY).astype("bfloat16")


def wide(x: Any) -> Any:
    return x.astype("float32").numpy()


def test_relu_is_zero_for_negative_numbers_alone() -> None:
    got = wide(proa.nn.functional.relu(every()))
    want = np.where(EVERY < 0, np.float32(0), EVERY)  # NaN stays
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("count", [1, 31, 33, 65536])
def test_the_gradient_of_relu_passes_where_its_result_is_positive(count: int) -> None:
    y, dy = every()[-count:], proa.full([count], 1.5, "bfloat16")
    got = wide(_core.ops.relu_grad(dy, y))
    want = np.where(EVERY[-count:] > 0, np.float32(1.5), np.float32(0))
    np.testing.assert_array_equal(got, want)


def rounded(x: Any) -> Any:
    """float32 to the nearest bfloat16, ties to even, as float32."""
    bits = x.view(np.uint32).astype(np.uint64)
    up = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return np.where(np.isnan(x), x, up.astype(np.uint32).view(np.float32))


@pytest.mark.parametrize("op", [np.add, np.subtract, np.multiply])
@pytest.mark.parametrize("shape", [(7,), (2, 50, 3), (4, 1000)])
def test_arithmetic_rounds_once(op: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    x, y = (rounded(rng.standard_normal(shape).astype(np.float32)) for _ in range(2))
    row = y[..., :1, :] if y.ndim > 1 else y  # broadcasts
    a, b, c = (proa.to_tensor(v).astype("bfloat16") for v in (x, y, row))
    function = getattr(proa, op.__name__)
    np.testing.assert_array_equal(wide(function(a, b)), rounded(op(x, y)))
    np.testing.assert_array_equal(wide(function(a, c)), rounded(op(x, row)))
