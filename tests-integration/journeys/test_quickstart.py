"""The main job, as a user starts it: what it leaves behind, and what Ctrl-C leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import proa_inference

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(ROOT / "examples" / "quickstart"), "--out"]


def start(folder: Path) -> subprocess.Popen[str]:
    # A process group of its own, as a terminal gives one: Ctrl-C reaches every member.
    return subprocess.Popen(
        [*COMMAND, str(folder)],
        stdout=(folder.parent / "out.txt").open("w"),
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "COLUMNS": "100"},
    )


def said(folder: Path) -> str:
    return (folder.parent / "out.txt").read_text()


def wait_for(process: subprocess.Popen[str], folder: Path, text: str) -> None:
    deadline = time.monotonic() + 300
    while text not in said(folder):
        assert process.poll() is None, said(folder)
        assert time.monotonic() < deadline, said(folder)
        time.sleep(0.05)


@pytest.mark.parametrize(
    "moment", ["Epoch 1/3", pytest.param("lite fp32", marks=pytest.mark.full)]
)
def test_ctrl_c_leaves_nothing_half_written(tmp_path, moment):
    folder = tmp_path / "quickstart"
    process = start(folder)
    wait_for(process, folder, moment)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 130, said(folder)
    assert "Traceback" not in said(folder)
    names = [p.name for p in folder.rglob("*") if p.is_file()]
    assert not [n for n in names if n.endswith((".tmp", ".part"))], names
    for path in folder.glob("*.proa"):  # what is there is whole
        proa_inference.create_predictor(proa_inference.Config(str(path)))


@pytest.mark.full
def test_the_main_job_keeps_what_it_promises(tmp_path):
    folder = tmp_path / "quickstart"
    seconds = []
    for _ in range(2):
        process = start(folder)
        assert process.wait(600) == 0, said(folder)
        report = json.loads((folder / "report.json").read_text())
        seconds.append(report["seconds"]["total_without_build"])
    assert seconds[1] < seconds[0]  # the second run takes up the weights of the first
    runtimes = {(row["runtime"], row["precision"]) for row in report["runtimes"]}
    assert runtimes == {
        ("eager", "fp32"),
        *(
            (runtime, precision)
            for runtime in ("inference", "lite", "serving-http", "serving-grpc")
            for precision in ("fp32", "int8")
        ),
    }
    fields = ("accuracy", "agreement", "p50_ms", "p99_ms", "images_per_s")
    for row in report["runtimes"]:
        assert all(row[name] > 0 for name in (*fields, "file_bytes", "rss_mb")), row
    assert report["fp32_max_abs_diff"] <= 1e-5
    assert report["int8_bit_equal"]
    page = (folder / "report.html").read_text()
    for row in report["runtimes"]:
        assert f"{row['accuracy']:.4f}" in page
    for name in ("training.png", "confusion.png", "samples.png", "table.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
