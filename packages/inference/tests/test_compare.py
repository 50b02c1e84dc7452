"""Two models side by side, and what a profiled run says."""

import json

import numpy as np
import pytest
from inference_models import W1, W2, mlp, write_mlp

import proa
from proa import nn
from proa.errors import InvalidArgumentError
from proa.ir import file
from proa.ir.builder import Builder
from proa.static import InputSpec
from proa_inference import Config, compare_models, create_predictor
from proa_inference.cli import main

X = np.random.default_rng(4).standard_normal((5, 6)).astype(np.float32)


def write_changed(path, wide=3):
    """The model of write_mlp without its bias."""
    b = Builder()
    x = b.input("x", "float32", (-1, 6))
    hidden = b.relu(b.linear(x, b.parameter("w1", W1), None))
    second = np.concatenate([W2, W2], 1)[:, :wide]
    out = b.linear(hidden, b.parameter("w2", second))
    out.name, hidden.name = "y", "hidden"
    b.output(out, hidden)
    file.write(b.program, path)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return write_mlp(folder / "a.proa"), write_changed(folder / "b.proa")


def test_the_arrays_of_one_name_are_compared(models):
    found = {d.name: d for d in compare_models(*map(Config, models), [X])}
    assert set(found) == {"linear_0", "hidden", "y"}
    first = mlp(X)[1]
    second = np.maximum(X @ W1, 0)
    difference = found["hidden"]
    assert difference.is_output
    assert difference.op == ("relu", "relu")
    error = np.linalg.norm(first - second)
    assert difference.max_abs == pytest.approx(np.abs(first - second).max(), rel=1e-5)
    assert difference.relative == pytest.approx(error / np.linalg.norm(first), 1e-5)
    ratio = 20 * np.log10(np.linalg.norm(first) / error)
    assert difference.snr_db == pytest.approx(ratio, 1e-5)
    cosine = (first * second).sum() / np.linalg.norm(first) / np.linalg.norm(second)
    assert difference.cosine == pytest.approx(cosine, 1e-6)


def test_a_model_equals_itself(models):
    for d in compare_models(Config(models[0]), Config(models[0]), [X]):
        assert (d.max_abs, d.relative, d.snr_db) == (0, 0, np.inf)
        assert d.cosine == pytest.approx(1)


def test_outputs_of_other_shapes_are_refused(models, tmp_path):
    other = write_changed(tmp_path / "wide.proa", wide=4)
    with pytest.raises(InvalidArgumentError, match=r"one shape.*\(5, 3\) and \(5, 4\)"):
        compare_models(Config(models[0]), Config(other), [X])


def test_the_command_prints_a_line_for_each_array(models, tmp_path, capsys):
    np.savez(tmp_path / "in.npz", x=X)
    paths = [str(path) for path in models]
    assert main(["compare", *paths, "--input", str(tmp_path / "in.npz")]) == 0
    printed = capsys.readouterr().out
    assert "hidden (output) [5, 8] relu" in printed
    assert main(["compare", *paths, "--batch", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["shape"][0] == 7
    np.savez(tmp_path / "wrong.npz", z=X)
    assert main(["compare", *paths, "--input", str(tmp_path / "wrong.npz")]) == 1
    assert "expected arrays ['x']" in capsys.readouterr().err


def test_a_trace_has_the_steps_of_each_run(models, tmp_path, capsys):
    trace = tmp_path / "trace.json"
    arguments = ["bench", str(models[0]), "--runs", "3", "--profile", "--batch", "2"]
    assert main([*arguments, "--trace", str(trace)]) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    runs = [e for e in events if e["name"] == "run"]
    steps = [e for e in events if e["name"] != "run"]
    assert [e["args"]["number"] for e in runs] == [0, 1, 2]
    for event in runs:
        inside = [
            e for e in steps
            if event["ts"] - 1e-6 <= e["ts"] < event["ts"] + event["dur"] - 1e-6
        ]  # fmt: skip
        assert len(inside) == len(create_predictor(Config(models[0])).profile([X]))
        assert sum(e["dur"] for e in inside) == pytest.approx(event["dur"])
    # two rows through (6, 8) and (8, 3): multiplications and additions
    flops = [e["args"]["flops"] for e in steps[:2]]
    assert flops == [2 * 2 * 6 * 8, 2 * 2 * 8 * 3]
    assert "GFLOP/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("make", "shape", "op", "flops"),
    [
        # 2 sentences, 4 heads, 7 x 7 words: products of width 8 twice.
        (lambda: Attending(), (2, 7, 32), "attention", 2 * 2 * 4 * 7 * 7 * (8 + 8)),
        # 7 steps of 2 sentences through (3 gates of 24, 24).
        (lambda: nn.GRU(16, 24), (2, 7, 16), "recurrent", 2 * 7 * 2 * 3 * 24 * 24),
        # Each of 2 x 3 x 6 x 6 elements goes to 5 channels of 3 x 3.
        (lambda: nn.Conv2DTranspose(3, 5, 3), (2, 3, 6, 6), "conv2d_transpose",
         2 * (2 * 3 * 6 * 6) * 5 * 9),
    ],
    ids=["attention", "gru", "transposed"],
)  # fmt: skip
def test_a_profile_counts_the_products_of_every_kind(make, shape, op, flops, tmp_path):
    path = tmp_path / "net.proa"
    network = make()
    network.eval()
    proa.jit.save(network, path, [InputSpec([None, *shape[1:]], "float32", "x")])
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    steps = create_predictor(Config(path)).profile([x])
    assert [s.flops for s in steps if s.op == op] == [flops]


class Attending(nn.Layer):
    """Attention of a sequence to itself."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiHeadAttention(32, 4)

    def forward(self, x):
        return self.attention(x, x, x)
