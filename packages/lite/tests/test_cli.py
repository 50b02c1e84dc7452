"""The command line: what needs the runtime alone."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from proa_lite.cli import main


def test_inspect_prints_inputs_outputs_and_memory(capsys, models):
    assert main(["inspect", str(models / "mixed.proa")]) == 0
    text = capsys.readouterr().out
    assert "input   ids: int64 (?, 4)" in text
    assert "input   x: float32 (?, 6, 4)" in text
    assert text.count("output ") == 2
    assert "memory " in text


@pytest.mark.parametrize("name", ["lenet.int8", "mixed"])
def test_bench_prints_latency_and_throughput(capsys, name, models):
    model = str(models / f"{name}.proa")
    assert main(["bench", model, "--runs", "3", "--batch", "2"]) == 0
    text = capsys.readouterr().out
    assert "3 runs of batch 2: p50" in text
    assert "p99" in text


def test_errors_are_one_line_and_exit_with_1(capsys, tmp_path):
    bad = tmp_path / "bad.proa"
    bad.write_bytes(b"no model")
    for path in (bad, tmp_path / "missing.proa"):
        assert main(["inspect", str(path)]) == 1
        error = capsys.readouterr().err
        assert error.startswith("proa-lite: [proa_lite_open]")
        assert error.count("\n") == 1


@pytest.mark.skipif(find_spec("proa") is not None, reason="the tools are installed")
@pytest.mark.parametrize("command", ["convert", "select"])
def test_tools_name_missing_dependencies(capsys, command, tmp_path, models):
    rest = [str(tmp_path / "x")] if command == "convert" else ["--out", str(tmp_path)]
    assert main([command, str(models / "mlp.proa"), *rest]) == 1
    assert "pip install dist/proa-*.whl" in capsys.readouterr().err


def test_the_module_can_be_run():
    command = [sys.executable, "-m", "proa_lite.cli", "--help"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in ("convert", "inspect", "bench", "select"):
        assert name in run.stdout


@pytest.mark.parametrize("option", ["--batch", "--runs"])
@pytest.mark.parametrize("value", ["0", "-2", "many"])
def test_a_count_is_a_positive_integer(capsys, option, value, models):
    with pytest.raises(SystemExit) as end:
        main(["bench", str(models / "mlp.proa"), option, value])
    assert end.value.code == 2
    assert f"expected a positive integer, got {value!r}" in capsys.readouterr().err


def test_a_folder_is_no_model(capsys, tmp_path):
    assert main(["inspect", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_reader_that_has_gone_ends_the_command_quietly(models):
    command = [sys.executable, "-m", "proa_lite.cli", "inspect"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, str(models / "mlp.proa")], **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_ctrl_c_ends_with_130_and_no_traceback(monkeypatch, capsys, models):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("proa_lite.cli._bench", interrupted)
    assert main(["bench", str(models / "mlp.proa")]) == 130
    assert capsys.readouterr().err == ""
