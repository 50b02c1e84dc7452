"""Graph passes of a predictor: which operators become one, and what they compute."""

import itertools
import math
from io import BytesIO

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import nn
from proa.static import InputSpec
from proa_inference import Config, create_predictor

ERF = np.vectorize(math.erf)
#: Activations by their definitions.
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "gelu": lambda x: x * (1 + ERF(x / math.sqrt(2))) / 2,
}
RNG = np.random.default_rng(0)


def convolved(x, w, b):
    """Cross-correlation without padding, in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(
        x.astype(np.float64), w.shape[2:], (2, 3)
    )
    return np.einsum("nchwij,ocij->nohw", windows, w) + b.reshape(-1, 1, 1)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def check(forward, want, *arrays, tolerance=1e-4):
    """The predictor's operators, in order, and that it computes what is wanted."""
    buffer = BytesIO()
    specs = [
        InputSpec([None, *a.shape[1:]], "float32", f"x{i}")
        for i, a in enumerate(arrays)
    ]
    proa.jit.save(forward, buffer, specs)
    config = Config()
    config.set_model_buffer(buffer.getvalue())
    config.set_cpu_math_library_num_threads(1)
    predictor = create_predictor(config)
    (got,) = predictor.run(list(arrays))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    # what a run copies into the caller's memory order
    return [s.op for s in predictor.profile(list(arrays)) if s.op != "copy"]


@pytest.fixture(scope="module")
def conv():
    proa.seed(1)
    return nn.Conv2D(3, 10, 3)


def product(conv, x):
    return convolved(x, conv.weight.numpy(), conv.bias.numpy())


@pytest.mark.feature("L530", how="mechanism")
@pytest.mark.feature("L531", how="mechanism")
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_convolution_ends_with_its_activation(conv, name):
    x = drawn(2, 3, 9, 11) * 2
    want = ACTIVATIONS[name](product(conv, x))
    ops = check(lambda x: getattr(F, name)(conv(x)), want, x)
    assert ops == ["conv2d_act"]


@pytest.mark.feature("L532", how="mechanism")
@pytest.mark.parametrize("name", ["", "relu", "hardswish"])
def test_a_convolution_scales_and_shifts_its_channels(conv, name):
    scale, shift = drawn(1, 10, 1, 1), drawn(1, 10, 1, 1)
    x = drawn(2, 3, 9, 11)
    want = product(conv, x) * scale + shift
    factors = proa.to_tensor(scale), proa.to_tensor(shift)

    def forward(x):
        y = conv(x) * factors[0] + factors[1]
        return getattr(F, name)(y) if name else y

    want = ACTIVATIONS[name](want) if name else want
    assert check(forward, want, x) == ["conv2d_norm"]


@pytest.mark.feature("L535", how="mechanism")
@pytest.mark.parametrize("name", ["relu", "relu6", "hardswish", "swish", "sigmoid"])
def test_a_batch_norm_and_its_activation_are_the_end_of_a_convolution(conv, name):
    norm = nn.BatchNorm2D(10)
    mean, variance = drawn(10), RNG.uniform(0.5, 2, 10).astype(np.float32)
    scale, shift = drawn(10), drawn(10)
    for parameter, value in [
        (norm._mean, mean), (norm._variance, variance),
        (norm.weight, scale), (norm.bias, shift),
    ]:  # fmt: skip
        parameter.set_value(value)
    norm.eval()
    x = drawn(3, 3, 8, 8)
    over = [
        a.reshape(-1, 1, 1).astype(np.float64) for a in (mean, variance, scale, shift)
    ]
    want = (product(conv, x) - over[0]) / np.sqrt(over[1] + 1e-5) * over[2] + over[3]
    ops = check(lambda x: getattr(F, name)(norm(conv(x))), ACTIVATIONS[name](want), x)
    assert ops == ["conv2d_norm"]


@pytest.mark.feature("L537", how="mechanism")
@pytest.mark.parametrize("name", ["gelu", "sigmoid", "tanh", "relu", "swish"])
def test_a_linear_layer_ends_with_its_activation(name):
    layer = nn.Linear(33, 17)
    x = drawn(4, 5, 33)
    want = x.astype(np.float64) @ layer.weight.numpy() + layer.bias.numpy()
    ops = check(lambda x: getattr(F, name)(layer(x)), ACTIVATIONS[name](want), x)
    assert ops == ["linear_act"]


@pytest.mark.feature("L540")
@pytest.mark.parametrize("sizes", [(128, 128, 256, 128), (127, 129, 1, 40)])
def test_linear_layers_and_relus_in_a_row_are_one_operator_each(sizes):
    """Sizes are multiples of 128, to which libraries pad, and others."""
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    for rows in (1, 2, 9):
        want = x = drawn(rows, sizes[0])
        for layer in layers:
            want = np.maximum(want @ layer.weight.numpy() + layer.bias.numpy(), 0)

        def forward(x):
            for layer in layers:
                x = F.relu(layer(x))
            return x

        assert check(forward, want, x) == ["linear_act"] * 3


@pytest.mark.feature("L541", how="mechanism")
@pytest.mark.feature("L543", how="mechanism")
def test_elementwise_operators_and_softmax_take_over_the_memory_of_their_input(
    tmp_path,
):
    def arena(steps):
        path = tmp_path / f"{len(steps)}.proa"

        def forward(x):
            y = proa.matmul(x, x)
            for step in steps:
                y = step(y)
            return proa.matmul(y, x)

        proa.jit.save(forward, path, [InputSpec([64, 64], "float32", "x")])
        config = Config(path)
        config.switch_ir_optim(False)
        config.set_cpu_math_library_num_threads(1)
        predictor = create_predictor(config)
        x = drawn(64, 64)
        (got,) = predictor.run([x])
        want = x.astype(np.float64) @ x
        for step in steps:
            want = BY_STEP[step](want)
        np.testing.assert_allclose(got, want @ x, rtol=1e-3, atol=1e-3)
        return predictor.memory()["arena"]

    steps = list(BY_STEP)
    alone = arena(steps[:1])
    # Plans note each step; an array of 64 x 64 would be 16 KB.
    assert arena(steps) < alone + 8 * 1024


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


BY_STEP = {
    F.relu: ACTIVATIONS["relu"],
    F.gelu: ACTIVATIONS["gelu"],
    F.softmax: _softmax,
    F.tanh: np.tanh,
    F.sigmoid: ACTIVATIONS["sigmoid"],
    F.hardswish: ACTIVATIONS["hardswish"],
}


@pytest.mark.feature("L571")
@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 5, 33), (2, 3, 4, 65)])
def test_relu_is_that_of_the_definition_for_any_order_of_memory(shape):
    x = drawn(*shape)
    x.reshape(-1)[::5] = [0.0, -0.0, np.inf, -np.inf, 1e-40][len(shape) % 5]
    perm = list(range(len(shape)))[::-1]
    last = [slice(None)] * (len(shape) - 1) + [slice(None, None, -1)]

    def forward(x):
        return F.relu(proa.transpose(proa.flip(x, [len(shape) - 1]), perm))

    want = np.maximum(np.transpose(x[tuple(last)], perm), 0)
    buffer = BytesIO()
    proa.jit.save(forward, buffer, [InputSpec(list(shape), "float32", "x")])
    config = Config()
    config.set_model_buffer(buffer.getvalue())
    np.testing.assert_array_equal(create_predictor(config).run([x])[0], want)


@pytest.mark.feature("L558", how="mechanism")
@pytest.mark.parametrize("size", [3, 5])
def test_local_response_norm_is_that_of_the_definition(size):
    """Krizhevsky et al., 2012: over neighbouring channels."""
    x = drawn(2, 12, 6, 5) * 3
    squares = np.pad(
        x.astype(np.float64) ** 2, ((0, 0), (size // 2,) * 2, (0, 0), (0, 0))
    )
    sums = sum(squares[:, i : i + 12] for i in range(size)) / size
    want = x / (1.0 + 1e-4 * sums) ** 0.75
    check(lambda x: F.local_response_norm(x, size), want, x, tolerance=1e-5)


@pytest.mark.feature("L527")
def test_no_operator_is_added_after_the_models(tmp_path):
    layer = nn.Linear(4, 3)
    path = tmp_path / "net.proa"
    proa.jit.save(
        lambda x: F.softmax(layer(x)), path, [InputSpec([None, 4], "float32", "x")]
    )
    config = Config(path)
    for optimize in (True, False):
        config.switch_ir_optim(optimize)
        steps = create_predictor(config).profile([drawn(2, 4)])
        assert [step.op for step in steps] == ["linear", "softmax"]
    scaled = tmp_path / "scaled.proa"
    proa.enable_static()
    try:
        program = proa.static.Program()
        with proa.static.program_guard(program):
            x = proa.static.data("x", [None, 4], "float32")
            y = F.softmax(x)
            executor = proa.static.Executor()
            proa.static.save_inference_model(
                str(scaled.with_suffix("")), [x], [y], executor, program=program
            )
    finally:
        proa.disable_static()
    (found,) = [
        p for p in tmp_path.iterdir() if p.stem == "scaled" and p.suffix == ".proa"
    ]
    saved = create_predictor(Config(found)).profile([drawn(2, 4)])
    assert [step.op for step in saved] == ["softmax"]
