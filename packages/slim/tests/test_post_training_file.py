"""Post-training quantization of files, with kinds of operator by Paddle's names."""

import numpy as np
import pytest

import proa
import proa.nn.functional as F
import proa_slim
from proa import nn
from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError
from proa.ir import file
from proa.runtime import engine_from_bytes
from proa.static import InputSpec
from proa_slim import PostTrainingQuantization, QuantConfig, quant_post_static
from proa_slim.quant.paddle_operators import ROUNDED, op_types

RNG = np.random.default_rng(5)
SPECS = [InputSpec([2, 4, 6, 6], "float32", name) for name in "xy"]
X, Y = (RNG.standard_normal((2, 4, 6, 6)).astype(np.float32) for _ in range(2))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def pooled(x, reduce):
    return reduce(x.reshape(2, 4, 3, 2, 3, 2), (3, 5))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normed(x, axes):
    spread = x.var(axes, keepdims=True) + 1e-5
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(spread)


def erf(x):
    special = pytest.importorskip("scipy.special")
    return special.erf(x)


#: By Paddle's name: a network of x and y, and the same in NumPy.
KINDS = {
    "arg_max": (lambda x, y: x.argmax(1), lambda x, y: x.argmax(1)),
    "batch_norm": (
        lambda x, y: F.batch_norm(x, proa.full([4], 0.5), proa.full([4], 2.0)),
        lambda x, y: (x - 0.5) / np.sqrt(2 + 1e-5),
    ),
    "bilinear_interp": (
        lambda x, y: F.interpolate(x, [11, 11], mode="bilinear", align_corners=True),
        None,
    ),
    "concat": (
        lambda x, y: proa.concat([x, y], 1), lambda x, y: np.concatenate([x, y], 1)
    ),
    "elementwise_add": (lambda x, y: x + y, np.add),
    "elementwise_div": (lambda x, y: x / (y * y), None),
    "elementwise_max": (proa.maximum, np.maximum),
    "elementwise_min": (proa.minimum, np.minimum),
    "elementwise_mul": (lambda x, y: x * y, np.multiply),
    "elementwise_pow": (lambda x, y: proa.pow(x * x, y), None),
    "elementwise_sub": (lambda x, y: x - y, np.subtract),
    "equal": (proa.equal, np.equal),
    "flatten": (lambda x, y: x.flatten(1), lambda x, y: x.reshape(2, -1)),
    "gather": (
        lambda x, y: proa.gather(x, proa.to_tensor([2, 0]), 1),
        lambda x, y: x[:, [2, 0]],
    ),
    "gelu": (lambda x, y: F.gelu(x), lambda x, y: x * (1 + erf(x / 2**0.5)) / 2),
    "greater_equal": (proa.greater_equal, np.greater_equal),
    "greater_than": (proa.greater_than, np.greater),
    "group_norm": (
        lambda x, y: F.group_norm(x, 2),
        lambda x, y: normed(x.reshape(2, 2, -1), 2).reshape(x.shape),
    ),
    "hard_sigmoid": (
        lambda x, y: F.hardsigmoid(x), lambda x, y: np.clip(x / 6 + 0.5, 0, 1)
    ),
    "hard_swish": (
        lambda x, y: F.hardswish(x), lambda x, y: x * np.clip(x + 3, 0, 6) / 6
    ),
    "instance_norm": (
        lambda x, y: F.instance_norm(x), lambda x, y: normed(x, (2, 3))
    ),
    "layer_norm": (lambda x, y: F.layer_norm(x, [6]), lambda x, y: normed(x, -1)),
    "leaky_relu": (
        lambda x, y: F.leaky_relu(x, 0.1), lambda x, y: np.where(x > 0, x, 0.1 * x)
    ),
    "less_equal": (proa.less_equal, np.less_equal),
    "less_than": (proa.less_than, np.less),
    "matmul": (proa.matmul, np.matmul),
    "mean": (lambda x, y: x.mean(1), lambda x, y: x.mean(1)),
    "nearest_interp": (
        lambda x, y: F.interpolate(x, scale_factor=2),
        lambda x, y: x.repeat(2, 2).repeat(2, 3),
    ),
    "not_equal": (proa.not_equal, np.not_equal),
    "pad2d": (
        lambda x, y: F.pad(x, [1, 2, 0, 1]),
        lambda x, y: np.pad(x, [(0, 0), (0, 0), (0, 1), (1, 2)]),
    ),
    "pool2d": (lambda x, y: F.max_pool2d(x, 2), lambda x, y: pooled(x, np.max)),
    "reduce_mean": (lambda x, y: x.mean([2, 3]), lambda x, y: x.mean((2, 3))),
    "relu": (lambda x, y: F.relu(x), lambda x, y: np.maximum(x, 0)),
    "relu6": (lambda x, y: F.relu6(x), lambda x, y: np.clip(x, 0, 6)),
    "reshape": (lambda x, y: x.reshape([2, 12, 12]), lambda x, y: x.reshape(2, 12, 12)),
    "sigmoid": (lambda x, y: F.sigmoid(x), lambda x, y: sigmoid(x)),
    "slice": (lambda x, y: x[:, 1:3], lambda x, y: x[:, 1:3]),
    "softmax": (lambda x, y: F.softmax(x), lambda x, y: softmax(x)),
    "split": (lambda x, y: proa.split(x, 2, 1)[1], lambda x, y: x[:, 2:]),
    "squeeze": (
        lambda x, y: x[:, :1].squeeze(1), lambda x, y: x[:, 0]
    ),
    "swish": (lambda x, y: F.swish(x), lambda x, y: x * sigmoid(x)),
    "tanh": (lambda x, y: proa.tanh(x), lambda x, y: np.tanh(x)),
    "transpose": (
        lambda x, y: x.transpose([0, 2, 3, 1]), lambda x, y: x.transpose(0, 2, 3, 1)
    ),
    "unsqueeze": (lambda x, y: x.unsqueeze(1), lambda x, y: x[:, None]),
}  # fmt: skip


class Computed(nn.Layer):
    """One function, and a parameter, which files have at least one of."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y), x.shape[0] * y.sum()


def rounded(x):
    """x on the grid of its greatest magnitude."""
    step = np.float32(np.abs(x).max() / 127)
    return (np.clip(np.rint(x / step), -127, 127) * step).astype(np.float32)


@pytest.mark.feature("L469", how="figure")
@pytest.mark.parametrize("kind", [k for k, (_, ref) in KINDS.items() if ref])
def test_operands_of_each_kind_are_rounded(kind, tmp_path):
    network, reference = KINDS[kind]
    path = tmp_path / "net.proa"
    proa.jit.save(Computed(network), str(path), SPECS)
    quantization = PostTrainingQuantization(
        model_dir=path, data_loader=[[X, Y]], algo="abs_max", quantizable_op_type=[kind]
    )
    quantization.save_quantized_model(tmp_path / "int8.proa")
    program = file.read(tmp_path / "int8.proa")
    assert any(node.op == "quantize" for node in program.main.nodes)
    found, _ = engine_from_bytes((tmp_path / "int8.proa").read_bytes()).run([X, Y])
    source = X if kind != "squeeze" else X[:, :1]  # what this operator itself reads
    expected = reference(rounded(source), rounded(Y))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.feature("L469", how="figure")
def test_thirty_kinds_and_more_are_quantized():
    # PaddlePaddle 1.8 names 30 that its class quantizes.
    assert len(op_types()) >= 30
    assert {k for k, (_, ref) in KINDS.items() if ref} <= set(ROUNDED)
    assert sum(ref is not None for _, ref in KINDS.values()) >= 30
    assert set(KINDS) | {"matmul_v2"} == set(ROUNDED)


def classifier():
    """A convolution, its norm, a residual, pooling, a product and scores."""
    proa.seed(3)

    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2D(1, 8, 3, padding=1)
            self.norm = nn.BatchNorm2D(8)
            self.second = nn.Conv2D(8, 8, 3, padding=1)
            self.out = nn.Linear(8 * 16, 4)

        def forward(self, image):
            x = F.relu(self.norm(self.first(image)))
            x = F.max_pool2d(x + self.second(x), 2)
            return F.softmax(self.out(x.flatten(1)))

    net = Net()
    net.eval()
    return net


IMAGES = RNG.standard_normal((60, 1, 8, 8)).astype(np.float32)
CHOSEN = ["conv2d", "mul", "elementwise_add", "pool2d", "softmax"]


@pytest.mark.parametrize("kind", ["proa", "onnx", "pdmodel"])
def test_files_of_other_frameworks_end_in_the_same_format(kind, tmp_path):
    net, spec = classifier(), [InputSpec([None, 1, 8, 8], "float32", "image")]
    if kind == "proa":
        proa.jit.save(net, str(tmp_path / "net.proa"), spec)
    elif kind == "onnx":
        pytest.importorskip("onnx")
        proa.onnx.export(net, str(tmp_path / "net"), spec)
    else:
        pytest.importorskip("google.protobuf")
        proa.interop.paddle.save(net, str(tmp_path / "net"), spec)
    quantization = PostTrainingQuantization(
        None, tmp_path, f"net.{kind}", batch_size=16, batch_nums=3, algo="hist",
        sample_generator=lambda: ((row,) for row in IMAGES),
        quantizable_op_type=CHOSEN,
    )  # fmt: skip
    model = quantization.quantize()
    quantization.save_quantized_model(tmp_path / "int8.proa")
    (found,) = engine_from_bytes((tmp_path / "int8.proa").read_bytes()).run([IMAGES])
    np.testing.assert_array_equal(found, model(IMAGES))
    whole = net(proa.to_tensor(IMAGES)).numpy()
    # Scores in [0, 1]; random weights, so that no class dominates.
    assert np.abs(found - whole).max() < 0.05
    assert (found.argmax(1) == whole.argmax(1)).mean() >= 0.95
    nodes = file.read(tmp_path / "int8.proa").main.nodes
    ops = [node.op for node in nodes]
    assert ops.count("conv2d_int8") == 2 and ops.count("linear_int8") == 1
    (scores,) = [node for node in nodes if node.op == "softmax"]
    assert scores.inputs[0].producer.op == "dequantize"
    (pool,) = [node for node in nodes if node.op == "max_pool2d"]
    assert pool.inputs[0].dtype == "int8"  # integers pass through


def test_batches_and_dicts_calibrate_as_samples_do(tmp_path):
    proa.jit.save(
        classifier(), str(tmp_path / "net.proa"),
        [InputSpec([None, 1, 8, 8], "float32", "image")],
    )  # fmt: skip
    sources = [
        {"sample_generator": lambda: ({"image": row} for row in IMAGES)},
        {"batch_generator": lambda: iter(np.split(IMAGES, 6))},
        {"data_loader": [{"image": part} for part in np.split(IMAGES, 6)]},
    ]
    models = [
        PostTrainingQuantization(model_dir=tmp_path / "net.proa", **source).quantize()
        for source in sources
    ]
    results = [model(IMAGES) for model in models]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_all_kinds_are_quantized_at_once(tmp_path):
    proa.jit.save(
        classifier(), str(tmp_path / "net.proa"),
        [InputSpec([None, 1, 8, 8], "float32", "image")],
    )  # fmt: skip
    full = PostTrainingQuantization(
        model_dir=tmp_path / "net.proa", data_loader=[IMAGES], algo="mse",
        is_full_quantize=True, bias_correction=True,
    ).quantize()  # fmt: skip
    whole = classifier()(proa.to_tensor(IMAGES)).numpy()
    assert np.abs(full(IMAGES) - whole).max() < 0.06
    assert (full(IMAGES).argmax(1) == whole.argmax(1)).mean() >= 0.95
    assert not full.unquantized


def test_operators_of_a_live_network_are_chosen_by_their_names_in_graphs():
    net, spec = classifier(), [InputSpec([None, 1, 8, 8], "float32", "image")]
    config = QuantConfig("abs_max", ops=(), operators=("softmax",))
    model = quant_post_static(net, spec, [IMAGES], config)
    logits = []
    hook = net.out.register_forward_post_hook(lambda _, x, y: logits.append(y.numpy()))
    net(proa.to_tensor(IMAGES))
    hook.remove()
    expected = softmax(rounded(logits[0]))
    np.testing.assert_allclose(model(IMAGES), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(NotFoundError, match="got 'softmix'"):
        bad = QuantConfig(operators=("softmix",))
        quant_post_static(net, spec, [IMAGES], bad)
    with pytest.raises(InvalidArgumentError, match="ops must be among"):
        QuantConfig(ops=())


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"model_dir": None}, InvalidArgumentError, "model_dir must be a model file"),
        ({"model_dir": "no.proa"}, NotFoundError, "a model file, got no.proa"),
        ({"algo": "ptf"}, InvalidArgumentError, "algo must be one of KL, hist"),
        ({"round_type": "up"}, InvalidArgumentError, "round or adaround, got 'up'"),
        ({"weight_quantize_type": "lsq"}, InvalidArgumentError, "got 'lsq'"),
        ({"weight_bits": 4}, InvalidArgumentError, "weight_bits must be 8, got 4"),
        ({"batch_size": 0}, InvalidArgumentError, "batch_size must be positive"),
        ({"quantizable_op_type": ["lrn"]}, InvalidArgumentError, "got 'lrn'"),
        ({"data_loader": None}, InvalidArgumentError, "given, and no other"),
        ({"data_loader": []}, PreconditionNotMetError, "at least one batch"),
        ({"data_loader": [{"y": X}]}, InvalidArgumentError, "each of x, y, got y"),
        ({"skip_tensor_list": ["first"]}, NotFoundError, "layers of the network"),
        ({"quantizable_op_type": ["conv2d"]}, PreconditionNotMetError, "at least one"),
    ],
)
def test_arguments_that_are_not_understood_are_named(arguments, kind, text, tmp_path):
    path = tmp_path / "net.proa"
    proa.jit.save(Computed(KINDS["softmax"][0]), str(path), SPECS)
    given = {"model_dir": path, "data_loader": [[X, Y]], **arguments}
    with pytest.raises(kind, match=text):
        PostTrainingQuantization(**given).quantize()


def test_the_class_is_public():
    assert proa_slim.PostTrainingQuantization is PostTrainingQuantization
