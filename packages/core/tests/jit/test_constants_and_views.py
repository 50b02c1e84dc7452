"""Ranges, constants and views, recorded and eager, up to six axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import _core
from proa.jit import InputSpec, to_static


@pytest.mark.feature("L189")
@pytest.mark.parametrize(
    "bounds", [(5,), (2, 9), (1, 10, 3), (9, 2, -2), (0.0, 1.0, 0.3), (3, 3)]
)
def test_a_recorded_range_has_the_eager_shape_and_dtype(bounds: Any):
    def ranged(x: Any) -> Any:
        return proa.arange(*bounds) + proa.zeros([1], "int64"), x + 1

    x = proa.ones([2])
    eager = ranged(x)[0]
    static = to_static(ranged)
    recorded = static(x)[0]
    (out, _) = static.main_program.main.outputs
    want = np.arange(*bounds)
    assert list(out.shape) == eager.shape == recorded.shape == list(want.shape)
    assert recorded.dtype == eager.dtype
    np.testing.assert_allclose(recorded.numpy(), want, rtol=1e-6)


@pytest.mark.feature("L190")
@pytest.mark.parametrize("value", [3, 2.5, True, [1, 2], [[1.5], [2.5]]])
def test_constants_become_tensors_in_recorded_functions(value: Any):
    def with_constant(x: Any) -> Any:
        return x, proa.to_tensor(value)

    recorded = to_static(with_constant, input_spec=[InputSpec([None, 2])])
    _, got = recorded(proa.ones([3, 2]))
    want = proa.to_tensor(value)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.feature("L193")
def test_float16_expands():
    a = np.array([[1.5], [-2.25]], np.float16)
    x = proa.to_tensor(a, stop_gradient=False)
    for y in (proa.expand(x, [3, 2, 4]), to_static(lambda x: x.expand([3, 2, 4]))(x)):
        assert y.dtype == proa.float16
        np.testing.assert_array_equal(y.numpy(), np.broadcast_to(a, (3, 2, 4)))
    proa.expand(x, [3, 2, 4]).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full((2, 1), 12, np.float16))


SIX = [2, 1, 3, 1, 2, 1]
WHOLE = [2, 4, 3, 2, 2, 3]


@pytest.mark.feature("L194")
@pytest.mark.parametrize(
    ("repeat", "copies"),
    [
        (lambda x: proa.expand(x, WHOLE), 24),
        (lambda x: proa.broadcast_to(x, WHOLE), 24),
        (lambda x: proa.expand_as(x, proa.zeros(WHOLE)), 24),
        (lambda x: proa.tile(x, [1, 4, 1, 2, 1, 3]), 24),
    ],
    ids=["expand", "broadcast_to", "expand_as", "tile"],
)
def test_copies_of_six_axes_have_gradients(repeat: Any, copies: int):
    x = proa.rand(SIX)
    x.stop_gradient = False
    y = repeat(x)
    assert y.shape == WHOLE
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(SIX, copies))


@pytest.mark.feature("L194")
def test_a_grid_of_six_axes_has_gradients():
    lines = [proa.rand([n]) for n in (2, 3, 1, 2, 3, 2)]
    for line in lines:
        line.stop_gradient = False
    grids = proa.meshgrid(*lines)
    sum(grid.sum() for grid in grids).backward()
    for line in lines:
        np.testing.assert_array_equal(
            line.grad.numpy(), np.full(line.shape, 72 / line.shape[0])
        )


@pytest.mark.feature("L027", how="mechanism")
def test_a_slice_copies_nothing():
    x = proa.zeros([512, 1024])
    start, before = x.data_ptr(), _core.memory_stats()["allocated"]
    row, part, back = x[3], x[2:100:2, 5:], x[::-1]
    assert _core.memory_stats()["allocated"] == before
    assert row.data_ptr() == start + 4 * 3 * 1024
    assert part.data_ptr() == start + 4 * (2 * 1024 + 5)
    assert back.data_ptr() == start + 4 * 511 * 1024
    assert part.strides[:2] == [2 * 1024, 1] or tuple(part.strides) == (2048, 1)
