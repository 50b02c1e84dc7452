import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from inference_models import write_mlp

from proa_inference import Config, create_predictor
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


def written_passes(model):
    config = Config(model)
    config.switch_ir_optim(False)
    return create_predictor(config).metadata()["passes"].split(",")


def test_optimize_takes_passes_out_and_adds_them(path, tmp_path, capsys):
    out = str(tmp_path / "fused.proa")
    options = ["--delete-pass", "fuse_epilogue", "--delete-pass", "fuse_relu"]
    assert main(["optimize", path, out, *options]) == 0
    assert main(["inspect", out]) == 0
    assert "linear_act" not in capsys.readouterr().out
    assert {"fuse_bias", "fuse_epilogue"} & set(written_passes(out)) == {"fuse_bias"}
    assert main(["optimize", path, out, "--append-pass", "quantize_recurrent"]) == 0
    assert written_passes(out)[-2:] == ["quantize_recurrent", "chain_elementwise"]
    assert main(["optimize", path, out, "--delete-pass", "none"]) == 1
    assert "got 'none'" in capsys.readouterr().err


def test_errors_are_one_line_and_a_code(tmp_path, capsys):
    assert main(["bench", str(tmp_path / "none.proa")]) == 1
    assert "must be a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batch", "0"], "--batch: expected a positive integer, got '0'"),
        (["--runs", "-1"], "--runs: expected a positive integer, got '-1'"),
        (["--threads", "x"], "--threads: expected a positive integer, got 'x'"),
        (["--shape", "x"], "--shape: expected NAME=SIZES such as"),
        (["--shape", "x=2,"], "--shape: expected NAME=SIZES such as"),
        (["--shape", "=2"], "--shape: expected NAME=SIZES such as"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    ],
)
def test_a_wrong_option_exits_with_2(path, options, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(["bench", path, *options])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["frobnicate"]])
def test_a_wrong_command_exits_with_2(command):
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 2


def test_a_shape_for_no_input_of_the_model_is_refused(path, capsys):
    assert main(["bench", path, "--shape", "foo=1"]) == 1
    error = capsys.readouterr().err
    assert "expected an input of the model in --shape (x), got 'foo'" in error
    assert error.count("\n") == 1


def test_a_shape_that_the_model_does_not_take_is_refused(path, capsys):
    assert main(["bench", path, "--shape", "x=1,2,3"]) == 1
    assert "'x' must have shape" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bench", "inspect", "optimize"])
@pytest.mark.parametrize("name", ["missing.proa", "folder", "text.proa"])
def test_what_is_no_model_is_one_line(command, name, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.proa").write_text("no model")
    rest = [str(tmp_path / "out.proa")] if command == "optimize" else []
    assert main([command, str(tmp_path / name), *rest]) == 1
    error = capsys.readouterr().err
    assert error.startswith("proa-infer: ")
    assert error.count("\n") == 1


def test_a_reader_that_has_gone_ends_the_command_quietly(path):
    command = [sys.executable, "-m", "proa_inference.cli", "inspect", path]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_ends_a_benchmark_without_a_traceback(path):
    command = [sys.executable, "-m", "proa_inference.cli"]
    command += ["bench", path, "--runs", "100000000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while cpu_seconds(process.pid) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b""
