"""`compress`: training with the rounding, layers in 16 bits, times, and going on."""

import json
import subprocess
import sys

import numpy as np
import pytest

import proa
import proa_slim
from proa import nn
from proa.errors import InvalidArgumentError, PreconditionNotMetError, UnavailableError
from proa.ir import file
from proa.runtime import engine_from_bytes
from proa_slim import flops
from proa_slim.cli import main
from proa_slim.compression.recipe import read_fields

SPEC = [proa.static.InputSpec([None, 64], "float32", "x")]
pytestmark = pytest.mark.usefixtures("untimed")
ONE_SCALE = {"quantize": ({"activation": "abs_max", "weight": "abs_max"},)}


def bench_of(milliseconds):
    """Stands for proa-infer, with times of a program."""

    def bench(path, threads=1, shapes=()):
        return milliseconds(file.read(path))

    return bench


@pytest.fixture(scope="module")
def network():
    """Layers whose channels differ so much that one scale for a weight loses all."""
    proa.seed(0)
    net = nn.Sequential(
        nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)
    )
    weight = net[0].weight.numpy()
    weight[:, 1:] *= 7e-3
    net[0].weight.set_value(weight)
    back = net[2].weight.numpy()
    back[0], back[1:] = back[0] * 7e-3, back[1:] / 7e-3
    net[2].weight.set_value(back)
    net.eval()
    return net


@pytest.fixture(scope="module")
def samples():
    return np.random.default_rng(0).standard_normal((1200, 64)).astype("float32")


def agreement(network, path, x):
    """Percentage of samples on which a file agrees with the network."""
    (small,) = engine_from_bytes(path.read_bytes()).run([x])
    whole = network(proa.to_tensor(x)).numpy()
    return 100 * (small.argmax(1) == whole.argmax(1)).mean()


def compressed(network, x, folder, **fields):
    return proa_slim.compress(
        network, [x], fields, folder, input_spec=SPEC, progress=False
    )


def test_training_with_the_rounding_follows_settings_that_lose_too_much(
    network, samples, tmp_path
):
    found = compressed(
        network, samples, tmp_path, max_drop=13.0, mixed=False, qat_epochs=20,
        qat_learning_rate=1e-2, **ONE_SCALE,
    )  # fmt: skip
    before, trained = found.tried[1:]
    assert before.drop > 15 > 13 >= trained.drop
    assert trained.step == "int8, 20 epochs of training with the rounding"
    assert found.chosen == trained
    # The file computes in integers what training saw.
    program = file.read(found.path)
    ops = [node.op for node in program.main.nodes]
    assert ops.count("linear_int8") == 3 and "fake_quant" not in ops
    assert program.metadata["quantization"] == "int8 trained abs_max"
    assert trained.metric == agreement(network, found.path, samples[600:])


def test_layers_that_are_left_out_of_int8_may_have_16_bits(network, samples, tmp_path):
    found = compressed(
        network, samples, tmp_path, max_drop=5.0, rest="float16", **ONE_SCALE
    )
    assert found.chosen.step == "int8, some layers in float16"
    assert found.chosen.drop <= 5
    kinds = {v.name: v.dtype for v in file.read(found.path).constants()}
    assert kinds["0.weight"] == "float16" and kinds["4.weight.int8"] == "int8"
    assert "in float32: 0: named in half" in found.notes


def test_as_much_is_pruned_as_a_time_takes(network, samples, tmp_path, monkeypatch):
    # A time in proportion to multiply-adds: all of them take 10 ms.
    whole = flops(network, [None, 64])
    timed = bench_of(lambda program: 10 * flops(program) / whole)
    monkeypatch.setattr("proa_slim.compression.trials.bench", timed)
    fields = {"max_drop": 90, "epochs": 1, "max_milliseconds": 6.5}
    found = compressed(network, samples, tmp_path, **fields)
    assert found.tried[0].milliseconds == 10
    assert found.chosen.milliseconds <= 6.5
    # In steps of a tenth: 30 % would have left 7 ms, 50 % are not needed.
    assert found.tried[1].step.startswith("40% of multiply-adds pruned")
    with pytest.raises(PreconditionNotMetError, match=r"runs in 0.001 ms, got .* fast"):
        compressed(network, samples, tmp_path, max_milliseconds=1e-3)
    quick = compressed(network, samples, tmp_path, max_drop=5, max_milliseconds=11)
    assert not any("pruned" in tried.step for tried in quick.tried)


def test_a_time_needs_a_clock(network, samples, tmp_path):
    with pytest.raises(UnavailableError, match="proa-inference"):
        compressed(network, samples, tmp_path, max_milliseconds=1.0)


@pytest.mark.parametrize("when", ["distillation 2/3", "[compress] int8, activation=kl"])
def test_a_run_that_was_killed_goes_on(network, samples, tmp_path, when):
    proa.jit.save(network, str(tmp_path / "net.proa"), SPEC)
    np.savez(tmp_path / "data.npz", x=samples)
    recipe = {
        "max_drop": 90, "prune": 0.2, "epochs": 3, "mixed": False,
        "quantize": [{"activation": "kl", "weight": "abs_max"}],
    }  # fmt: skip
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    arguments = [
        "compress", str(tmp_path / "net.proa"), "--data", str(tmp_path / "data.npz"),
        "--config", str(tmp_path / "recipe.json"),
    ]  # fmt: skip
    assert main([*arguments, "--out", str(tmp_path / "whole")]) == 0
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "proa_slim.cli", *arguments, "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        for line in run.stderr:
            if when in line:
                run.kill()
    assert not (out / "report.json").exists()
    state = json.loads((out / "progress" / "state.json").read_text())
    done = len(state["trials"])
    assert done == (1 if when.startswith("distillation") else 3)
    again = subprocess.run(
        [*command, "--resume"], capture_output=True, text=True, check=True
    )
    assert "distillation 2/3" not in again.stderr  # no epoch twice
    files = [tmp_path / name / "model.proa" for name in ("whole", "killed")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert not (out / "progress").exists()


def test_another_recipe_is_not_gone_on_with(network, samples, tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("proa_slim.compression.steps.int8", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compressed(network, samples, tmp_path, max_drop=5)
    assert (tmp_path / "progress" / "state.json").is_file()
    with pytest.raises(PreconditionNotMetError, match="got those of others"):
        proa_slim.compress(
            network, [samples], {"max_drop": 4}, tmp_path, input_spec=SPEC,
            progress=False, resume=True,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"qat_epochs": -1}, "qat_epochs must be at least 0, got -1"),
        ({"qat_learning_rate": 0}, "qat_learning_rate must be positive, got 0"),
        ({"rest": "int4"}, "rest must be float32 or float16, got 'int4'"),
        ({"max_milliseconds": 0}, "max_milliseconds must be positive, got 0"),
        ({"prune": "x"}, "prune must be a number, got 'x'"),
        ({"max_drop": None}, "max_drop must be a number, got None"),
        ({"epochs": 1.5}, "epochs must be an integer, got 1.5"),
        ({"epochs": True}, "epochs must be an integer, got True"),
        ({"compressed": "yes"}, "compressed must be true or false, got 'yes'"),
        ({"criterion": 1}, "criterion must be text, got 1"),
        ({"align": "8"}, "align must be an integer, got '8'"),
        ({"quantize": "mse"}, "quantize must be a list of settings, .*, got 'mse'"),
        ({"quantize": [{"bins": "x"}]}, "fields of QuantConfig, got {'bins': 'x'}"),
        ({"quantize": ["mse"]}, r"a list of settings, .*, got \('mse',\)"),
    ],
)
def test_fields_out_of_range_are_named(fields, text):
    with pytest.raises(InvalidArgumentError, match=text):
        proa_slim.Recipe.of(fields)


def test_numbers_of_yaml_with_an_exponent_are_numbers(tmp_path):
    yaml = tmp_path / "recipe.yaml"
    yaml.write_text("learning_rate: 1e-3\nquantize:\n  - {step_learning_rate: 5E-1}\n")
    recipe = proa_slim.Recipe.of(read_fields(yaml))
    assert recipe.learning_rate == 1e-3
    assert recipe.configs()[0].step_learning_rate == 0.5
