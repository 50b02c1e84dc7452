"""The main job, as a user starts it: what it leaves behind, and what Ctrl-C leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

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
    assert {row["threads"] for row in report["runtimes"]} == {1}
    page = (folder / "report.html").read_text()
    for row in report["runtimes"]:
        assert f"{row['accuracy']:.4f}" in page
    check_page(page)
    ElementTree.fromstring((folder / "runtimes.svg").read_text())


# A report of made-up figures, rendered as the quickstart does.
RENDER = """
import sys
from pathlib import Path
import numpy as np
import machine, report
rng = np.random.default_rng(0)
rows = [
    {"runtime": runtime, "precision": precision, "accuracy": 0.9, "agreement": 1.0,
     "p50_ms": 0.1, "p99_ms": 0.2, "images_per_s": 1e4, "file_bytes": 250_000,
     "rss_mb": 60.0, "threads": 1, "isa": "avx2"}
    for runtime in ("eager", "inference", "lite", "serving-http", "serving-grpc")
    for precision in (("fp32",) if runtime == "eager" else ("fp32", "int8"))
]
summary = {
    "data": {"name": "<Digits>", "source": "here", "train": 60, "test": 40},
    "train": {"parameters": 61610, "loss": rng.random(200).tolist(),
              "accuracy": [0.5, 0.9], "seconds": 1.0},
    "compress": {"ptq_abs_max": 0.9, "ptq_kl": 0.9, "qat": 0.9},
    "runtimes": rows, "fp32_max_abs_diff": 1e-7, "int8_bit_equal": True,
    "seconds": {"build": None, "train": 71.0, "compress": 3.0,
                "total_without_build": 161.0},
    "measured": {"threads": 1, "batch": 100, "latency_runs": 500},
    "machine": machine.facts(),
}
images = rng.uniform(-1, 1, (40, 1, 28, 28)).astype(np.float32)
labels = rng.integers(0, 10, 40)
logits = rng.random((40, 10)).astype(np.float32)
names = tuple(f"class & {i}" for i in range(10))
report.write(Path(sys.argv[1]), summary, images, labels, logits, names)
"""


def check_page(page: str) -> None:
    assert page.count("<table") == 1  # once, not again as a picture
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="(https?:)?//', page)  # all of it is in the file
    for text in ("1 thread", "batches of 100", "Agreement", "UTC", "Processor",
                 "Instruction sets", "What next"):  # fmt: skip
        assert text in page
    ElementTree.fromstring(re.sub(r"<(meta|img)([^>]*)>", r"<\1\2/>", page[15:]))


def test_the_page_has_one_table_and_states_how_it_was_measured(tmp_path):
    where = ROOT / "examples" / "quickstart"
    command = [sys.executable, "-c", RENDER, str(tmp_path)]
    subprocess.run(command, cwd=where, check=True)
    page = (tmp_path / "report.html").read_text()
    check_page(page)
    assert "The run took 2 minutes 41 seconds" in page
    assert "train 1 minute 11 seconds" in page
    assert "&lt;Digits&gt;" in page
    for path in re.findall(r'href="([^"#]+)"', page):
        assert (tmp_path / path).exists(), path
    ElementTree.fromstring((tmp_path / "runtimes.svg").read_text())
