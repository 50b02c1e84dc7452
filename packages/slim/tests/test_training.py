"""Post-training quantization and quantization-aware training of layers."""

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import (
    InvalidArgumentError,
    NotFoundError,
    PreconditionNotMetError,
    UnimplementedError,
)
from proa.static import InputSpec
from proa.static import nn as snn
from proa_slim import QAT, QuantConfig, QuantizedLayer, quant_post_static

RNG = np.random.default_rng(4)
SPEC = [InputSpec([None, 1, 12, 12], "float32", "x")]


def network():
    proa.seed(2)
    return nn.Sequential(
        nn.Conv2D(1, 4, 3, padding=1),
        nn.BatchNorm2D(4),
        nn.ReLU(),
        nn.MaxPool2D(2, 2),
        nn.Flatten(),
        nn.Linear(144, 5),
    )


def images(n):
    return RNG.standard_normal((n, 1, 12, 12)).astype(np.float32)


def test_post_training_leaves_the_network_as_it_was():
    net = network()
    net.train()
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    quant_post_static(net, SPEC, [images(8)])
    assert net.training
    for key, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[key])


def test_batch_norm_is_folded_and_everything_runs_in_integers():
    net = network()
    net(proa.to_tensor(images(32)))
    net.eval()
    model = quant_post_static(net, SPEC, [images(32)], QuantConfig("abs_max"))
    ops = [n.op for n in model.program.main.nodes]
    assert ops == ["quantize", "conv2d_int8", "max_pool2d", "flatten", "linear_int8"]
    x = images(16)
    exact = net(proa.to_tensor(x)).numpy()
    assert np.abs(model(x) - exact).max() < 0.06 * np.abs(exact).max()


def test_labels_after_the_inputs_are_ignored():
    loader = [(images(4), np.zeros(4)), (images(4), np.zeros(4))]
    assert quant_post_static(network(), SPEC, loader).report


def test_no_calibration_data_is_an_error():
    with pytest.raises(PreconditionNotMetError, match="at least one batch"):
        quant_post_static(network(), SPEC, [])
    with pytest.raises(InvalidArgumentError, match="must hold 1 arrays, got 0"):
        quant_post_static(network(), SPEC, [[]])


def test_training_wraps_products_in_a_copy():
    net = network()
    student = QAT().quantize(net)
    kinds = [type(layer) for layer in student.sublayers()]
    assert kinds.count(QuantizedLayer) == 2
    assert not any(isinstance(layer, QuantizedLayer) for layer in net.sublayers())
    x = proa.to_tensor(images(8))
    np.testing.assert_allclose(student(x).numpy(), net(x).numpy(), atol=0.2)


def test_gradients_go_straight_through_the_rounding():
    layer = nn.Linear(6, 3)
    student = QAT().quantize(nn.Sequential(layer))
    x = RNG.standard_normal((20, 6)).astype(np.float32)
    student(proa.to_tensor(x)).sum().backward()
    weight = student.parameters()[0]
    scale = np.abs(x).max() / 127
    rounded = np.clip(np.rint(x / scale), -127, 127) * scale
    want = np.repeat(rounded.sum(0)[:, None], 3, 1)
    np.testing.assert_allclose(weight.grad.numpy(), want, rtol=1e-4, atol=1e-4)


def test_a_trained_student_converts_to_the_same_results():
    student = QAT().quantize(network())
    optimizer = proa.optimizer.SGD(0.01, parameters=student.parameters())
    for _ in range(5):
        student(proa.to_tensor(images(16))).square().mean().backward()
        optimizer.step()
        optimizer.clear_grad()
    student.eval()
    model = QAT().convert(student, SPEC)
    assert sum(n.op.endswith("_int8") for n in model.program.main.nodes) == 2
    x = images(10)
    faked = student(proa.to_tensor(x)).numpy()
    np.testing.assert_allclose(model(x), faked, atol=0.05 * np.abs(faked).max())


@pytest.mark.parametrize("wrong", [np.nan, -np.inf])
def test_a_training_batch_that_is_not_finite_names_the_layer(wrong):
    student = QAT().quantize(network())
    x = images(4)
    student(proa.to_tensor(x))
    student[1].weight.set_value(np.array([1, wrong, 1, 1], np.float32))
    with pytest.raises(InvalidArgumentError, match=r"layer '5', got \d+ NaN or"):
        student(proa.to_tensor(x))


def test_a_student_that_saw_no_batch_cannot_be_evaluated():
    student = QAT().quantize(network())
    student.eval()
    with pytest.raises(PreconditionNotMetError, match="must see a training batch"):
        student(proa.to_tensor(images(1)))


def test_the_saved_file_has_the_same_integers(tmp_path):
    model = quant_post_static(network(), SPEC, [images(8)])
    path = tmp_path / "net.int8.proa"
    model.save(path)
    x = images(3)
    loaded = proa.jit.load(str(path))
    assert loaded(proa.to_tensor(x)).numpy().tobytes() == model(x).tobytes()
    assert path.stat().st_size < 12_000


@pytest.mark.feature("L465")
def test_ops_choose_what_is_quantized(tmp_path):
    for op, kind in (("conv2d", nn.Conv2D), ("linear", nn.Linear)):
        config = QuantConfig("abs_max", ops=(op,))
        model = quant_post_static(network(), SPEC, [images(8)], config)
        ops = [n.op for n in model.program.main.nodes]
        assert [o for o in ops if o.endswith("_int8")] == [f"{op}_int8"]
        student = QAT(config).quantize(network())
        wrapped = [x for x in student.sublayers() if isinstance(x, QuantizedLayer)]
        assert [type(x.inner) for x in wrapped] == [kind]
    with pytest.raises(InvalidArgumentError, match=r"conv2d, .*, got \['lstm"):
        QuantConfig(ops=("lstm",))


@pytest.mark.feature("L463")
def test_skipped_layers_are_trained_and_converted_in_float():
    net = network()
    config = QuantConfig("moving_average", skip=(net[5].full_name(),))
    student = QAT(config).quantize(net)
    assert isinstance(student[0], QuantizedLayer)
    assert isinstance(student[5], nn.Linear)
    student(proa.to_tensor(images(8)))
    student.eval()
    trained = QAT(config).convert(student, SPEC)
    calibrated = quant_post_static(net, SPEC, [images(8)], config)
    by_path = quant_post_static(net, SPEC, [images(8)], QuantConfig(skip=("5",)))
    for model in (trained, calibrated, by_path):
        ops = [n.op for n in model.program.main.nodes]
        assert "linear" in ops and "conv2d_int8" in ops
        assert "linear_int8" not in ops
    with pytest.raises(NotFoundError, match="skip must name layers of the network"):
        QAT(QuantConfig(skip=("head",))).quantize(net)


class Rounds(nn.Layer):
    """x -> h or -h, whichever sums up to more; h is n rounds of tanh(linear(x))."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, n):
        _, h = snn.while_loop(
            lambda i, h: i < n,
            lambda i, h: (i + 1, proa.tanh(self.linear(h))),
            [n * 0, x],
        )
        return snn.cond(h.sum() > 0, lambda: h, lambda: -h)


ROUNDS_SPEC = [InputSpec([None, 8], "float32", "x"), InputSpec([], "int64", "n")]


def test_a_network_with_control_flow_is_quantized_by_training_alone():
    proa.seed(3)
    net = Rounds()
    x, n = RNG.standard_normal((4, 8)).astype(np.float32), np.array(3)
    with pytest.raises(UnimplementedError, match="without control flow"):
        quant_post_static(net, ROUNDS_SPEC, [(x, n)])
    qat = QAT()
    student = qat.quantize(net)
    student(proa.to_tensor(x), proa.to_tensor(n))
    student.eval()
    model = qat.convert(student, ROUNDS_SPEC)
    ops = [node.op for block in model.program.blocks for node in block.nodes]
    assert "linear_int8" in ops and "loop" in ops
    for rounds in (0, 1, 4):
        want = student(proa.to_tensor(x), proa.to_tensor(rounds)).numpy()
        got = model(x, np.array(rounds))
        np.testing.assert_allclose(got, want, atol=0.02)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_a_quantized_convolution_pads_as_its_layer(mode):
    proa.seed(5)
    inner = nn.Conv2D(2, 3, 3, padding=1, stride=2, padding_mode=mode)
    layer = QuantizedLayer(inner, QuantConfig("abs_max"))
    x = proa.to_tensor(RNG.standard_normal((2, 2, 7, 7)).astype(np.float32))
    rounded, exact = layer(x).numpy(), inner(x).numpy()
    # 8 bits: half a step of 1 / 127 of the greatest input and weight in each product.
    assert np.abs(rounded - exact).max() < 0.05 * np.abs(exact).max()


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("with_spec", [True, False])
def test_norms_are_folded_by_the_spec_or_in_a_sequential_inside(inside, with_spec):
    proa.seed(4)
    net = nn.Sequential(
        nn.Conv2D(1, 6, 3, bias_attr=False), nn.BatchNorm2D(6), nn.ReLU(),
        nn.Flatten(), nn.Linear(6 * 36, 8), nn.BatchNorm1D(8),
    )  # fmt: skip
    net = nn.Sequential(net) if inside else net
    spec = [InputSpec([None, 1, 8, 8], "float32", "x")] if with_spec else None
    student = QAT().quantize(net, spec)
    kinds = [type(layer).__name__ for layer in student.sublayers()]
    assert kinds.count("FoldedNorm") == (2 if inside or with_spec else 0)
