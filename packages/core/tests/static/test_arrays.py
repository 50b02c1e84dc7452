"""Lists of Variables that grow while a program is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import UnimplementedError
from proa.tensor import array_length, array_read, array_write, create_array


def test_variables_are_written_and_read_at_places_that_are_constants(
    static_mode: Any,
) -> None:
    x = static.data("x", [None, 3], "float32")
    array, i = create_array("float32"), proa.full([1], 0, "int64")
    array_write(x, i, array)
    proa.increment(i)
    array_write(x * 2, i, array)
    array_write(x * 4, array_length(array), array)
    array_write(x * 8, proa.to_tensor([3]), array)
    read = [array_read(array, k) for k in (i, i + 1, i * 3)]
    feed = {"x": np.ones((2, 3), np.float32)}
    found = static.Executor().run(feed=feed, fetch_list=[*read, array_length(array)])
    for array_found, factor in zip(found[:3], (2, 4, 8), strict=True):
        np.testing.assert_array_equal(array_found, np.full((2, 3), factor))
    assert found[3].tolist() == [4]


def test_places_that_follow_from_data_are_refused(static_mode: Any) -> None:
    i = static.data("i", [1], "int64")
    with pytest.raises(UnimplementedError, match="known when it is built"):
        array_read([i], i)
