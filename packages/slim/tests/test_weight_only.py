"""Weights in 16, 8 and 4 bits, against NumPy arithmetic, in every operator."""

import os
import tempfile

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError
from proa.ir.passes import optimize
from proa.ir.verify import verify
from proa.static import InputSpec
from proa_slim import QuantConfig, quant_post_dynamic, quant_post_static
from proa_slim.quant import post_static
from proa_slim.quant.gptq import gptq
from proa_slim.quant.weight_only import four_bits

RNG = np.random.default_rng(8)


def per_channel(w, axis, bits):
    """w by one scale for each index of `axis`."""
    levels = 2 ** (bits - 1) - 1
    others = tuple(i for i in range(w.ndim) if i != axis)
    peak = np.abs(w).max(axis=others, keepdims=True)
    step = np.where(peak > 0, peak, 1) / np.float32(levels)
    return np.clip(np.rint(w / step), -levels, levels) * step


def by_group(w, axis, size):
    """w in 4 bits: the greatest magnitude of a group is at -8, -8.25 ... -10."""
    rows = np.moveaxis(w, axis, 0).reshape(-1, size)
    peak = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    real = []
    for integer in np.arange(32, 41, dtype=np.float32) / 4:
        step = (peak / -integer).astype(np.float16).astype(np.float32)[:, None]
        real.append(np.clip(np.rint(rows / step), -8, 7) * step)
    best = np.argmin([((r - rows) ** 2).sum(axis=1) for r in real], axis=0)
    chosen = np.array(real)[best, np.arange(len(rows))]
    return np.moveaxis(chosen.reshape(np.moveaxis(w, axis, 0).shape), 0, axis)


LAYERS = {
    "linear": (lambda: nn.Linear(64, 72), (64,), 1, 32),
    "conv2d": (lambda: nn.Conv2D(24, 32, 3, padding=1), (24, 6, 6), 0, 27),
    "conv2d_transpose": (lambda: nn.Conv2DTranspose(24, 32, 3), (24, 5, 5), 1, 27),
}


@pytest.mark.parametrize("bits", [16, 8, 4])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.feature("L471", how="mechanism")
def test_products_read_the_rounded_weights(name, bits, tmp_path):
    make, shape, axis, size = LAYERS[name]
    proa.seed(1)
    net = nn.Sequential(make())
    spec = [InputSpec([None, *shape], "float32", "x")]
    model = quant_post_dynamic(net, spec, bits)
    verify(model.program)
    x = RNG.standard_normal((5, *shape)).astype(np.float32)
    got = model(x)
    w = net[0].weight.numpy()
    real = by_group(w, axis, size) if bits == 4 else per_channel(w, axis, bits)
    net[0].weight.set_value(real.astype(np.float32))
    want = net(proa.to_tensor(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "net.proa")
    loaded = proa.jit.load(str(tmp_path / "net.proa"))
    np.testing.assert_allclose(
        loaded(proa.to_tensor(x)).numpy(), want, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.feature("L468")
def test_rows_of_an_embedding_are_converted_after_the_lookup(bits):
    proa.seed(2)
    net = nn.Sequential(nn.Embedding(50, 16, padding_idx=3))
    spec = [InputSpec([None, 4], "int64", "ids")]
    model = quant_post_dynamic(net, spec, bits)
    ids = np.array([[0, 49, 3, 7], [1, 1, 3, 2]])
    table = per_channel(net[0].weight.numpy(), 0, bits)
    table[3] = 0
    np.testing.assert_allclose(model(ids), table[ids], rtol=1e-5, atol=1e-7)
    lookup = model.program.main.nodes[0]
    assert lookup.op == "embedding" and lookup.inputs[1].dtype == f"int{bits}"


def test_an_lstm_keeps_its_results_with_recurrent_weights_in_8_bits():
    proa.seed(3)
    net = nn.LSTM(16, 32)
    spec = [InputSpec([None, 7, 16], "float32", "x")]
    model = quant_post_dynamic(net, spec, 8)
    stored = [v for v in model.program.main.constants() if v.dtype == "int8"]
    assert len(stored) == 2  # of the input and of the state
    x = RNG.standard_normal((3, 7, 16)).astype(np.float32)
    want = net(proa.to_tensor(x))[0].numpy()
    np.testing.assert_allclose(model(x)[0], want, atol=0.02)


@pytest.mark.parametrize(("bits", "limit"), [(16, 0.52), (8, 0.28), (4, 0.17)])
@pytest.mark.feature("L471", how="mechanism")
def test_files_shrink_by_the_bits_of_the_weights(bits, limit, tmp_path):
    proa.seed(4)
    net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    spec = [InputSpec([None, 256], "float32", "x")]
    proa.jit.save(net, str(tmp_path / "f.proa"), spec)
    quant_post_dynamic(net, spec, bits).save(tmp_path / "q.proa")
    sizes = [os.path.getsize(tmp_path / name) for name in ("q.proa", "f.proa")]
    assert sizes[0] <= limit * sizes[1]


def test_groups_divide_a_channel_or_are_all_of_it():
    for count, size in ((64, 32), (48, 24), (27, 27), (62, 31), (74, 74)):
        w = RNG.standard_normal((4, count)).astype(np.float32)
        grouped = four_bits(w, 0, 32)
        assert grouped.integers.shape == (4, count // size, size)
        assert grouped.integers.min() == -8 and grouped.integers.max() <= 7


def test_a_shared_weight_is_stored_once():
    class Twice(nn.Layer):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(32, 32)

        def forward(self, x):
            return self.fc(self.fc(x))

    model = quant_post_dynamic(Twice(), [InputSpec([None, 32], "float32", "x")])
    ops = [n.op for n in model.program.main.nodes]
    assert ops == ["dequantize", "linear", "linear"]


def test_skipped_and_small_layers_stay_in_float():
    net = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 2))
    spec = [InputSpec([None, 32], "float32", "x")]
    model = quant_post_dynamic(net, spec, skip=("1",))
    assert model.unquantized == {"2": "its weight has less than 128 elements"}
    weights = [n.inputs[1] for n in model.program.main.nodes if n.op == "linear"]
    assert [w.is_constant for w in weights] == [False, True, True]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"weight_bits": 5}, InvalidArgumentError),
        ({"group_size": 1}, InvalidArgumentError),
        ({"skip": ("head",)}, NotFoundError),
    ],
)
def test_wrong_arguments_are_refused(wrong, error):
    net = nn.Sequential(nn.Linear(32, 32))
    with pytest.raises(error, match=next(iter(wrong))):
        quant_post_dynamic(net, [InputSpec([None, 32], "float32", "x")], **wrong)


def test_a_network_without_weights_is_refused():
    spec = [InputSpec([None, 32], "float32", "x")]
    with pytest.raises(PreconditionNotMetError, match="without weights"):
        quant_post_dynamic(nn.ReLU(), spec)
    with pytest.raises(PreconditionNotMetError, match="'0': 'its weight has less"):
        quant_post_dynamic(nn.Sequential(nn.Linear(32, 2)), spec)


@pytest.mark.parametrize("bits", [16, 8, 4])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(bits, wrong):
    net = nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 32), nn.Embedding(50, 16))
    weight = net[1].weight.numpy()
    weight[3, 5] = wrong
    net[1].weight.set_value(weight)
    spec = [InputSpec([None, 32], "float32", "x")]
    with pytest.raises(InvalidArgumentError, match=r"got 1 NaN .* in '1\.weight'"):
        quant_post_dynamic(net[:2], spec, bits)
    model = quant_post_dynamic(net[:2], spec, bits, skip=("1",))
    assert len([n for n in model.program.main.nodes if n.op == "linear"]) == 2
    table = net[2].weight.numpy()
    table[49] = wrong  # a row that calibration need not read
    net[2].weight.set_value(table)
    rows = nn.Sequential(net[2], nn.Linear(16, 5))
    ids, spec = np.zeros((6, 7), "int64"), [InputSpec([None, 7], "int64", "ids")]
    config = QuantConfig("abs_max", ops=("linear", "embedding"))
    with pytest.raises(InvalidArgumentError, match=r"got 16 NaN .* in '0\.weight'"):
        quant_post_static(rows, spec, [ids], config)


def test_calibration_of_gptq_that_is_not_finite_names_the_input_and_the_batch():
    net = nn.Sequential(nn.Linear(64, 72))
    batches = [RNG.standard_normal((8, 64)).astype(np.float32) for _ in range(3)]
    batches[2][0, 1] = np.nan
    spec = [InputSpec([None, 64], "float32", "x")]
    with pytest.raises(InvalidArgumentError, match=r"1 NaN .* input 'x' of batch 2"):
        quant_post_dynamic(net, spec, 4, calibration=batches)


def test_gptq_makes_up_for_the_errors_of_earlier_inputs():
    x = RNG.standard_normal((2000, 8)) @ RNG.standard_normal((8, 32))  # correlated
    x += 0.1 * RNG.standard_normal(x.shape)
    w = RNG.standard_normal((16, 32))
    step = np.repeat(np.abs(w).max(axis=1, keepdims=True) / 7, 32, axis=1)
    q = gptq(w, step, x.T @ x, -8, 7)
    assert np.abs(q).max() <= 8
    error = ((x @ (q * step - w).T) ** 2).sum()
    nearest = np.rint(w / step).clip(-8, 7) * step
    assert error < 0.3 * ((x @ (nearest - w).T) ** 2).sum()


def test_gptq_on_uncorrelated_inputs_rounds_to_the_nearest():
    w = RNG.standard_normal((5, 12))
    step = np.full(w.shape, 0.21)
    want = np.rint(w / step).clip(-8, 7)
    np.testing.assert_array_equal(gptq(w, step, np.eye(12), -8, 7), want)


def test_calibration_lowers_the_error_of_a_linear_layer_in_4_bits():
    proa.seed(6)
    net = nn.Sequential(nn.Linear(64, 72))
    spec = [InputSpec([None, 64], "float32", "x")]
    mix = RNG.standard_normal((10, 64))
    x = (RNG.standard_normal((512, 10)) @ mix).astype(np.float32)
    want = net(proa.to_tensor(x)).numpy()
    plain, data = (
        quant_post_dynamic(net, spec, 4, calibration=c)(x) - want for c in (None, [x])
    )
    assert (data**2).sum() < 0.5 * (plain**2).sum()


def test_small_and_depthwise_weights_have_8_bits_where_others_have_4():
    net = nn.Sequential(
        nn.Conv2D(512, 512, 3, groups=512), nn.Flatten(), nn.Linear(512, 1)
    )
    spec = [InputSpec([None, 512, 3, 3], "float32", "x")]
    model = quant_post_dynamic(net, spec, 4)
    ops = [n.op for n in model.program.main.nodes]
    assert ops.count("dequantize") == 2
    assert "bitwise_and" not in ops


class Reader(nn.Layer):
    """A convolution with norm over pictures of lines, an LSTM along their columns."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2D(1, 4, 3, padding=1), nn.BatchNorm2D(4)
        self.cells, self.head = nn.LSTM(32, 24), nn.Linear(24, 5)

    def forward(self, x):
        y = nn.functional.relu(self.norm(self.conv(x)))
        columns = y.transpose([0, 3, 1, 2]).reshape([-1, 6, 32])
        return self.head(self.cells(columns)[0])


@pytest.mark.feature("L470")
def test_calibration_folds_norms_stores_an_lstm_in_8_bits_and_writes_no_samples(
    monkeypatch, tmp_path
):
    proa.seed(3)
    net = Reader()
    x = RNG.standard_normal((6, 1, 8, 6)).astype(np.float32)
    net(proa.to_tensor(x))
    net.eval()
    spec = [InputSpec([None, 1, 8, 6], "float32", "x")]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    def converted(*arguments):
        seen.append(list(tmp_path.iterdir()))
        return convert(*arguments)

    convert = post_static.convert
    monkeypatch.setattr(post_static, "convert", converted)
    config = QuantConfig("abs_max", ops=("conv2d", "linear", "recurrent"))
    model = quant_post_static(net, spec, [x], config)
    assert seen == [[]]  # after calibration, before its files could be removed
    ops = [node.op for node in model.program.main.nodes]
    assert ops.count("conv2d_int8") == 1 and "batch_norm_infer" not in ops
    assert ops.count("recurrent") == 1 and ops.count("dequantize") >= 1
    cells = {v.name: v for v in model.program.constants() if v.name[:5] == "cells"}
    large = [v.dtype for v in cells.values() if np.prod(v.shape) > 96 * 24 - 1]
    assert large and set(large) == {"int8"} and not model.unquantized
    want = net(proa.to_tensor(x)).numpy()
    assert np.abs(model(x) - want).max() < 0.05 * np.abs(want).max()
    plain = quant_post_static(net, spec, [x], QuantConfig("abs_max"))
    assert set(plain.unquantized.values()) == {"recurrent has no int8 operator"}


def on_grid(x, step):
    return np.clip(np.rint(x / step), -127, 127) * step


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_of_rounded_arrays(cells, x):
    """NumPy's LSTM over (n, steps, in) whose products read rounded inputs and states,
    and weights with a scale for each row.
    """
    inner, outer, b, c = (p.numpy().astype(np.float64) for p in cells.parameters())
    inner, outer = (per_channel(w, 0, 8) for w in (inner, outer))
    step = np.abs(x).max() / 127
    h, cell, found = np.zeros((len(x), 24)), np.zeros((len(x), 24)), []
    for t in range(x.shape[1]):
        gates = on_grid(x[:, t], step) @ inner.T + on_grid(h, 1 / 127) @ outer.T + b + c
        i, f, g, o = np.split(gates, 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(cell)
        found.append(h)
    return np.stack(found, 1)


def test_calibration_multiplies_states_of_an_lstm_as_integers():
    proa.seed(3)
    net = nn.LSTM(32, 24)
    x = RNG.standard_normal((6, 9, 32)).astype(np.float32)
    spec = [InputSpec([None, 9, 32], "float32", "x")]
    config = QuantConfig("abs_max", ops=("linear", "recurrent"), recurrent_states=True)
    model = quant_post_static(net, spec, [x], config)
    verify(model.program)
    ops = [node.op for node in model.program.main.nodes]
    assert "linear_int8" in ops and "recurrent_int8" in ops
    assert not {"linear", "recurrent", "dequantize"} & set(ops)
    found = model(x)[0]
    np.testing.assert_allclose(found, lstm_of_rounded_arrays(net, x), atol=0.01)
    exact = net(proa.to_tensor(x))[0].numpy()
    assert 0 < np.abs(found - exact).max() < 0.03


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.SimpleRNN])
def test_states_of_skipped_recurrent_layers_stay_in_float(make):
    class Two(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.head = make(16, 24), make(24, 24), nn.Linear(24, 3)

        def forward(self, x):
            return self.head(self.b(self.a(x)[0])[0])

    proa.seed(4)
    net, spec = Two(), [InputSpec([None, 5, 16], "float32", "x")]
    x = RNG.standard_normal((8, 5, 16)).astype(np.float32)
    config = QuantConfig(
        "abs_max", ops=("linear", "recurrent"), recurrent_states=True, skip=("b",)
    )
    model = quant_post_static(net, spec, [x], config)
    ops = [node.op for node in model.program.main.nodes]
    assert ops.count("recurrent") == 1 and ops.count("recurrent_int8") == 1
    assert model.unquantized == {"b": "named in skip"}
    exact = net(proa.to_tensor(x)).numpy()
    assert np.abs(model(x) - exact).max() < 0.05 * np.abs(exact).max()
    with pytest.raises(InvalidArgumentError, match="recurrent among ops"):
        QuantConfig(recurrent_states=True)


def test_calibration_looks_rows_up_in_8_bits():
    net = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 5)).eval()
    ids = np.random.default_rng(1).integers(0, 50, (6, 7))
    spec = [InputSpec([None, 7], "int64", "ids")]
    config = QuantConfig("abs_max", ops=("linear", "embedding"))
    model = quant_post_static(net, spec, [ids], config)
    kinds = {v.name: v.dtype for v in model.program.constants()}
    assert kinds["0.weight.int8"] == "int8" and "0.weight" not in kinds
    want = net(proa.to_tensor(ids)).numpy()
    assert np.abs(model(ids) - want).max() < 0.05 * np.abs(want).max()


def test_linear_layers_read_packed_weights_after_passes():
    proa.seed(11)
    # Four groups of a channel, and three.
    net = nn.Sequential(nn.Linear(128, 96), nn.ReLU(), nn.Linear(96, 64))
    spec = [InputSpec([None, 128], "float32", "x")]
    x = RNG.standard_normal((6, 128)).astype(np.float32)
    for bits in (8, 4):
        model = quant_post_dynamic(net, spec, bits)
        want = model(x)
        optimize(model.program, 2)
        ops = [n.op for n in model.program.main.nodes]
        assert ops.count("linear_weight_only") == 2
        held = sum(v.data.nbytes for v in model.program.main.constants())
        assert held < (0.3 if bits == 8 else 0.2) * 4 * (128 * 96 + 96 * 64)
        np.testing.assert_allclose(model(x), want, rtol=1e-6, atol=1e-6)


def test_products_in_int8_round_what_comes():
    proa.seed(12)
    net = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 40))
    spec = [InputSpec([None, 64], "float32", "x")]
    model = quant_post_dynamic(net, spec, 8, products="int8")
    ops = [n.op for n in model.program.main.nodes]
    assert ops.count("linear_dynamic") == 2 and "linear" not in ops
    x = RNG.standard_normal((7, 64)).astype(np.float32)
    want = net(proa.to_tensor(x)).numpy()
    assert np.abs(model(x) - want).max() < 0.03 * np.abs(want).max()
    with pytest.raises(InvalidArgumentError, match="weight_bits=8"):
        quant_post_dynamic(net, spec, 4, products="int8")


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
def test_recurrent_layers_in_int8_keep_their_results(make):
    proa.seed(13)
    net = make(24, 48)
    spec = [InputSpec([None, 9, 24], "float32", "x")]
    model = quant_post_dynamic(net, spec, 8, products="int8")
    ops = [n.op for n in model.program.main.nodes]
    assert "recurrent_int8" in ops and "linear_dynamic" in ops
    x = RNG.standard_normal((3, 9, 24)).astype(np.float32)
    want = net(proa.to_tensor(x))[0].numpy()
    np.testing.assert_allclose(model(x)[0], want, atol=0.03)
