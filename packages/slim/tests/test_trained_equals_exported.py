"""What quantization-aware training computes is what the exported model computes."""

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    UnimplementedError,
)
from proa.static import InputSpec
from proa_slim import (
    QAT,
    ImperativeQuantAware,
    QuantConfig,
    QuantizedActivation,
    QuantizedConvNorm,
    QuantizedLayer,
)
from proa_slim.quant.fake_quant import InputQuantizer, learned_fake_quant
from proa_slim.quant.trained import recorded

RNG = np.random.default_rng(7)
SPEC = [InputSpec([None, 2, 6, 6], "float32", "x")]
X = RNG.standard_normal((16, 2, 6, 6)).astype(np.float32)


class Branches(nn.Layer):
    """Two branches with norms that meet in a sum, then a depthwise convolution."""

    def __init__(self):
        super().__init__()
        self.left, self.left_norm = nn.Conv2D(2, 8, 3, padding=1), nn.BatchNorm2D(8)
        self.right = nn.Conv2D(2, 8, 1, bias_attr=False)
        self.right_norm = nn.BatchNorm2D(8)
        self.depthwise = nn.Conv2D(8, 8, 3, 2, 1, groups=8, bias_attr=False)
        self.norm, self.act = nn.BatchNorm2D(8), nn.ReLU6()
        self.head = nn.Linear(72, 4)

    def forward(self, x):
        left = proa.tanh(self.left_norm(self.left(x)))
        right = nn.functional.relu(self.right_norm(self.right(x)))
        y = self.act(self.norm(self.depthwise(left + right)))
        return self.head(y.flatten(1))


def trained(config, spec=None, steps=12):
    proa.seed(1)
    student = QAT(config).quantize(Branches(), spec)
    adam = proa.optimizer.Adam(1e-2, parameters=student.parameters())
    for _ in range(steps):
        student(proa.to_tensor(X)).square().mean().backward()
        adam.step()
        adam.clear_grad()
    student.eval()
    return student


CONFIGS = [
    QuantConfig("moving_average"),
    QuantConfig("moving_average", freeze_bn_delay=6),
    QuantConfig("abs_max", "abs_max"),
    QuantConfig("abs_max", "channel_mse", symmetric=False),
    QuantConfig("moving_average", learn_steps=True),
    QuantConfig("moving_average", "abs_max", learn_steps=True),
    QuantConfig("moving_average", learn_ranges=True),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_the_student_evaluates_to_the_bits_of_the_exported_model(config):
    student = trained(config, SPEC, 24)
    folded = [type(x) for x in student.children()].count(QuantizedConvNorm)
    assert folded == 3
    model = QAT(config).convert(student, SPEC)
    ops = [n.op for n in model.program.main.nodes]
    assert sum(op.endswith("_int8") for op in ops) == 4
    assert "batch_norm_infer" not in ops
    x = RNG.standard_normal((5, 2, 6, 6)).astype(np.float32)
    with_gradient = student(proa.to_tensor(x)).numpy()
    with proa.no_grad():
        without = student(proa.to_tensor(x)).numpy()
    np.testing.assert_array_equal(model(x), with_gradient)
    np.testing.assert_array_equal(model(x), without)


def activated():
    proa.seed(3)
    return nn.Sequential(
        nn.Conv2D(2, 4, 3), nn.ReLU(), nn.Conv2D(4, 4, 3), nn.Tanh(), nn.ReLU6(),
        nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


@pytest.mark.feature("L462")
@pytest.mark.parametrize("weight", ["abs_max", "channel_wise_abs_max"])
def test_layers_with_and_without_weights_are_rounded_but_for_skipped_ones(
    weight, tmp_path
):
    network = activated()
    network[2].skip_quant = True
    aware = ImperativeQuantAware(["Conv2D", nn.Linear, "ReLU", "Tanh"], weight)
    student = aware.quantize(network)
    assert student is network
    kinds = [type(layer) for layer in student.children()]
    assert kinds == [
        *(QuantizedLayer, QuantizedActivation, nn.Conv2D, QuantizedActivation),
        *(nn.ReLU6, nn.Flatten, QuantizedLayer),
    ]
    adam = proa.optimizer.Adam(1e-2, parameters=student.parameters())
    losses = []
    for _ in range(10):
        loss = (student(proa.to_tensor(X)) - 1).square().mean()
        loss.backward()
        adam.step()
        adam.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]
    student.eval()
    aware.save_quantized_model(student, tmp_path / "net.int8.proa", SPEC)
    graph = proa.ir.file.read(tmp_path / "net.int8.proa")
    ops = [node.op for node in graph.main.nodes]
    assert ops.count("conv2d_int8") == ops.count("linear_int8") == 1
    assert "fake_quant" not in ops  # which lite does not have
    loaded = proa.jit.load(str(tmp_path / "net.int8.proa"))
    x = proa.to_tensor(X)
    np.testing.assert_allclose(
        loaded(x).numpy(), student(x).numpy(), rtol=1e-5, atol=1e-6
    )
    # The input is rounded: tanh takes at most 255 values.
    tanh = student[3](student[2](student[1](student[0](x)))).numpy()
    assert len(np.unique(tanh)) <= 255


def test_layers_without_weights_evaluate_to_the_bits_of_the_exported_model():
    config = QuantConfig("moving_average", activations=(nn.ReLU, nn.Tanh))
    student = QAT(config).quantize(activated())
    for _ in range(3):
        student(proa.to_tensor(X))
    student.eval()
    model = QAT(config).convert(student, SPEC)
    x = RNG.standard_normal((5, 2, 6, 6)).astype(np.float32)
    np.testing.assert_array_equal(model(x), student(proa.to_tensor(x)).numpy())


def test_arguments_of_paddle_are_checked():
    for options, error, text in (
        ({"weight_quantize_type": "range"}, InvalidArgumentError, "must be one of abs"),
        ({"activation_bits": 4}, UnimplementedError, "activation_bits must be 8, got"),
        ({"quantizable_layer_type": ["Conv9D"]}, InvalidArgumentError, "'Conv9D'"),
        ({"quantizable_layer_type": ["LSTM"]}, UnimplementedError, "got 'LSTM'"),
    ):
        with pytest.raises(error, match=text):
            ImperativeQuantAware(**options)


def test_evaluation_has_the_gradient_of_training():
    student = trained(QuantConfig("abs_max", freeze_bn_delay=0), SPEC)
    x = proa.to_tensor(X)
    gradients = []
    for mode in (student.eval, student.train):
        mode()
        for layer in student.sublayers():  # ranges stay what they are
            layer.training = layer.training and isinstance(layer, QuantizedConvNorm)
        student.clear_gradients()
        student(x).sum().backward()
        gradients.append(student.left.inner.weight.grad.numpy().copy())
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-4, atol=1e-5)


def test_norms_are_folded_by_the_formula():
    student = trained(QuantConfig("abs_max"), SPEC)
    layer = student.depthwise
    norm, folded = layer.norm, layer.folded()
    factor = norm.weight.numpy() / np.sqrt(norm._variance.numpy() + 1e-5)
    want = layer.inner.weight.numpy() * factor[:, None, None, None]
    np.testing.assert_allclose(folded.inner.weight.numpy(), want, rtol=1e-5)
    shift = norm.bias.numpy() - norm._mean.numpy() * factor
    np.testing.assert_allclose(folded.inner.bias.numpy(), shift, rtol=1e-4, atol=1e-6)


def test_training_before_the_freeze_normalises_by_the_batch():
    proa.seed(1)
    net = nn.Sequential(nn.Conv2D(2, 4, 3), nn.BatchNorm2D(4))
    student = QAT(QuantConfig("abs_max")).quantize(net)
    y = student(proa.to_tensor(X)).numpy()
    np.testing.assert_allclose(y.mean((0, 2, 3)), 0, atol=1e-4)
    np.testing.assert_allclose(y.std((0, 2, 3)), 1, atol=1e-3)
    exact = net(proa.to_tensor(X)).numpy()
    assert np.abs(y - exact).max() < 0.05 * np.abs(exact).max()


def test_a_frozen_norm_keeps_its_statistics():
    student = trained(QuantConfig("abs_max", freeze_bn_delay=3), SPEC, 3)
    layer = student.depthwise
    assert layer.is_frozen
    before = layer.norm._mean.numpy().copy()
    student.train()
    student(proa.to_tensor(3 * X))
    np.testing.assert_array_equal(layer.norm._mean.numpy(), before)
    qat = QAT()
    other = qat.quantize(Branches(), SPEC)
    assert not other.left.is_frozen
    qat.freeze_bn(other)
    assert other.left.is_frozen
    other.left.unfreeze_bn()
    assert not other.left.is_frozen


def test_a_norm_that_others_read_too_is_not_folded():
    class Shared(nn.Layer):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2D(2, 2, 1), nn.BatchNorm2D(2)

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y) + y

    config = QuantConfig("abs_max")
    student = QAT(config).quantize(Shared(), SPEC)
    assert isinstance(student.conv, QuantizedLayer)
    assert isinstance(student.norm, nn.BatchNorm2D)
    student(proa.to_tensor(X))
    student.eval()
    model = QAT(config).convert(student, SPEC)
    want = student(proa.to_tensor(X)).numpy()
    np.testing.assert_allclose(model(X), want, rtol=1e-5, atol=1e-5)


def test_a_norm_that_was_not_folded_goes_into_the_integer_product():
    student = trained(QuantConfig("abs_max"))
    assert isinstance(student.norm, nn.BatchNorm2D)
    model = QAT(QuantConfig("abs_max")).convert(student, SPEC)
    ops = [n.op for n in model.program.main.nodes]
    assert "batch_norm_infer" not in ops and "relu6" not in ops
    want = student(proa.to_tensor(X)).numpy()
    np.testing.assert_allclose(model(X), want, atol=0.03 * np.abs(want).max())


def lsq(x, s, count, along):
    """Value, slope for x and slope for s (Esser et al., 2020, equations 1 to 5)."""
    v = x / s.reshape(along)
    inside = np.abs(v) <= 127
    y = np.clip(np.rint(v), -127, 127) * s.reshape(along)
    slope = np.where(inside, np.rint(v) - v, np.sign(v) * 127)
    return y, inside.astype(np.float32), slope / np.sqrt(count * 127)


@pytest.mark.parametrize("per_channel", [False, True])
def test_learned_steps_have_the_gradient_of_the_paper(per_channel):
    x = 3 * RNG.standard_normal((4, 3, 5)).astype(np.float32)
    s = np.array([0.01, 0.03, 0.02] if per_channel else [0.017], np.float32)
    along = (1, 3, 1) if per_channel else (1, 1, 1)
    dy = RNG.standard_normal(x.shape).astype(np.float32)
    tensor, step = proa.to_tensor(x), proa.to_tensor(s)
    tensor.stop_gradient = step.stop_gradient = False
    got = learned_fake_quant(tensor, step, 1)
    (got * proa.to_tensor(dy)).sum().backward()
    y, dx, ds = lsq(x, s, x.size / s.size, along)
    np.testing.assert_allclose(got.numpy(), y, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(tensor.grad.numpy(), dy * dx, rtol=1e-6)
    axes = (0, 2) if per_channel else (0, 1, 2)
    want = (dy * ds).sum(axes).reshape(s.shape)
    np.testing.assert_allclose(step.grad.numpy(), want, rtol=2e-3, atol=2e-3)


def test_learned_ranges_have_the_gradient_of_the_paper():
    # Choi et al., 2018: of the range, the sum over what is clipped at it.
    rng = np.random.default_rng(5)
    x = 3 * rng.standard_normal((4, 30)).astype(np.float32)
    dy = rng.standard_normal(x.shape).astype(np.float32)
    quantizer = InputQuantizer(QuantConfig("moving_average", learn_ranges=True))
    for _ in range(20):
        quantizer(proa.to_tensor(x[:1]))
    alpha = float(quantizer.limit)
    assert alpha == pytest.approx(np.abs(x[:1]).max(), rel=1e-5)
    tensor = proa.to_tensor(x)
    tensor.stop_gradient = False
    got = quantizer(tensor)
    (got * proa.to_tensor(dy)).sum().backward()
    step = alpha / 127
    y = np.clip(np.rint(x / step), -127, 127) * step
    np.testing.assert_allclose(got.numpy(), y, rtol=1e-5, atol=1e-6)
    clipped = np.abs(x) > alpha
    assert 0 < clipped.sum() < x.size
    np.testing.assert_allclose(tensor.grad.numpy(), np.where(clipped, 0, dy))
    want = (dy * np.sign(x))[clipped].sum()
    np.testing.assert_allclose(float(quantizer.limit.grad), want, rtol=1e-4)


def test_learned_steps_are_trained_after_twenty_batches():
    config = QuantConfig("moving_average", learn_steps=True, step_learning_rate=1.0)
    student = trained(config, SPEC, 0)
    student.train()
    sgd = proa.optimizer.SGD(1.0, parameters=student.parameters())
    step = student.head.input_quantizer.step
    values = []
    for _ in range(22):
        student(proa.to_tensor(X)).square().sum().backward()
        values.append(float(step.grad) if step.grad is not None else 0.0)
        student.clear_gradients()
    assert not any(values[:20]) and all(values[20:])
    student(proa.to_tensor(X)).square().sum().backward()
    before = float(step)
    sgd.step()
    assert float(step) != before


@pytest.mark.feature("L473")
@pytest.mark.feature("L476")
def test_output_ranges_of_all_layers_are_stored_in_the_file(tmp_path):
    config = QuantConfig("abs_max")
    student = trained(config, SPEC, 0)
    student.train()
    y = student(proa.to_tensor(X))
    model = QAT(config).convert(student, SPEC)
    assert set(model.out_scales) == {
        *("left", "left_norm", "right", "right_norm", "depthwise", "norm", "act"),
        "head",
    }
    peak = float(np.abs(y.numpy()).max())
    assert model.out_scales["head"] == pytest.approx(peak, rel=1e-5)
    path = tmp_path / "net.int8.proa"
    QAT(config).save_quantized_model(student, path, SPEC)
    noted = proa.ir.file.read(path).metadata["out_threshold"]
    assert '"head"' in noted


def test_layers_are_skipped_by_class_pattern_and_attribute():
    def wrapped(network=None, **options):
        config = QuantConfig("abs_max", **options)
        student = QAT(config).quantize(network or Branches(), SPEC)
        return {
            path
            for path, layer in student.named_children()
            if isinstance(layer, (QuantizedLayer, QuantizedConvNorm))
        }

    every = {"left", "right", "depthwise", "head"}
    assert wrapped() == every
    assert wrapped(skip=(nn.Linear,)) == every - {"head"}
    assert wrapped(skip=("*ght", "head")) == {"left", "depthwise"}
    marked = Branches()
    marked.left.skip_quant = True
    assert wrapped(marked) == every - {"left"}
    nested = nn.Sequential(Branches(), nn.Linear(4, 4))
    student = QAT(QuantConfig("abs_max", skip=("0",))).quantize(nested)
    assert not isinstance(student[0].head, QuantizedLayer)
    with pytest.raises(PreconditionNotMetError, match="at least one Conv2D or Linear"):
        wrapped(skip=(nn.Linear, nn.Conv2D))


def test_options_of_training_are_checked():
    with pytest.raises(InvalidArgumentError, match="freeze_bn_delay must be at least"):
        QuantConfig(freeze_bn_delay=-1)
    with pytest.raises(InvalidArgumentError, match="step_learning_rate must be posit"):
        QuantConfig(step_learning_rate=0)
    with pytest.raises(UnimplementedError, match="learn_steps needs symmetric"):
        QuantConfig("abs_max", symmetric=False, learn_steps=True)
    with pytest.raises(UnimplementedError, match="learn_ranges needs symmetric"):
        QuantConfig("abs_max", symmetric=False, learn_ranges=True)
    with pytest.raises(InvalidArgumentError, match="or learn_ranges, got both"):
        QuantConfig(learn_steps=True, learn_ranges=True)


def test_the_network_is_recorded_as_it_was_called():
    program = recorded(Branches(), SPEC)
    assert "batch_norm_infer" in [n.op for n in program.main.nodes]
