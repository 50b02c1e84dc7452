"""Layers and functions whose options are seldom used, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError
from proa.jit import InputSpec, to_static
from proa.nn import functional as F

RNG = np.random.default_rng(17)


def _random(*shape: int) -> Any:
    return RNG.normal(size=shape).astype("float32")


def _normalised(x: Any, axes: tuple[int, ...], eps: float = 1e-5) -> Any:
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


# -- normalisation ---------------------------------------------------------------------
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_batch_norm_of_the_old_signature(layout: str) -> None:
    x = _random(4, 3, 5, 3)
    axes = (0, 2, 3) if layout == "NCHW" else (0, 1, 2)
    layer = nn.BatchNorm(3, act="relu", momentum=0.5, data_layout=layout)
    want = np.maximum(_normalised(x, axes), 0)
    np.testing.assert_allclose(layer(proa.to_tensor(x)).numpy(), want, atol=1e-5)
    np.testing.assert_allclose(layer._mean.numpy(), 0.5 * x.mean(axes), rtol=1e-4)
    layer.eval()
    mean, var = layer._mean.numpy(), layer._variance.numpy()
    shape = (3, 1, 1) if layout == "NCHW" else (3,)
    want = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5)
    got = layer(proa.to_tensor(x)).numpy()
    np.testing.assert_allclose(got, np.maximum(want, 0), atol=1e-5)


def test_batch_norm_chooses_its_statistics() -> None:
    x = proa.to_tensor(_random(8, 3))
    own = _normalised(x.numpy(), (0,))
    for options in ({"is_test": True}, {"use_global_stats": True}):
        layer = nn.BatchNorm(3, **options)
        np.testing.assert_allclose(layer(x).numpy(), x.numpy() / np.sqrt(1 + 1e-5))
    layer = nn.BatchNorm(3, trainable_statistics=True)
    layer.eval()
    np.testing.assert_allclose(layer(x).numpy(), own, atol=1e-5)
    np.testing.assert_array_equal(layer._mean.numpy(), 0)
    named = nn.BatchNorm(3, moving_mean_name="m", moving_variance_name="v")
    assert (named._mean.name, named._variance.name) == ("m", "v")
    with pytest.raises(InvalidArgumentError, match="act must name an activation"):
        nn.BatchNorm(3, act="nothing")


NORMS = {
    3: (nn.BatchNorm1D, nn.InstanceNorm1D),
    4: (nn.BatchNorm2D, nn.InstanceNorm2D),
    5: (nn.BatchNorm3D, nn.InstanceNorm3D),
}


@pytest.mark.parametrize("rank", NORMS)
def test_norms_of_every_rank(rank: int) -> None:
    x = _random(2, 4, *[3] * (rank - 2))
    space = tuple(range(2, rank))
    batch, instance = (kind(4) for kind in NORMS[rank])
    given = proa.to_tensor(x)
    np.testing.assert_allclose(
        batch(given).numpy(), _normalised(x, (0, *space)), atol=1e-5
    )
    np.testing.assert_allclose(
        instance(given).numpy(), _normalised(x, space), atol=1e-5
    )
    plain = NORMS[rank][1](4, weight_attr=False, bias_attr=False)
    assert plain.parameters() == []
    np.testing.assert_allclose(plain(given).numpy(), _normalised(x, space), atol=1e-5)
    with pytest.raises(ShapeError, match="rank must be"):
        instance(proa.ones([2, 4]))


@pytest.mark.parametrize("last", [False, True])
def test_group_norm_of_both_layouts(last: bool) -> None:
    x = _random(2, 6, 4, 3)
    layer = nn.GroupNorm(3, 6, data_format="NHWC" if last else "NCHW")
    layer.weight.set_value(_random(6))
    layer.bias.set_value(_random(6))
    groups = _normalised(x.reshape(2, 3, -1), (2,)).reshape(x.shape)
    w, b = (p.numpy().reshape(6, 1, 1) for p in (layer.weight, layer.bias))
    given = np.moveaxis(x, 1, -1) if last else x
    got = layer(proa.to_tensor(given)).numpy()
    got = np.moveaxis(got, -1, 1) if last else got
    np.testing.assert_allclose(got, groups * w + b, atol=1e-5)


def test_batch_norm_in_eval_mode_has_the_same_bits_with_gradients() -> None:
    layer = nn.BatchNorm2D(20)
    layer(proa.to_tensor(_random(6, 20, 5, 5) * 3 + 1))
    layer.eval()
    x = proa.to_tensor(_random(3, 20, 7, 9))
    wanted = layer(x)
    assert not wanted.stop_gradient
    with proa.no_grad():
        plain = layer(x)
    np.testing.assert_array_equal(wanted.numpy(), plain.numpy())


@pytest.mark.parametrize("kind", ["group", "instance"])
def test_norms_are_recorded_for_images_of_any_size(kind: str) -> None:
    layer = nn.GroupNorm(2, 4) if kind == "group" else nn.InstanceNorm2D(4)
    recorded = to_static(layer, input_spec=[InputSpec([None, 4, None, None])])
    for shape in [(1, 4, 3, 5), (2, 4, 6, 2)]:
        x = _random(*shape)
        groups = x.reshape(shape[0], 2 if kind == "group" else 4, -1)
        want = _normalised(groups, (2,)).reshape(shape)
        np.testing.assert_allclose(recorded(proa.to_tensor(x)).numpy(), want, atol=1e-5)


# -- activations -----------------------------------------------------------------------
@pytest.mark.feature("L080")
def test_elu_of_nan_is_nan_in_every_form() -> None:
    x = np.array([np.nan, -1.0, 2.0], "float32")
    want = [np.nan, 0.5 * np.expm1(-1.0), 2.0]
    for fn in (nn.ELU(0.5), lambda t: F.elu(t, 0.5), lambda t: F.elu_(t, 0.5)):
        np.testing.assert_allclose(fn(proa.to_tensor(x)).numpy(), want, rtol=1e-6)
    t = proa.to_tensor(x, stop_gradient=False)
    nn.ELU()(t).sum().backward()
    assert np.isnan(t.grad.numpy()[0])


@pytest.mark.parametrize(
    "fn, in_place",
    [
        (F.relu, F.relu_), (F.elu, F.elu_), (F.softmax, F.softmax_),
        (F.tanh, F.tanh_),
    ],
)  # fmt: skip
def test_in_place_activations(fn: Any, in_place: Any) -> None:
    x = _random(3, 4)
    want = fn(proa.to_tensor(x)).numpy()
    t = proa.to_tensor(x)
    assert in_place(t) is t
    np.testing.assert_array_equal(t.numpy(), want)
    leaf = proa.to_tensor(x, stop_gradient=False)
    y = leaf * 1.0
    in_place(y)
    y.sum().backward()
    other = proa.to_tensor(x, stop_gradient=False)
    fn(other * 1.0).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), other.grad.numpy(), atol=1e-7)


@pytest.mark.parametrize("axis", [1, -1])
def test_maxout(axis: int) -> None:
    x = _random(2, 6, 6)
    moved = np.moveaxis(x, axis, -1).reshape(2, 6, 2, 3).max(-1)
    want = np.moveaxis(moved, -1, axis)
    for fn in (nn.Maxout(3, axis), lambda t: F.maxout(t, 3, axis)):
        np.testing.assert_array_equal(fn(proa.to_tensor(x)).numpy(), want)
    with pytest.raises(InvalidArgumentError, match="channels=6, groups=4"):
        F.maxout(proa.to_tensor(x), 4)


@pytest.mark.parametrize("last", [False, True])
def test_prelu_by_channel(last: bool) -> None:
    x, w = _random(2, 3, 4, 4), np.array([0.1, 0.2, 0.3], "float32")
    want = np.where(x > 0, x, x * w.reshape(3, 1, 1))
    given = np.moveaxis(x, 1, -1) if last else x
    got = F.prelu(
        proa.to_tensor(given), proa.to_tensor(w), "NHWC" if last else "NCHW"
    ).numpy()
    np.testing.assert_allclose(np.moveaxis(got, -1, 1) if last else got, want)
    layer = nn.PReLU(3, init=0.5)
    np.testing.assert_allclose(
        layer(proa.to_tensor(x)).numpy(), np.where(x > 0, x, 0.5 * x)
    )


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    proa.seed(2)
    x = proa.to_tensor(_random(200, 200))
    layer = nn.AlphaDropout(0.3)
    low = -1.6732632423543772 * 1.0507009873554805  # the least value of selu
    for y in (layer(x), F.alpha_dropout(x, 0.3)):
        values, counts = np.unique(y.numpy(), return_counts=True)
        a = (0.7 * (1 + 0.3 * low**2)) ** -0.5
        assert values[counts.argmax()] == pytest.approx(a * low - a * low * 0.3)
        assert abs(counts.max() / x.size - 0.3) < 0.02
        assert abs(y.numpy().mean()) < 0.03
        assert abs(y.numpy().var() - 1) < 0.05
    layer.eval()
    np.testing.assert_array_equal(layer(x).numpy(), x.numpy())
    assert layer.extra_repr() == "p=0.3"


# -- layers ----------------------------------------------------------------------------
def test_a_layer_creates_and_registers_by_name() -> None:
    layer = nn.Layer()
    weight = layer.create_parameter([2, 3])
    assert layer.add_parameter("w", weight) is weight is layer.w
    child = nn.Linear(2, 2)
    assert layer.add_sublayer("child", child) is child is layer.child
    for result in (layer.create_tensor(), layer.create_variable("v", persistable=True)):
        assert result.size == 0 and result.dtype == "float32"
    assert result.name == "v" and result.persistable
    assert list(layer.to_static_state_dict()) == ["w", "child.weight", "child.bias"]
    with pytest.raises(ValueError, match="must not define or call backward"):
        layer.backward(1)


def test_layer_dict_clears() -> None:
    layers = nn.LayerDict({"a": nn.ReLU(), "b": nn.Linear(1, 1)})
    assert len(layers) == 2 and "a" in layers
    layers.clear()
    assert len(layers) == 0 and layers.parameters() == []


def test_both_directions_by_cells() -> None:
    forward, backward = nn.GRUCell(3, 4), nn.GRUCell(3, 4)
    layer = nn.BiRNN(forward, backward, time_major=True)
    assert forward.state_dtype == "float32" and forward.state_shape == (4,)
    x = proa.to_tensor(_random(5, 2, 3))
    y, (a, b) = layer(x)
    one, last = nn.RNN(forward, time_major=True)(x)
    two, first = nn.RNN(backward, is_reverse=True, time_major=True)(x)
    np.testing.assert_allclose(
        y.numpy(), np.concatenate([one.numpy(), two.numpy()], -1), rtol=1e-6
    )
    np.testing.assert_allclose(a.numpy(), last.numpy())
    np.testing.assert_allclose(b.numpy(), first.numpy())
    with pytest.raises(InvalidArgumentError, match="both cells must have one"):
        nn.BiRNN(nn.GRUCell(3, 4), nn.GRUCell(2, 4))


@pytest.mark.parametrize("kind", ["Constant", "Bilinear"])
def test_initializers_fill_by_forward_and_by_call(kind: str) -> None:
    init = getattr(nn.initializer, kind)()
    a, b = proa.ones([2, 2, 4, 4]), proa.ones([2, 2, 4, 4])
    init.forward(a)
    init(b)
    np.testing.assert_array_equal(a.numpy(), b.numpy())
    line = np.array([0.25, 0.75, 0.75, 0.25])
    want = np.outer(line, line) if kind == "Bilinear" else np.zeros((4, 4))
    np.testing.assert_allclose(a.numpy()[1, 0], want)


# -- losses ----------------------------------------------------------------------------
@pytest.mark.feature("L093")
@pytest.mark.full
def test_cross_entropy_of_more_than_two_to_the_31_elements() -> None:
    rows, classes = 2**21 + 2, 1024
    x = proa.zeros([rows, classes], "float16")
    x[rows - 1, 7] = 4.0
    x.stop_gradient = False
    label = proa.full([rows], 7, "int64")
    loss = F.cross_entropy(x, label, reduction="none")
    tail = np.log(classes - 1 + np.exp(4.0)) - 4.0
    got = loss[-2:].astype("float32").numpy()
    np.testing.assert_allclose(got, [np.log(classes), tail], rtol=2e-3)
    loss.sum().backward()
    last = x.grad[-1].astype("float32").numpy()
    p = np.exp(-tail)
    np.testing.assert_allclose(last[7], p - 1, rtol=2e-3)
    np.testing.assert_allclose(last[8], (1 - p) / (classes - 1), rtol=5e-3)
