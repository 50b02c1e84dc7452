"""`AutoCompression`: files are compressed with loaders and metrics of one's own."""

import json

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import (
    InvalidArgumentError,
    NotFoundError,
    PreconditionNotMetError,
    UnavailableError,
    UnimplementedError,
)
from proa.ir import file
from proa.runtime import engine_from_bytes
from proa_slim import Recipe, flops
from proa_slim.auto_compression import AutoCompression

SPEC = [proa.static.InputSpec([None, 16], "float32", "features")]


@pytest.fixture(scope="module")
def samples():
    """Which of four linear scores is greatest."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((600, 16)).astype("float32")
    return x, (x @ rng.standard_normal((16, 4))).argmax(1)


@pytest.fixture(scope="module")
def model(samples, tmp_path_factory):
    """The file of a trained network."""
    proa.seed(0)
    x, y = (proa.to_tensor(a) for a in samples)
    net = nn.Sequential(
        nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
    )
    adam = proa.optimizer.Adam(1e-2, parameters=net.parameters())
    for _ in range(60):
        nn.functional.cross_entropy(net(x), y).mean().backward()
        adam.step()
        adam.clear_grad()
    net.eval()
    path = tmp_path_factory.mktemp("models") / "net.proa"
    proa.jit.save(net, str(path), SPEC)
    return path


def batches(x, y=None, size=100):
    for begin in range(0, len(x), size):
        rows = slice(begin, begin + size)
        yield (x[rows],) if y is None else (x[rows], y[rows, None])


def accuracy(path, x, y):
    (scores,) = engine_from_bytes(path.read_bytes()).run([x])
    return 100 * (scores.argmax(1) == y).mean()


@pytest.mark.usefixtures("untimed")
def test_a_file_becomes_a_smaller_one_that_was_measured_on_other_data(
    samples, model, tmp_path
):
    x, y = samples
    compression = AutoCompression(
        model.parent, batches(x[:400], y[:400]), model.name, save_dir=tmp_path,
        config={"max_drop": 3}, eval_dataloader=batches(x[400:], y[400:]),
    )  # fmt: skip
    found = compression.compress()
    assert found is compression.result and found.path == tmp_path / "model.proa"
    before, after = (accuracy(p, x[400:], y[400:]) for p in (model, found.path))
    assert found.metric_name == "accuracy"
    assert found.tried[0].metric == pytest.approx(before)
    assert found.chosen.metric == pytest.approx(after) and before - after <= 3
    assert any(v.dtype == "int8" for v in file.read(found.path).constants())
    assert found.path.stat().st_size < 0.6 * model.stat().st_size
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["tried"][report["chosen"]]["metric"] == found.chosen.metric


@pytest.mark.usefixtures("untimed")
def test_a_callback_measures_every_model_by_an_executor(samples, model, tmp_path):
    x, y = samples
    seen = []

    def share(executor, program, feeds, fetches):
        (scores,) = executor.run(program, {feeds[0]: x[:100]}, fetches)
        seen.append(float((scores.argmax(1) == y[:100]).mean()))
        return seen[-1]

    loader = [{"features": x[300:], "label": y[300:]}]
    recipe = Recipe(prune=0.3, epochs=2, max_drop=15)
    found = AutoCompression(
        str(model), loader, save_dir=tmp_path, config=recipe, eval_callback=share
    ).compress()
    assert found.metric_name == "metric"
    assert [tried.metric for tried in found.tried] == [100 * m for m in seen]
    assert len(seen) >= 3  # as given, pruned, int8
    assert seen[0] == pytest.approx(accuracy(model, x[:100], y[:100]) / 100)
    assert found.chosen.metric == pytest.approx(accuracy(found.path, x[:100], y[:100]))
    assert flops(file.read(found.path)) <= 0.7 * flops(file.read(model))


def test_a_speedup_is_a_limit_of_time(samples, model, tmp_path, monkeypatch):
    whole = flops(file.read(model))

    def bench(path, threads=1, shapes=()):
        """Stands for proa-infer: a time in proportion to multiply-adds."""
        return 8 * flops(file.read(path)) / whole

    monkeypatch.setattr("proa_slim.compression.trials.bench", bench)
    fields = {"target": "float32", "max_drop": 90, "epochs": 1}
    fields["max_milliseconds"] = 100  # target_speedup comes first
    found = AutoCompression(
        model, batches(samples[0]), save_dir=tmp_path, config=fields, target_speedup=2
    ).compress()
    assert found.metric_name == "agreement"  # there are no labels
    assert found.tried[0].milliseconds == 8 and found.chosen.milliseconds <= 4
    assert "50% of multiply-adds pruned" in found.chosen.step


@pytest.mark.usefixtures("untimed")
def test_a_speedup_needs_what_measures_times(samples, model, tmp_path):
    compression = AutoCompression(
        model, batches(samples[0]), save_dir=tmp_path, target_speedup=2
    )
    with pytest.raises(UnavailableError, match="proa-inference"):
        compression.compress()


@pytest.mark.usefixtures("untimed")
def test_a_target_that_cannot_be_met_names_the_step(samples, model, tmp_path):
    config = tmp_path / "recipe.json"
    config.write_text('{"prune": 0.8, "epochs": 0, "max_drop": 0.1}')
    compression = AutoCompression(
        model, batches(*samples), save_dir=tmp_path / "out", config=config
    )
    with pytest.raises(PreconditionNotMetError, match="80% of multiply-adds pruned"):
        compression.compress()
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"deploy_hardware": "gpu"}, UnimplementedError, "hardware cpu.*'gpu'"),
        ({"target_speedup": 0.5}, InvalidArgumentError, "greater than 1, got 0.5"),
        ({"config": {"QuantPost": {}}}, InvalidArgumentError, "'QuantPost'.*quantize"),
        ({"config": {"bits": 8}}, InvalidArgumentError, "among target.*'bits'"),
        ({"input_shapes": {"z": [1]}}, InvalidArgumentError, "of features, got 'z'"),
        ({"model_filename": "no.proa"}, NotFoundError, "no.proa"),
    ],
)
def test_an_argument_without_meaning_is_refused(model, arguments, error, message):
    folder = model.parent if "model_filename" in arguments else model
    with pytest.raises(error, match=message):
        AutoCompression(folder, [], **arguments)


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ([], r"train_dataloader with 1 inputs.*got arrays \[\]"),
        ([[np.ones((2, 16)), np.ones(2), 1]], r"got arrays \[3\]"),
        ([{"image": np.ones((2, 16))}], "to have features, got image"),
        ([np.ones((2, 15), "float32")], r"\[1, 16\] of input_shapes, got \[2, 15\]"),
    ],
)
def test_data_of_another_kind_are_refused(model, loader, message, tmp_path):
    compression = AutoCompression(
        model, loader, save_dir=tmp_path, input_shapes=[1, 16]
    )  # fmt: skip
    with pytest.raises(InvalidArgumentError, match=message):
        compression.compress()


@pytest.mark.usefixtures("untimed")
def test_a_callback_that_returns_points_is_refused(samples, model, tmp_path):
    compression = AutoCompression(
        model, batches(*samples), save_dir=tmp_path, eval_callback=lambda *_: 76.0
    )
    with pytest.raises(InvalidArgumentError, match=r"a share in \[0, 1\], got 76.0"):
        compression.compress()
