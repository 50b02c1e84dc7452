"""Reductions of segments against NumPy's, with gradients and large inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import incubate
from proa.errors import InvalidArgumentError, ShapeError

REDUCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}


def reduced(how: str, data: Any, numbers: Any) -> Any:
    out = np.zeros((numbers[-1] + 1, *data.shape[1:]))
    for k in set(numbers.tolist()):
        out[k] = REDUCE[how](data[numbers == k], axis=0)
    return out


@pytest.mark.parametrize("how", REDUCE)
@pytest.mark.parametrize("shape", [(9,), (9, 2), (9, 2, 3)])
def test_each_segment_is_reduced(how: str, shape: tuple[int, ...]):
    data = np.random.default_rng(0).standard_normal(shape)
    numbers = np.array([0, 0, 1, 1, 1, 4, 4, 5, 6])
    x = proa.to_tensor(data, stop_gradient=False)
    y = getattr(incubate, f"segment_{how}")(x, proa.to_tensor(numbers))
    np.testing.assert_allclose(y.numpy(), reduced(how, data, numbers), rtol=1e-12)
    weight = np.random.default_rng(1).standard_normal(y.shape)
    (y * proa.to_tensor(weight)).sum().backward()
    for at in np.ndindex(shape):
        sides = []
        for h in (1e-6, -1e-6):
            moved = data.copy()
            moved[at] += h
            sides.append((reduced(how, moved, numbers) * weight).sum())
        slope = (sides[0] - sides[1]) / 2e-6
        assert x.grad.numpy()[at] == pytest.approx(slope, abs=1e-6)


@pytest.mark.feature("L040")
@pytest.mark.parametrize("how", REDUCE)
def test_large_segments_are_right(how: str):
    data = np.random.default_rng(0).random((600_000, 2)).astype(np.float32)
    numbers = np.repeat([0, 1, 2], [1, 599_000, 999])
    got = getattr(incubate, f"segment_{how}")(
        proa.to_tensor(data), proa.to_tensor(numbers)
    )
    want = reduced(how, data.astype(np.float64), numbers)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_empty_input_has_no_segments():
    none = proa.zeros([0], "int64")
    assert incubate.segment_sum(proa.zeros([0, 3]), none).shape == [0, 3]
    assert incubate.segment_max(proa.zeros([0, 3]), none).shape == [0, 3]
    assert incubate.segment_mean(proa.zeros([0, 3]), none).shape == [0, 3]


def test_invalid_segment_ids_are_rejected():
    with pytest.raises(InvalidArgumentError, match="not decrease"):
        incubate.segment_sum(proa.ones([2, 2]), proa.to_tensor([1, 0]))
    with pytest.raises(ShapeError, match="one number for each row"):
        incubate.segment_max(proa.ones([3, 2]), proa.to_tensor([1, 0]))
