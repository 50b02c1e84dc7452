"""The layer report and calibration errors, against arithmetic in NumPy."""

import json
import warnings

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.static import InputSpec
from proa_slim import (
    PostTrainingQuantization,
    QuantConfig,
    Recipe,
    compress,
    quant_post_static,
)

RNG = np.random.default_rng(5)


def on_grid(x, scale):
    return np.clip(np.rint(x / scale), -127, 127) * scale


def db(signal, error):
    return 10 * np.log10((signal**2).sum() / (error**2).sum())


def wide_linear():
    """Linear(64, 32) with one column of 200 times the others' weights."""
    proa.seed(0)
    net = nn.Linear(64, 32)
    weight = net.weight.numpy()
    weight[:, 3] *= 200
    net.weight.set_value(weight)
    return net


@pytest.mark.parametrize("kind", ["abs_max", "channel_abs_max"])
def test_the_report_has_the_rounding_of_weights(kind):
    net = wide_linear()
    x = RNG.standard_normal((256, 64)).astype(np.float32)
    spec = [InputSpec([None, 64], "float32", "x")]
    model = quant_post_static(net, spec, [x], QuantConfig("abs_max", kind))
    weight, bias = (p.numpy().astype(np.float64) for p in (net.weight, net.bias))
    peak = np.abs(weight).max(axis=0 if kind.startswith("channel") else None)
    exact = x @ weight + bias
    real = on_grid(x, np.abs(x).max() / 127) @ on_grid(weight, peak / 127) + bias
    error = exact - real
    channels = [db(exact[:, i], error[:, i]) for i in range(32)]
    (row,) = model.report
    assert row.sqnr_db == pytest.approx(db(exact, error), abs=0.02)
    assert row.layer_sqnr_db == pytest.approx(row.sqnr_db)
    assert row.worst_channel_sqnr_db == pytest.approx(min(channels), abs=0.05)
    assert row.worst_channel == int(np.argmin(channels))
    assert row.max_abs_error == pytest.approx(np.abs(error).max(), rel=0.01)
    # And it is what the int8 model does.
    assert db(exact, exact - model(x)) == pytest.approx(row.sqnr_db, abs=0.02)


def test_one_scale_for_weights_of_different_ranges_ruins_a_channel():
    x = RNG.standard_normal((256, 64)).astype(np.float32)
    spec = [InputSpec([None, 64], "float32", "x")]
    one, many = (
        quant_post_static(wide_linear(), spec, [x], QuantConfig("abs_max", kind))
        for kind in ("abs_max", "channel_abs_max")
    )
    assert one.report[0].worst_channel_sqnr_db < 5
    assert many.report[0].worst_channel_sqnr_db > 30
    assert many.report[0].sqnr_db > one.report[0].sqnr_db + 5


def chain():
    proa.seed(1)
    return nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 4))


SPEC = [InputSpec([None, 16], "float32", "x")]


def test_a_layer_is_measured_alone_and_with_the_layers_before_it():
    net = chain()
    x = RNG.standard_normal((128, 16)).astype(np.float32)
    model = quant_post_static(net, SPEC, [x], QuantConfig("abs_max"))
    assert [row.layer for row in model.report] == ["0", "2"]
    w = net[2].weight.numpy().astype(np.float64)
    hidden = np.maximum(x @ net[0].weight.numpy() + net[0].bias.numpy(), 0)
    exact = hidden @ w + net[2].bias.numpy()
    rounded = on_grid(hidden, np.abs(hidden).max() / 127)
    real = rounded @ on_grid(w, np.abs(w).max(axis=0) / 127) + net[2].bias.numpy()
    assert model.report[1].layer_sqnr_db == pytest.approx(
        db(exact, exact - real), abs=0.05
    )
    assert model.report[1].sqnr_db == pytest.approx(
        db(exact, exact - model(x)), abs=0.05
    )
    assert model.report[1].sqnr_db < model.report[1].layer_sqnr_db
    assert "0" in model.summary() and "alone" in model.summary()


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_report_is_the_same_for_padded_convolutions(symmetric):
    proa.seed(3)
    net = nn.Sequential(nn.Conv2D(3, 6, 3, padding=1, groups=3), nn.ReLU())
    x = RNG.uniform(0, 3, (16, 3, 9, 9)).astype(np.float32)
    spec = [InputSpec([None, 3, 9, 9], "float32", "x")]
    config = QuantConfig("abs_max", symmetric=symmetric)
    model = quant_post_static(net, spec, [x], config)
    exact = net(proa.to_tensor(x)).numpy().astype(np.float64)
    assert model.report[0].sqnr_db == pytest.approx(
        db(exact, exact - model(x)), abs=0.02
    )


def test_asymmetric_ranges_give_positive_values_twice_the_steps():
    proa.seed(4)
    net = nn.Linear(32, 8)
    x = RNG.uniform(0, 1, (256, 32)).astype(np.float32)
    spec = [InputSpec([None, 32], "float32", "x")]

    def model(symmetric):
        config = QuantConfig("abs_max", symmetric=symmetric)
        return quant_post_static(net, spec, [x], config)

    plain, shifted = model(True), model(False)
    ops = [n.op for n in shifted.program.main.nodes]
    assert ops == ["sub", "quantize", "linear_int8"]
    # The weight's own error, the same in both, leaves less than the 6 dB of one bit.
    assert shifted.report[0].sqnr_db > plain.report[0].sqnr_db + 1
    step = x.max() / 254
    assert shifted.report[0].input_scale == pytest.approx(step)
    weight = net.weight.numpy().astype(np.float64)
    rounded = on_grid(weight, np.abs(weight).max(axis=0) / 127)
    want = (on_grid(x - 127 * step, step) + 127 * step) @ rounded + net.bias.numpy()
    np.testing.assert_allclose(shifted(x), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_calibration_data_that_are_not_finite_name_the_input_and_the_batch(wrong):
    batches = [RNG.standard_normal((4, 16)).astype(np.float32) for _ in range(3)]
    batches[1][2, 3] = wrong
    with pytest.raises(
        InvalidArgumentError,
        match=r"finite values in calibration, got 1 NaN .* input 'x' of batch 1",
    ):
        quant_post_static(chain(), SPEC, batches)


def test_a_layer_whose_result_is_not_finite_is_named():
    net = chain()
    weight = net[2].weight.numpy()
    weight[0, 0] = np.nan
    net[2].weight.set_value(weight)
    x = RNG.standard_normal((4, 16)).astype(np.float32)
    with pytest.raises(InvalidArgumentError, match=r"linear.* \(layer '2'\)"):
        quant_post_static(net, SPEC, [x])


def test_ranges_of_all_results_are_measured_and_saved(tmp_path):
    net = chain()
    batches = [RNG.standard_normal((4, 16)).astype(np.float32) for _ in range(3)]
    model = quant_post_static(net, SPEC, batches)
    want = 0.0
    for batch in batches:
        want = max(want, float(np.abs(net(proa.to_tensor(batch)).numpy()).max()))
    last = max(model.out_scales)  # paths of layers, in order
    assert len(model.out_scales) >= 2
    assert model.out_scales[last] == pytest.approx(want, rel=1e-5)
    model.save(tmp_path / "net.proa")
    noted = proa.ir.file.read(tmp_path / "net.proa").metadata["out_threshold"]
    assert json.loads(noted) == model.out_scales


def test_a_network_without_products_to_quantize_names_the_layers_it_has():
    net = nn.Sequential(nn.Conv2DTranspose(2, 3, 3, dilation=2), nn.ReLU())
    x = RNG.standard_normal((4, 2, 5, 5)).astype(np.float32)
    spec = [InputSpec([None, 2, 5, 5], "float32", "x")]
    with pytest.raises(
        PreconditionNotMetError,
        match=r"at least one layer to quantize, .* '0' \(conv2d_transpose has no int8",
    ):
        quant_post_static(net, spec, [x])


def test_layers_that_stay_in_float_are_listed_with_the_reason():
    proa.seed(5)
    net = nn.Sequential(
        nn.Conv2D(2, 4, 3), nn.Conv2DTranspose(4, 3, 2, dilation=2), nn.Flatten(),
        nn.Linear(75, 2),
    )  # fmt: skip
    x = RNG.standard_normal((4, 2, 5, 5)).astype(np.float32)
    spec = [InputSpec([None, 2, 5, 5], "float32", "x")]
    model = quant_post_static(net, spec, [x], QuantConfig("abs_max", skip=("3",)))
    assert model.unquantized == {
        "1": "conv2d_transpose has no int8 operator",
        "3": "named in skip",
    }


def normed_net():
    proa.seed(6)
    net = nn.Sequential(nn.Conv2D(1, 4, 3), nn.BatchNorm2D(4), nn.ReLU())
    x = RNG.standard_normal((64, 1, 6, 6)).astype(np.float32)
    for _ in range(40):
        net(proa.to_tensor(x))
    net.eval()
    return net, x, [InputSpec([None, 1, 6, 6], "float32", "x")]


def test_calibration_data_of_another_range_than_training_warn(recwarn):
    net, x, spec = normed_net()
    model = quant_post_static(net, spec, [x])
    model(x)
    assert not recwarn
    with pytest.warns(UserWarning, match=r"layer '1' .* pre-processing"):
        quant_post_static(net, spec, [x * 50 + 128])


def test_calibration_data_of_another_range_warn_with_a_model_file(tmp_path):
    net, x, spec = normed_net()
    path = str(tmp_path / "net.proa")
    proa.jit.save(net, path, spec)
    loaded = proa.jit.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quant_post_static(loaded, spec, [x])
    with pytest.warns(UserWarning, match=r"layer '1' .* pre-processing"):
        quant_post_static(loaded, spec, [x * 50 + 128])
    with pytest.warns(UserWarning, match=r"layer '1' .* pre-processing"):
        PostTrainingQuantization(
            model_dir=path, data_loader=[[x * 50 + 128]], batch_nums=1
        ).quantize()


@pytest.mark.parametrize("prune", [0.0, 0.3])
def test_compression_warns_of_data_of_another_range(prune, tmp_path):
    body, x, spec = normed_net()
    net = nn.Sequential(*body, nn.Conv2D(4, 2, 1), nn.Flatten())
    net.eval()
    recipe = Recipe(prune=prune, epochs=0, max_drop=100.0)
    with pytest.warns(UserWarning, match=r"layer '1' .* pre-processing"):
        compress(net, [x * 50 + 128], recipe, tmp_path, input_spec=spec, progress=False)


def test_input_of_another_range_than_calibration_warns_once(recwarn):
    net, x, spec = normed_net()
    model = quant_post_static(net, spec, [x])
    with pytest.warns(UserWarning, match=r"input 'x' .* calibrated .* pre-processing"):
        model(x * 50 + 128)
    recwarn.clear()
    model(x * 50 + 128)
    assert not recwarn
