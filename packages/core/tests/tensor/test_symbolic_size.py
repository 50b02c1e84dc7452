"""`Tensor.size` of symbolic tensors: the product of symbolic dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa import static


def test_size_is_a_product_of_unknown_sizes() -> None:
    proa.enable_static()
    try:
        main = static.Program()
        with static.program_guard(main, static.Program()):
            x = static.data("x", [None, 3, None])
            y = x.sum() / x.size
            z, count = proa.reshape(x, [x.size // 3, 3]), x.size
        array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        found: Any = static.Executor().run(main, {"x": array}, [y, z, count])
    finally:
        proa.disable_static()
    np.testing.assert_allclose(found[0], array.mean())
    np.testing.assert_array_equal(found[1], array.reshape(8, 3))
    assert found[2] == 24
    assert proa.ones([2, 0]).size == 0
