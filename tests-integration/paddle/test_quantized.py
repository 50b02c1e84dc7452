"""Networks that slim quantized, written as PaddleSlim writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
import proa_slim
from proa import nn
from proa.cli import main
from proa.jit import InputSpec
from proa.vision.models import LeNet
from proa_inference import Config, create_predictor

from . import wheel

pytest.importorskip("google.protobuf")
from proa.interop.paddle.proto import attributes, parse

INT8 = 21


def lenet_int8(folder: Path) -> Path:
    """LeNet in int8, as slim saves it."""
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((8, 1, 28, 28)).astype("f") for _ in range(4)]
    spec = [InputSpec([None, 1, 28, 28], "float32", "image")]
    proa.seed(0)
    network = proa_slim.quant_post_static(LeNet(), spec, batches)
    network.save(folder / "lenet.proa")
    return folder / "lenet.proa"


def saved(folder: Path) -> tuple[Path, Any, Any]:
    """The Paddle model's prefix, an image, and what our runtime computes of it."""
    source, prefix = lenet_int8(folder), folder / "lenet"
    assert main(["export", str(source), f"{prefix}.pdmodel"]) == 0
    x = np.random.default_rng(1).standard_normal((16, 1, 28, 28)).astype("f")
    (want,) = create_predictor(Config(str(source))).run([x])
    return prefix, x, want


def compare(found: Any, want: Any) -> None:
    """A scale times 127, then through 127, may change a number that is halfway."""
    assert found.shape == want.shape
    assert np.median(np.abs(found - want)) < 1e-6 * np.abs(want).max()
    assert np.abs(found - want).max() < 0.02 * np.abs(want).max()


def test_products_are_between_pairs_of_operators(tmp_path: Path) -> None:
    prefix, x, want = saved(tmp_path)
    (block,) = parse("ProgramDesc", Path(f"{prefix}.pdmodel").read_bytes()).blocks
    kinds = [op.type for op in block.ops]
    assert kinds.count("quantize_linear") == 5
    assert kinds.count("dequantize_linear") == 10  # five of weights
    results = {n: op for op in block.ops for s in op.outputs for n in s.arguments}
    variables = {v.name: v for v in block.vars}
    slots = {"conv2d": ("Input", "Filter"), "matmul_v2": ("X", "Y")}
    for op in block.ops:
        if op.type not in slots:
            continue
        given = {s.parameter: s.arguments[0] for s in op.inputs}
        image, weight = (results[given[slot]] for slot in slots[op.type])
        assert image.type == weight.type == "dequantize_linear"
        assert attributes(image)["quant_axis"] == -1
        assert attributes(weight)["quant_axis"] == (0 if op.type == "conv2d" else 1)
        held = next(s.arguments[0] for s in weight.inputs if s.parameter == "X")
        assert variables[held].persistable
        assert variables[held].type.lod_tensor.tensor.data_type == INT8
    with proa.no_grad():
        compare(proa.jit.load(prefix)(proa.to_tensor(x)).numpy(), want)


@pytest.mark.full
def test_paddlepaddle_runs_them(tmp_path: Path) -> None:
    prefix, x, want = saved(tmp_path)
    for python in wheel.interpreters():
        (found,) = wheel.outputs_of(prefix, [x], tmp_path, python)
        compare(found, want)


@pytest.mark.full
def test_paddlepaddle_runs_products_that_round_rows_as_they_come(
    tmp_path: Path,
) -> None:
    proa.seed(3)
    network = nn.Sequential(
        nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 40), nn.ReLU(), nn.Linear(40, 8)
    )
    spec = [InputSpec([None, 5, 48], "float32", "x")]
    model = proa_slim.quant_post_dynamic(network, spec, weight_bits=8, products="int8")
    source, prefix = tmp_path / "net.proa", tmp_path / "net"
    model.save(source)
    assert main(["export", str(source), f"{prefix}.pdmodel"]) == 0
    (block,) = parse("ProgramDesc", Path(f"{prefix}.pdmodel").read_bytes()).blocks
    held = [v.type.lod_tensor.tensor for v in block.vars if v.persistable]
    assert [t.data_type for t in held].count(INT8) == 3
    x = np.random.default_rng(5).standard_normal((3, 5, 48)).astype("f")
    (want,) = create_predictor(Config(str(source))).run([x])
    with proa.no_grad():
        compare(proa.jit.load(prefix)(proa.to_tensor(x)).numpy(), want)
    for python in wheel.interpreters():
        (found,) = wheel.outputs_of(prefix, [x], tmp_path, python)
        compare(found, want)


@pytest.mark.full
@pytest.mark.feature("L545")
@pytest.mark.parametrize(
    ("weights", "activations", "form"),
    [
        ("channel_wise_abs_max", "moving_average_abs_max", "frozen"),
        ("abs_max", "range_abs_max", "frozen"),
        ("abs_max", "abs_max", "frozen"),
        # PaddlePaddle freezes no weights of these.
        ("range_abs_max", "range_abs_max", "rounding"),
        ("moving_average_abs_max", "moving_average_abs_max", "rounding"),
    ],
)
def test_programs_that_paddle_quantized_are_run_in_integers(
    weights: str, activations: str, form: str, tmp_path: Path
) -> None:
    prefix = tmp_path / "model"
    wheel.run("quantize.py", weights, activations, form, str(prefix))
    written = Path(f"{prefix}.pdmodel")
    (block,) = parse("ProgramDesc", written.read_bytes()).blocks
    assert any("out_threshold" in attributes(op) for op in block.ops)
    x = np.random.default_rng(9).standard_normal((4, 3, 16, 16)).astype("f")
    (want,) = wheel.outputs_of(prefix, [x], tmp_path)
    predictor = create_predictor(Config(str(written), f"{prefix}.pdiparams"))
    (found,) = predictor.run([x])
    compare(found, want)
    kinds = [step.op for step in predictor.profile([x])]
    assert sum(kind in ("conv2d_int8", "linear_int8") for kind in kinds) == 3


@pytest.mark.full
@pytest.mark.feature("L545")
@pytest.mark.parametrize("weights", ["abs_max", "range_abs_max"])
def test_products_round_by_the_ranges_that_paddle_states(
    weights: str, tmp_path: Path
) -> None:
    prefix, plain = tmp_path / "model", tmp_path / "model.plain"
    wheel.run(
        "quantize.py", weights, "moving_average_abs_max", "thresholds", str(prefix)
    )
    x = np.random.default_rng(9).standard_normal((4, 3, 16, 16)).astype("f")
    (rounded,) = wheel.outputs_of(prefix, [x], tmp_path)
    (unrounded,) = wheel.outputs_of(plain, [x], tmp_path)
    assert np.abs(rounded - unrounded).max() > 1e-4 * np.abs(rounded).max()
    for rounds, want, count in ((False, unrounded, 0), (True, rounded, 2)):
        config = Config(f"{plain}.pdmodel", f"{plain}.pdiparams")
        if rounds:
            config.enable_mkldnn_int8()
        predictor = create_predictor(config)
        (found,) = predictor.run([x])
        compare(found, want)
        kinds = [step.op for step in predictor.profile([x])]
        assert sum(kind in ("conv2d_int8", "linear_int8") for kind in kinds) == count
    # The command writes the same.
    output = tmp_path / "rounding.proa"
    command = ["convert", f"{plain}.pdmodel", str(output), "--out-thresholds"]
    assert main(command) == 0
    np.testing.assert_array_equal(create_predictor(Config(output)).run([x])[0], found)
