import json

import pytest
from inference_models import write_mlp

from proa_inference.cli import main


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return str(write_mlp(tmp_path_factory.mktemp("models") / "mlp.proa"))


def test_bench_prints_times_and_memory(path, capsys):
    assert main(["bench", path, "--batch", "3", "--runs", "20", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["runs"] == 20
    assert printed["batch"] == 3
    assert 0 < printed["p50_ms"] <= printed["p99_ms"]
    assert printed["memory"]["model"] > 0


def test_bench_profiles_each_op(path, capsys):
    assert main(["bench", path, "--runs", "5", "--profile"]) == 0
    assert "linear" in capsys.readouterr().out


def test_inspect_prints_the_graph(path, capsys):
    assert main(["inspect", path]) == 0
    assert "linear" in capsys.readouterr().out


def test_optimize_writes_a_smaller_graph(path, tmp_path, capsys):
    out = tmp_path / "fused.proa"
    assert main(["optimize", path, str(out)]) == 0
    assert main(["inspect", str(out)]) == 0
    assert "linear_act" in capsys.readouterr().out


def test_errors_are_one_line_and_a_code(tmp_path, capsys):
    assert main(["bench", str(tmp_path / "none.proa")]) == 1
    assert "must be a file" in capsys.readouterr().err
