"""Equalization, SmoothQuant, AdaRound, bias correction, against NumPy and float32."""

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa.static import InputSpec
from proa_slim import QuantConfig, quant_post_static
from proa_slim.quant.equalize import equalize, smooth
from proa_slim.quant.interpret import interpret
from proa_slim.quant.post_training import products, program_of

RNG = np.random.default_rng(12)


def spec(*shape):
    return [InputSpec([None, *shape], "float32", "x")]


def spread(layer, factors, axis):
    """Multiply output channels of a layer's weight, so that their ranges differ."""
    along = [1] * len(layer.weight.shape)
    along[axis] = -1
    layer.weight.set_value(layer.weight.numpy() * factors.reshape(along))


def separable():
    """1 x 1 convolution, depthwise one, 1 x 1: the pairs that equalization is for."""
    proa.seed(1)
    net = nn.Sequential(
        nn.Conv2D(4, 8, 1), nn.ReLU(),
        nn.Conv2D(8, 8, 3, groups=8, padding=1), nn.ReLU(),
        nn.Conv2D(8, 6, 1),
    )  # fmt: skip
    spread(net[0], np.geomspace(0.01, 10, 8).astype(np.float32), 0)
    net[0].bias.set_value(RNG.standard_normal(8).astype(np.float32))
    return net, (4, 6, 6)


def grouped():
    proa.seed(2)
    net = nn.Sequential(
        nn.Conv2D(4, 8, 3), nn.ReLU(), nn.Conv2D(8, 6, 3, groups=2), nn.Flatten()
    )
    spread(net[0], np.geomspace(0.1, 10, 8).astype(np.float32), 0)
    return net, (4, 7, 7)


def perceptron():
    proa.seed(3)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    spread(net[0], np.geomspace(0.01, 10, 16).astype(np.float32), 1)
    return net, (8,)


@pytest.mark.parametrize("make", [separable, grouped, perceptron])
def test_equalization_keeps_the_function_and_evens_the_ranges(make):
    net, shape = make()
    program = program_of(net, spec(*shape))
    x = RNG.standard_normal((6, *shape)).astype(np.float32)
    (before,) = interpret(program, [x])
    assert equalize(program) >= 1
    (after,) = interpret(program, [x])
    np.testing.assert_allclose(
        after, before, rtol=1e-4, atol=1e-5 * np.abs(before).max()
    )
    first, second = products(program, QuantConfig())[:2]
    axis = 0 if first.op.startswith("conv2d") else 1
    w1 = np.moveaxis(first.inputs[1].data, axis, 0)
    r1 = np.abs(w1.reshape(len(w1), -1)).max(axis=1)
    w2 = second.inputs[1].data
    if axis == 1:
        r2 = np.abs(w2).max(axis=1)
    else:
        groups = second.attrs["groups"]
        parts = np.split(np.abs(w2), groups)  # (out, in / groups, ...) of each group
        r2 = np.concatenate([p.max(axis=(0, 2, 3)) for p in parts])
    np.testing.assert_allclose(r1, r2, rtol=0.02)


def test_equalization_saves_weights_with_one_scale():
    net, shape = separable()
    x = RNG.standard_normal((64, *shape)).astype(np.float32)
    reports = [
        quant_post_static(
            net, spec(*shape), [x], QuantConfig("abs_max", "abs_max", equalize=on)
        ).report
        for on in (False, True)
    ]
    assert reports[1][-1].sqnr_db > reports[0][-1].sqnr_db + 3


def test_equalization_leaves_other_activations_alone():
    proa.seed(4)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU6(), nn.Linear(8, 8), nn.Tanh())
    assert equalize(program_of(net, spec(8))) == 0


def outlier_inputs(n=256):
    """Activations with channels of 100 times the others' range, as in transformers."""
    x = RNG.standard_normal((n, 32)).astype(np.float32)
    x[:, [3, 17]] *= 100
    return x


def test_smoothing_divides_by_the_published_factor():
    proa.seed(5)
    net, x = nn.Linear(32, 16), outlier_inputs()
    program = program_of(net, spec(32))
    w = program.main.nodes[0].inputs[1].data.copy()
    smooth(program, products(program, QuantConfig()), [[x]], 0.5)
    mul, linear = program.main.nodes
    s = np.abs(x).max(axis=0) ** 0.5 / np.abs(w).max(axis=1) ** 0.5
    np.testing.assert_allclose(mul.inputs[1].data, 1 / s, rtol=1e-5)
    np.testing.assert_allclose(linear.inputs[1].data, w * s[:, None], rtol=1e-5)
    want = x @ w + net.bias.numpy()
    np.testing.assert_allclose(interpret(program, [x])[0], want, rtol=1e-3, atol=1e-3)


def test_smoothing_goes_into_a_layer_norm_that_its_readers_share():
    class Heads(nn.Layer):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(32)
            self.q, self.k = nn.Linear(32, 8), nn.Linear(32, 8)

        def forward(self, x):
            y = self.norm(x)
            return self.q(y) + self.k(y)

    proa.seed(6)
    net = Heads()
    net.norm.weight.set_value(RNG.uniform(0.1, 20, 32).astype(np.float32))
    x = RNG.standard_normal((64, 32)).astype(np.float32)
    program = program_of(net, spec(32))
    (before,) = interpret(program, [x])
    smooth(program, products(program, QuantConfig()), [[x]], 0.5)
    assert "mul" not in [n.op for n in program.main.nodes]
    np.testing.assert_allclose(interpret(program, [x])[0], before, rtol=1e-3, atol=1e-4)


def test_smoothing_saves_activations_with_outlier_channels():
    proa.seed(7)
    net, x = nn.Linear(32, 16), outlier_inputs()
    w = net.weight.numpy()
    w[[3, 17]] *= 0.01  # the outliers do not decide the result
    net.weight.set_value(w)
    plain, smoothed = (
        quant_post_static(net, spec(32), [x], QuantConfig("abs_max", smooth_alpha=a))
        for a in (None, 0.5)
    )
    assert smoothed.report[0].sqnr_db > plain.report[0].sqnr_db + 10


def test_corrected_biases_keep_the_mean_of_each_channel():
    proa.seed(8)
    net = nn.Sequential(nn.Conv2D(3, 6, 3, padding=1), nn.Flatten(), nn.Linear(216, 4))
    x = (RNG.standard_normal((64, 3, 6, 6)) + 3).astype(np.float32)
    config = {"activation": "hist", "hist_percent": 0.97}  # clamps, which shifts means
    want = net(proa.to_tensor(x)).numpy().mean(axis=0)
    plain, corrected = (
        quant_post_static(
            net, spec(3, 6, 6), [x], QuantConfig(**config, bias_correction=on)
        )
        for on in (False, True)
    )
    errors = [np.abs(m(x).mean(axis=0) - want).max() for m in (plain, corrected)]
    assert errors[1] < 0.5 * errors[0]


def test_a_corrected_linear_layer_has_the_mean_of_float32():
    proa.seed(9)
    net = nn.Linear(16, 8, bias_attr=False)
    x = RNG.uniform(0, 1, (512, 16)).astype(np.float32)
    config = QuantConfig("hist", hist_percent=0.9, bias_correction=True)
    model = quant_post_static(net, spec(16), [x[:256], x[256:]], config)
    want = (x @ net.weight.numpy()).mean(axis=0)
    np.testing.assert_allclose(model(x).mean(axis=0), want, atol=1e-4)


@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_adaround_is_nearer_to_float32_than_the_nearest_integers(kind):
    proa.seed(10)
    # Correlated inputs, and weights that an outlier leaves few steps.
    mix = RNG.standard_normal((4, 32)).astype(np.float32)
    if kind == "linear":
        net, shape = nn.Linear(32, 16), (32,)
        x = RNG.standard_normal((256, 4)).astype(np.float32) @ mix
    else:
        net, shape = nn.Conv2D(32, 16, 1), (32, 2, 2)
        x = np.moveaxis(RNG.standard_normal((64, 2, 2, 4)).astype("f4") @ mix, -1, 1)
    x += 0.1 * RNG.standard_normal(x.shape).astype(np.float32)
    weight = RNG.standard_normal(net.weight.shape).astype(np.float32) * 0.2
    weight.flat[0] = 2
    net.weight.set_value(weight)
    nearest, learnt = (
        quant_post_static(
            net, spec(*shape), [np.ascontiguousarray(x)],
            QuantConfig("abs_max", "abs_max", round_type=kind_of_rounding),
        )
        for kind_of_rounding in ("round", "adaround")
    )  # fmt: skip
    assert learnt.report[0].sqnr_db > nearest.report[0].sqnr_db + 2
    # Every weight is one of the two integers next to it.
    product, other = (
        next(n for n in m.program.main.nodes if n.op.endswith("_int8"))
        for m in (learnt, nearest)
    )
    w = net.weight.numpy()
    exact = w / (np.abs(w).max() / np.float32(127))
    assert np.abs(product.inputs[1].data - exact).max() < 1.001
    assert (product.inputs[1].data != other.inputs[1].data).any()


@pytest.mark.parametrize("wrong", [{"smooth_alpha": 1.5}, {"round_type": "up"}])
def test_a_config_names_the_correction_it_rejects(wrong):
    with pytest.raises(
        InvalidArgumentError, match=rf"\[QuantConfig\] {next(iter(wrong))}"
    ):
        QuantConfig(**wrong)
