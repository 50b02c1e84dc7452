"""Measured choices: what is written once is used, and for its machine alone."""

import json
from pathlib import Path

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa.ir import file
from proa.runtime import engine_from_parts
from proa.static import InputSpec
from proa_inference import Config, create_predictor, tuning
from proa_inference.optimize import optimized_program


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Convolutions that have a choice, one that has none, and what NumPy cannot say."""
    proa.seed(3)
    network = nn.Sequential(
        nn.Conv2D(3, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2D(32, 32, 3, padding=1, groups=32),
        nn.Conv2D(32, 64, 3, padding=1), nn.ReLU(),
        nn.Conv2D(64, 48, 1),
    )  # fmt: skip
    network.eval()
    path = tmp_path_factory.mktemp("tuning") / "net.proa"
    proa.jit.save(network, path, [InputSpec([None, 3, None, None], "float32", "image")])
    return path, network


def tuned(path: Path, folder: Path) -> Config:
    config = Config(path)
    config.set_cpu_math_library_num_threads(1)
    config.enable_tuning(folder, {"image": (1, 3, 20, 24)})
    return config


def forbid_measuring(monkeypatch):
    def measured(*_):
        raise AssertionError("measured")

    monkeypatch.setattr(tuning, "_measured", measured)


def entry(folder: Path) -> Path:
    (path,) = folder.glob("*.json")
    return path


def test_a_tuned_predictor_computes_the_network_for_any_shape(model, tmp_path):
    path, network = model
    predictor = create_predictor(tuned(path, tmp_path))
    for shape in ((1, 3, 20, 24), (2, 3, 9, 31)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        want = network(proa.to_tensor(x)).numpy()
        np.testing.assert_allclose(predictor.run([x])[0], want, rtol=1e-4, atol=1e-4)


def test_the_second_load_reads_what_the_first_wrote(model, tmp_path, monkeypatch):
    path, _ = model
    first = create_predictor(tuned(path, tmp_path))
    assert json.loads(entry(tmp_path).read_text())["made_for"]["threads"] == 1
    forbid_measuring(monkeypatch)
    second = create_predictor(tuned(path, tmp_path))
    x = np.random.default_rng(0).standard_normal((2, 3, 20, 24)).astype(np.float32)
    np.testing.assert_array_equal(second.run([x])[0], first.run([x])[0])
    other = tuned(path, tmp_path)
    other.enable_tuning(tmp_path, {"image": (1, 3, 24, 20)})
    with pytest.raises(AssertionError, match="measured"):  # it is for its shapes alone
        create_predictor(other)


def test_what_a_cache_says_is_how_it_is_computed(model, tmp_path, monkeypatch):
    path, _ = model
    create_predictor(tuned(path, tmp_path))
    held = json.loads(entry(tmp_path).read_text())
    nodes = list(optimized_program(Config(path)).nodes())
    choosing = [i for i, n in enumerate(nodes) if tuning._has_choice(n)]
    assert len(held["choices"]) == len(choosing) == 3
    held["choices"] = ["im2col", "", "implicit_gemm"]
    entry(tmp_path).write_text(json.dumps(held))
    given: list[list[str]] = []

    def spying(*parts):
        given.append(list(parts[5]))
        return engine_from_parts(*parts)

    monkeypatch.setattr("proa_inference.optimize.engine_from_parts", spying)
    create_predictor(tuned(path, tmp_path))
    (strategies,) = given
    # In the order of the graph; the depthwise one has no choice.
    assert [strategies[i] for i in choosing] == held["choices"]
    assert strategies.count("") == len(nodes) - 2


@pytest.mark.parametrize("fact", ["cpu", "isa", "caches", "bf16", "amx"])
def test_the_cache_of_another_machine_is_not_used(model, tmp_path, monkeypatch, fact):
    path, _ = model
    create_predictor(tuned(path, tmp_path))
    here = tuning.machine()
    monkeypatch.setattr(tuning, "machine", lambda: {**here, fact: "another"})
    forbid_measuring(monkeypatch)
    with pytest.raises(AssertionError, match="measured"):
        create_predictor(tuned(path, tmp_path))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda _: "",
        lambda _: "[]",
        lambda text: text.replace('"choices": [', '"choices": ["im2col", '),
        lambda text: json.dumps({**json.loads(text), "choices": ["fastest"] * 3}),
        lambda text: json.dumps({**json.loads(text), "choices": {"0": "im2col"}}),
        lambda text: json.dumps({**json.loads(text), "choices": [5, 5, 5]}),
        lambda text: text.replace('"isa": "', '"isa": "x'),
    ],
    ids=[
        "half",
        "empty",
        "list",
        "another count",
        "unknown",
        "names",
        "number",
        "other machine",
    ],
)
def test_a_damaged_cache_is_measured_anew_with_a_warning(model, tmp_path, damage):
    path, _ = model
    create_predictor(tuned(path, tmp_path))
    whole = entry(tmp_path).read_text()
    entry(tmp_path).write_text(damage(whole))
    with pytest.warns(RuntimeWarning, match="damaged file"):
        create_predictor(tuned(path, tmp_path))
    facts = json.loads(whole)["made_for"]
    assert json.loads(entry(tmp_path).read_text())["made_for"] == facts


def test_a_folder_that_cannot_be_written_is_warned_of(model, tmp_path):
    path, network = model
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="folder that can be written"):
        predictor = create_predictor(tuned(path, tmp_path / "file" / "cache"))
    x = np.ones((1, 3, 8, 8), np.float32)
    want = network(proa.to_tensor(x)).numpy()
    np.testing.assert_allclose(predictor.run([x])[0], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (None, "how large input 'image'"),
        ({"image": (1, 4, 8, 8)}, "how large input 'image'"),
        ({"image": (1, 3, 8)}, "how large input 'image'"),
        ({"image": (0, 3, 8, 8)}, "how large input 'image'"),
        ({"picture": (1, 3, 8, 8)}, "must name inputs of the model, image"),
    ],
)
def test_shapes_that_are_not_the_models_are_refused(model, tmp_path, shapes, expected):
    config = Config(model[0])
    config.enable_tuning(tmp_path, shapes)
    with pytest.raises(InvalidArgumentError, match=expected):
        create_predictor(config)


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    config = Config()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not config.tuning_enabled()
    config.enable_tuning()
    assert config.tuning_enabled()
    assert config.tuning_cache_dir() == tmp_path / "proa" / "tuning"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert config.tuning_cache_dir() == Path.home() / ".cache" / "proa" / "tuning"
    config.disable_tuning()
    assert not config.tuning_enabled()


def test_models_without_convolutions_are_not_measured(tmp_path, monkeypatch):
    path = tmp_path / "mlp.proa"
    proa.jit.save(nn.Linear(4, 3), path, [InputSpec([None, 4], "float32", "x")])
    forbid_measuring(monkeypatch)
    config = Config(path)
    config.enable_tuning(tmp_path / "cache")
    assert create_predictor(config).run([np.ones((2, 4), np.float32)])[0].shape == (
        2,
        3,
    )
    assert not (tmp_path / "cache").exists()


def test_strategies_must_be_known_and_one_for_each_node(model):
    graph, weights = file.to_parts(file.read(model[0]))
    count = sum(1 for _ in file.read(model[0]).nodes())
    for wrong in (["im2col"], [""] * (count + 1)):
        with pytest.raises(InvalidArgumentError, match=f"each of the {count} nodes"):
            engine_from_parts(graph, weights, strategies=wrong)
    with pytest.raises(InvalidArgumentError, match="got fastest"):
        engine_from_parts(graph, weights, strategies=["fastest"] * count)


@pytest.mark.parametrize("strategy", ["winograd", "implicit_gemm", "im2col"])
def test_every_strategy_computes_the_network(model, strategy):
    path, network = model
    program = file.read(path)
    graph, weights = file.to_parts(program)
    count = sum(1 for _ in program.nodes())
    engine = engine_from_parts(graph, weights, 1, strategies=[strategy] * count)
    x = np.random.default_rng(1).standard_normal((2, 3, 17, 15)).astype(np.float32)
    want = network(proa.to_tensor(x)).numpy()
    np.testing.assert_allclose(engine.run([x])[0], want, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(engine.clone().run([x])[0], engine.run([x])[0])
