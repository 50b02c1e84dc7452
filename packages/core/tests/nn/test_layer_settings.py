"""Settings that other packages read and change are those that layers compute by."""

from __future__ import annotations

import numpy as np
import pytest

import proa
from proa import nn
from proa.nn.layer.settings import (
    kernel_of,
    set_kernel,
    set_momentum,
    statistics_of,
)

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((2, 3, 9, 9)).astype(np.float32)


def test_a_convolution_says_its_kernel() -> None:
    layer = nn.Conv2D(3, 4, 3, padding="same", dilation=2)
    assert kernel_of(layer) == ((3, 3), (2, 2), "same")
    assert kernel_of(nn.Conv1D(3, 4, 5, padding=2)) == ((5,), (1,), 2)


def test_a_convolution_takes_another_kernel_and_its_own_again() -> None:
    layer, small = nn.Conv2D(3, 4, 5, padding=2), nn.Conv2D(3, 4, 3, padding=1)
    x = proa.to_tensor(IMAGES)
    own, weight, kernel = layer(x).numpy(), layer.weight, kernel_of(layer)
    layer.weight, layer.bias = small.weight, small.bias
    set_kernel(layer, [3, 3], 1)
    assert "kernel_size=[3, 3], " in layer.extra_repr()
    np.testing.assert_array_equal(layer(x).numpy(), small(x).numpy())
    layer.weight = weight
    set_kernel(layer, kernel.size, kernel.padding)
    assert kernel_of(layer) == kernel
    np.testing.assert_array_equal(layer(x).numpy(), own)


@pytest.mark.parametrize("momentum", [0.0, 0.75])
def test_running_statistics_follow_batches_by_the_momentum(momentum: float) -> None:
    norm = nn.BatchNorm2D(3, epsilon=1e-3)
    set_momentum(norm, momentum)
    norm.train()
    norm(proa.to_tensor(IMAGES))
    found = statistics_of(norm)
    assert (found.momentum, found.epsilon, found.always_used) == (momentum, 1e-3, False)
    mean, variance = IMAGES.mean((0, 2, 3)), IMAGES.var((0, 2, 3))
    np.testing.assert_allclose(found.mean.numpy(), (1 - momentum) * mean, atol=1e-6)
    want = momentum + (1 - momentum) * variance
    np.testing.assert_allclose(found.variance.numpy(), want, rtol=1e-5)


def test_the_statistics_are_the_buffers_of_the_layer() -> None:
    norm = nn.BatchNorm1D(4, use_global_stats=True)
    found = statistics_of(norm)
    assert found.always_used
    found.mean.set_value(np.ones(4, np.float32))
    assert norm.state_dict()["_mean"].numpy().tolist() == [1.0] * 4
