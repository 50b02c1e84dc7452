"""`proa slim compress`: models are tried, measured and reported."""

import json

import numpy as np
import pytest

import proa
import proa_slim
from proa import nn
from proa.errors import (
    InvalidArgumentError,
    NotFoundError,
    PreconditionNotMetError,
)
from proa.ir import file
from proa.runtime import engine_from_bytes
from proa_slim import Recipe, flops
from proa_slim.cli import main
from proa_slim.compression import RECIPES

pytestmark = pytest.mark.usefixtures("untimed")  # tests-integration has the times
SPEC = [proa.static.InputSpec([None, 1, 8, 8], "float32", "image")]


@pytest.fixture(scope="module")
def images():
    """Which quarter of a noisy image is bright."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 1200)
    x = rng.standard_normal((1200, 1, 8, 8)).astype("float32")
    for i, label in enumerate(y):
        row, column = divmod(int(label), 2)
        x[i, 0, row * 4 : row * 4 + 4, column * 4 : column * 4 + 4] += 1.2
    return x, y


def separable(i, o):
    return [
        nn.Conv2D(i, i, 3, padding=1, groups=i, bias_attr=False), nn.BatchNorm2D(i),
        nn.ReLU(), nn.Conv2D(i, o, 1, bias_attr=False), nn.BatchNorm2D(o), nn.ReLU(),
    ]  # fmt: skip


class Residual(nn.Layer):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(channels, channels, 3, padding=1), nn.BatchNorm2D(channels),
            nn.ReLU(), nn.Conv2D(channels, channels, 3, padding=1),
            nn.BatchNorm2D(channels),
        )  # fmt: skip

    def forward(self, x):
        return nn.functional.relu(x + self.body(x))


def network(kind):
    proa.seed(0)
    body = (
        [*separable(16, 32), nn.MaxPool2D(2), *separable(32, 32)]
        if kind == "mobilenet"
        else [Residual(16), nn.MaxPool2D(2), Residual(16)]
    )
    width = 32 if kind == "mobilenet" else 16
    return nn.Sequential(
        nn.Conv2D(1, 16, 3, padding=1), nn.BatchNorm2D(16), nn.ReLU(), *body,
        nn.Flatten(), nn.Linear(width * 16, 4),
    )  # fmt: skip


@pytest.fixture(scope="module", params=["mobilenet", "resnet"])
def trained(request, images, tmp_path_factory):
    """The kind of network, its file and the data's."""
    x, y = images
    net = network(request.param)
    adam = proa.optimizer.Adam(3e-3, parameters=net.parameters())
    for begin in range(0, 3 * 600, 60):
        rows = slice(begin % 600, begin % 600 + 60)
        loss = nn.functional.cross_entropy(
            net(proa.to_tensor(x[rows])), proa.to_tensor(y[rows])
        )
        loss.mean().backward()
        adam.step()
        adam.clear_grad()
    net.eval()
    folder = tmp_path_factory.mktemp("models")
    proa.jit.save(net, str(folder / "net.proa"), SPEC)
    np.savez(folder / "data.npz", image=x, label=y)
    return request.param, folder / "net.proa", folder / "data.npz"


def accuracy(path, x, y):
    (scores,) = engine_from_bytes(path.read_bytes()).run([x])
    return 100 * (scores.argmax(1) == y).mean()


def test_a_recipe_prunes_distils_and_quantizes(trained, images, tmp_path):
    kind, model, data = trained
    recipe = Recipe.of({"recipe": kind, "max_drop": 3.0, "epochs": 8})
    found = proa_slim.compress(model, data, recipe, tmp_path, progress=False)
    x, y = images[0][600:], images[1][600:]  # the half that measures
    before, after = (accuracy(path, x, y) for path in (model, found.path))
    assert before > 90
    assert found.tried[0].metric == pytest.approx(before)
    assert found.chosen.metric == pytest.approx(after)
    assert before - after <= 3
    assert found.chosen.drop == pytest.approx(before - after)
    whole, small = file.read(model), file.read(found.path)
    assert flops(small) <= (1 - recipe.prune) * flops(whole)
    assert found.path.stat().st_size < model.stat().st_size
    weights = [v for v in small.constants() if v.dtype == "int8"]
    assert len(weights) >= 4
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["tried"][report["chosen"]]["metric"] == found.chosen.metric
    assert "distillation" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("trained", ["mobilenet"], indirect=True)
def test_the_command_takes_a_recipe_and_flags(trained, tmp_path, capsys):
    _, model, data = trained
    config = tmp_path / "recipe.json"
    config.write_text('{"target": "weights8", "max_drop": 0.0}')
    out = tmp_path / "small"
    arguments = ["compress", str(model), "--data", str(data), "--out", str(out)]
    assert main([*arguments, "--config", str(config), "--max-drop", "1"]) == 0
    printed = capsys.readouterr()
    assert "accuracy" in printed.out and str(out / "model.proa") in printed.out
    assert "[compress] as given: " in printed.err  # progress
    assert (out / "model.proa").stat().st_size < 0.8 * model.stat().st_size
    assert main([*arguments, "--prune", "1.5"]) == 1
    assert "prune must be in [0, 1), got 1.5" in capsys.readouterr().err
    yaml = tmp_path / "recipe.yaml"
    yaml.write_text("target: float32\nprune: 0.2\nepochs: 1\nmax_drop: 20\n")
    assert main([*arguments, "--config", str(yaml), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    plain = (out / "model.proa").read_bytes()
    flags = ["--config", str(yaml), "--compressed", "--quiet"]
    assert main([*arguments, *flags]) == 0
    deflated = (out / "model.proa").read_bytes()
    assert len(deflated) < len(plain)
    report = json.loads((out / "report.json").read_text())
    assert report["tried"][report["chosen"]]["file_bytes"] == len(deflated)
    x = np.ones((2, 1, 8, 8), "float32")
    first, second = (engine_from_bytes(b).run([x])[0] for b in (plain, deflated))
    assert first.tobytes() == second.tobytes()


def test_without_labels_the_metric_is_agreement(trained, images, tmp_path):
    _, model, _ = trained
    found = proa_slim.compress(
        model, [images[0]], {"max_drop": 5}, tmp_path, progress=False
    )
    assert found.metric_name == "agreement" and found.tried[0].metric == 100
    x = images[0][600:]
    (whole,), (small,) = (
        engine_from_bytes(path.read_bytes()).run([x]) for path in (model, found.path)
    )
    expected = 100 * (whole.argmax(1) == small.argmax(1)).mean()
    assert found.chosen.metric == pytest.approx(expected)


def test_layers_stay_in_float32_where_int8_loses_too_much(images, tmp_path):
    # A layer whose channels differ a thousandfold loses all in one scale for a weight.
    proa.seed(0)
    net = nn.Sequential(
        nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)
    )
    weight = net[0].weight.numpy()
    weight[:, 1:] *= 1e-3
    net[0].weight.set_value(weight)
    back = net[2].weight.numpy()
    back[0], back[1:] = back[0] * 1e-3, back[1:] * 1e3
    net[2].weight.set_value(back)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 64)).astype("float32")
    spec = [proa.static.InputSpec([None, 64], "float32", "x")]
    one_scale = {"quantize": ({"activation": "abs_max", "weight": "abs_max"},)}
    found = proa_slim.compress(
        net, [x], {**one_scale, "max_drop": 5}, tmp_path, input_spec=spec,
        progress=False,
    )  # fmt: skip
    assert found.tried[1].drop > 5
    assert found.chosen.drop <= 5
    assert any(note.startswith("in float32: 0") for note in found.notes)
    with pytest.raises(PreconditionNotMetError, match="at most 5 points of agreem"):
        proa_slim.compress(
            net, [x], {**one_scale, "max_drop": 5, "mixed": False}, tmp_path,
            input_spec=spec, progress=False,
        )  # fmt: skip
    assert json.loads((tmp_path / "report.json").read_text())["chosen"] is None


def test_targets_that_cannot_be_met_name_the_layer(trained, tmp_path):
    _, model, data = trained
    with pytest.raises(PreconditionNotMetError, match=r"by 9.% of multiply-adds prun"):
        recipe = {"prune": 0.9, "epochs": 0, "max_drop": 1}
        proa_slim.compress(model, data, recipe, tmp_path, progress=False)
    with pytest.raises(PreconditionNotMetError, match=r"layer '.*' then still has"):
        proa_slim.compress(model, data, {"prune": 0.9999}, tmp_path, progress=False)


def test_bad_input_is_refused_by_name(trained, images, tmp_path):
    _, model, data = trained
    x, y = images
    cases = [
        (model, [x * np.nan], {}, InvalidArgumentError, "NaN or infinities in input 0"),
        (model, [x[:1]], {}, InvalidArgumentError, "at least two samples"),
        (model, tmp_path / "no.npz", {}, NotFoundError, "a file of data, got"),
        (model, model, {}, InvalidArgumentError, "an .npz file of arrays"),
        (tmp_path / "no.proa", data, {}, NotFoundError, "a model file, got"),
        (model, data, {"target": "int3"}, InvalidArgumentError, "target must be one"),
        (model, data, {"speed": 2}, InvalidArgumentError, "got 'speed'"),
        (model, data, {"recipe": "vgg"}, NotFoundError, "one of int8, mobilenet"),
        (model, data, {"target": "float32"}, InvalidArgumentError, "prune must be pos"),
        (model, data, {"quantize": [{"bits": 3}]}, InvalidArgumentError, "got 'bits'"),
        (network("resnet"), [x], {}, InvalidArgumentError, "expected input_spec"),
    ]
    for source, given, recipe, kind, text in cases:
        with pytest.raises(kind, match=text):
            proa_slim.compress(source, given, recipe, tmp_path, progress=False)
    with pytest.raises(InvalidArgumentError, match="one integer label"):
        proa_slim.compress(model, [x], {}, tmp_path, labels=y[:, None] * 1.0)
    np.savez(tmp_path / "other.npz", picture=x)
    with pytest.raises(NotFoundError, match="none for 'image'; it has picture"):
        proa_slim.compress(model, tmp_path / "other.npz", {}, tmp_path)
    assert set(RECIPES) == {"int8", "mobilenet", "resnet"}


class Gated(nn.Layer):
    """A residual block with squeeze-and-excitation, as networks of users have it."""

    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1 = nn.Conv2D(i, o, 3, stride, 1, bias_attr=False)
        self.norm1 = nn.BatchNorm2D(o)
        self.conv2 = nn.Conv2D(o, o, 3, 1, 1, bias_attr=False)
        self.norm2 = nn.BatchNorm2D(o)
        self.squeeze, self.excite = nn.Conv2D(o, o // 4, 1), nn.Conv2D(o // 4, o, 1)
        self.shortcut = None
        if stride != 1 or i != o:
            self.shortcut = nn.Sequential(
                nn.Conv2D(i, o, 1, stride, bias_attr=False), nn.BatchNorm2D(o)
            )

    def forward(self, x):
        relu = nn.functional.relu
        y = self.norm2(self.conv2(relu(self.norm1(self.conv1(x)))))
        mean = nn.functional.adaptive_avg_pool2d(y, 1)
        y = y * nn.functional.hardsigmoid(self.excite(relu(self.squeeze(mean))))
        return relu(y + (x if self.shortcut is None else self.shortcut(x)))


class Written(nn.Layer):
    """Its reshape names the size of the batch."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2D(1, 16, 3, 1, 1), nn.BatchNorm2D(16)
        self.blocks = nn.Sequential(Gated(16, 16, 1), Gated(16, 24, 2))
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(24, 4)

    def forward(self, x):
        y = self.blocks(nn.functional.relu(self.norm(self.stem(x))))
        y = nn.functional.adaptive_avg_pool2d(y, 1).reshape([x.shape[0], -1])
        return self.head(self.drop(y))


@pytest.mark.parametrize(
    "flags",
    [["--target", "int8", "--prune", "0.3", "--epochs", "1"], ["--target", "weights4"]],
)
def test_the_command_takes_a_network_of_gates_and_residuals(flags, images, tmp_path):
    proa.seed(0)
    net = Written().eval()
    model, data = tmp_path / "net.proa", tmp_path / "data.npz"
    proa.jit.save(net, str(model), SPEC)
    np.savez(data, image=images[0][:200])
    out = tmp_path / "out"
    limits = ["--max-drop", "100", "--out", str(out), "--quiet"]
    assert main(["compress", str(model), "--data", str(data), *limits, *flags]) == 0
    raw = (out / "model.proa").read_bytes()
    assert len(raw) < model.stat().st_size
    engine = engine_from_bytes(raw)
    for count in (1, 3, 200):
        assert engine.run([images[0][:count]])[0].shape == (count, 4)
