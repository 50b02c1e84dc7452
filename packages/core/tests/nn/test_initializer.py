"""Initializers: moments, bounds, and who decides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa.nn import initializer as I
from proa.nn.schemes import fans

SHAPE = [300, 200]


def initialized(init: I.Initializer, shape: list[int] | None = None) -> np.ndarray:
    proa.seed(0)
    p = proa.create_parameter(
        SHAPE if shape is None else shape, default_initializer=init
    )
    array: np.ndarray = p.numpy()
    return array


@pytest.mark.parametrize(
    ("init", "std", "limit"),
    [
        (I.Normal(0.0, 0.3), 0.3, None),
        (I.Uniform(-0.6, 0.6), 1.2 / 12**0.5, 0.6),
        (I.XavierNormal(), math.sqrt(2 / 500), None),
        (I.XavierUniform(), math.sqrt(2 / 500), math.sqrt(6 / 500)),
        (I.KaimingNormal(), math.sqrt(2 / 300), None),
        (I.KaimingUniform(), math.sqrt(2 / 300), math.sqrt(6 / 300)),
        (I.KaimingNormal(fan_in=50), math.sqrt(2 / 50), None),
    ],
)
def test_random_initializers(
    init: I.Initializer, std: float, limit: float | None
) -> None:
    a = initialized(init)
    assert abs(a.mean()) < 0.02 * std * 5
    assert abs(a.std() / std - 1) < 0.02
    if limit is not None:
        assert np.abs(a).max() <= limit


def test_truncated_normal_stays_within_two_deviations() -> None:
    a = initialized(I.TruncatedNormal(1.0, 0.5))
    assert a.min() >= 0
    assert a.max() <= 2
    # The standard deviation of a normal cut at two deviations is 0.8796 of it.
    assert abs(a.std() / (0.5 * 0.87962566) - 1) < 0.02


def test_convolutions_count_their_field() -> None:
    assert fans([8, 4, 3, 3]) == (36, 72)
    a = initialized(I.KaimingNormal(), [64, 32, 3, 3])
    assert abs(a.std() / math.sqrt(2 / 288) - 1) < 0.03
    proa.seed(0)
    w = nn.Conv2D(32, 64, 3).weight.numpy()
    assert abs(w.std() / math.sqrt(2 / 288) - 1) < 0.03


def test_initializers_with_explicit_values() -> None:
    np.testing.assert_array_equal(initialized(I.Constant(2.5), [2]), [2.5, 2.5])
    np.testing.assert_array_equal(initialized(I.Assign([1, 2, 3]), [3]), [1, 2, 3])
    q = initialized(I.Orthogonal(), [6, 4])
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-5)
    d = initialized(I.Dirac(), [3, 3, 3, 3])
    assert d.sum() == 3
    assert d[1, 1, 1, 1] == 1
    with pytest.raises(InvalidArgumentError, match="value of shape"):
        initialized(I.Assign([1, 2]), [3])


def test_an_initializer_takes_a_parameter_and_its_block() -> None:
    layer = nn.Linear(3, 2)
    nn.initializer.Constant(0.25)(layer.weight, layer.weight.block)
    np.testing.assert_array_equal(layer.weight.numpy(), np.full((3, 2), 0.25))


@pytest.mark.feature("L103")
def test_the_global_initializer_is_the_default() -> None:
    nn.initializer.set_global_initializer(I.Constant(0.5), I.Constant(0.25))
    try:
        layer = nn.Linear(2, 2)
        own = nn.Linear(2, 2, weight_attr=I.Constant(1.0))
    finally:
        nn.initializer.set_global_initializer(None)
    assert layer.weight.numpy().tolist() == [[0.5, 0.5]] * 2
    assert layer.bias.numpy().tolist() == [0.25, 0.25]
    assert own.weight.numpy().tolist() == [[1, 1]] * 2
    assert nn.Linear(2, 2).bias.numpy().tolist() == [0, 0]


def test_the_same_seed_initializes_the_same_network() -> None:
    proa.seed(3)
    a = proa.vision.models.LeNet()
    proa.seed(3)
    b = proa.vision.models.LeNet()
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def _mixed_network() -> nn.Layer:
    return nn.Sequential(
        nn.Conv2D(1, 3, 3, weight_attr=I.KaimingNormal()),
        nn.LSTM(4, 5, direction="bidirect"),
        nn.Embedding(7, 3, weight_attr=I.TruncatedNormal()),
        nn.TransformerEncoderLayer(8, 2, 16),
        nn.Linear(3, 3, weight_attr=I.Orthogonal(), bias_attr=I.Uniform()),
    )


def test_static_and_dynamic_mode_make_the_same_network_of_a_seed() -> None:
    proa.seed(5)
    dynamic = _mixed_network()
    drawn = proa.rand([3])
    proa.seed(5)
    proa.enable_static()
    startup = proa.static.Program()
    try:
        with proa.static.program_guard(proa.static.Program(), startup):
            static = _mixed_network()
        proa.static.Executor().run(startup)
    finally:
        proa.disable_static()
    pairs = zip(dynamic.named_parameters(), static.named_parameters(), strict=True)
    for (name, p), (other, q) in pairs:
        assert name == other
        np.testing.assert_array_equal(p.numpy(), q.get_value().numpy())
    np.testing.assert_array_equal(proa.rand([3]).numpy(), drawn.numpy())


def test_gain() -> None:
    assert I.calculate_gain("tanh") == 5 / 3
    assert I.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    with pytest.raises(InvalidArgumentError, match="must be one of"):
        I.calculate_gain("softmax2")


@pytest.mark.parametrize(
    "value", [list(range(6)), np.arange(6.0), np.arange(6).reshape(2, 3)]
)
def test_assign_takes_a_flat_value(value: Any) -> None:
    np.testing.assert_array_equal(
        initialized(I.Assign(value), [2, 3]), [[0, 1, 2], [3, 4, 5]]
    )


@pytest.mark.parametrize("value", [list(range(5)), np.zeros([3, 2]), np.zeros([1, 6])])
def test_assign_refuses_other_shapes(value: Any) -> None:
    with pytest.raises(ValueError, match="6 numbers in one axis, got"):
        initialized(I.Assign(value), [2, 3])


@pytest.mark.parametrize("value", ["no", 1, 0, None, np.bool_(True)])
def test_trainable_is_a_bool(value: Any) -> None:
    parameter = nn.Linear(2, 2).weight
    with pytest.raises(ValueError, match="trainable to be a bool"):
        parameter.trainable = value
    parameter.trainable = False
    assert parameter.stop_gradient and not parameter.trainable
