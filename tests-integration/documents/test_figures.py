"""Figures in READMEs are those of docs/figures; the first page's program runs."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest

from proa_serving.client import HttpClient

ROOT = Path(__file__).parents[2]
READMES = [ROOT / "README.md", *sorted(ROOT.glob("packages/*/README.md"))]
# What a machine measures: times, sizes, shares, rates.
FIGURE = re.compile(
    r"(?<![-\w.])\d[\d,.]*\s?(?:ms|µs|ns|MB|KB|GB|MiB|%|bytes|images/s|GFLOP/s)(?!\w)"
)


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        return importlib.import_module("figures")


def test_generated_blocks_match_the_figures(figures: ModuleType) -> None:
    measured = json.loads(figures.MEASURED.read_text())
    for path in figures.documents(ROOT):
        text = path.read_text(encoding="utf-8")
        assert figures.rendered(text, measured) == text, f"run tools/figures.py: {path}"


@pytest.mark.parametrize("page", READMES, ids=lambda p: p.parent.name)
def test_a_readme_quotes_no_other_figure(figures: ModuleType, page: Path) -> None:
    text = figures.BLOCK.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)
    assert not FIGURE.findall(text)


def test_every_figure_has_a_command_a_day_and_a_machine(figures: ModuleType) -> None:
    measured = json.loads(figures.MEASURED.read_text())
    for part in measured.values():
        assert part["command"].startswith("nox -s ")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", part["date"])
    for name in ("quickstart", "training"):
        assert measured[name]["cpu"]
        assert measured[name]["threads"] == 1


def test_the_picture_shows_the_figures(figures: ModuleType) -> None:
    quickstart = json.loads(figures.MEASURED.read_text())["quickstart"]
    drawn = figures.PICTURE.read_text(encoding="utf-8")
    ElementTree.fromstring(drawn)
    assert quickstart["date"] in drawn
    for row in quickstart["runtimes"]:
        assert f"{row['p50_ms']:.3f} ms" in drawn
        assert f"{row['accuracy']:.4f}" in drawn


def test_results_of_sessions_become_figures(
    figures: ModuleType, tmp_path: Path
) -> None:
    measured = json.loads(figures.MEASURED.read_text())
    sizes = {k: v for k, v in measured["sizes"].items() if k != "command"}
    (tmp_path / "build" / "bench").mkdir(parents=True)
    sizes["wheel proa, MB"] = 7.25
    (tmp_path / "build" / "size.json").write_text(json.dumps(sizes))
    rows = [
        {"workload": row["workload"], "precision": "fp32", "threads": 1,
         "proa": 2000.0, "proa_compiled": 1500.0, "ratio": 0.5, "best": "torch"}
        for row in measured["training"]["rows"]
    ]  # fmt: skip
    bench = tmp_path / "build" / "bench" / "bench.json"
    bench.write_text(json.dumps({"rows": rows}))
    assert len(figures.collect(tmp_path, measured)) == 3
    render = figures.RENDERERS
    assert "| 7.2 MB |" in render["packages"](measured)
    table = render["training"](measured)
    assert table.count("| 2.0 | 0.50 | torch |") == len(rows)
    assert "geometric mean is 0.50" in table


def test_a_run_of_the_suite_infer_becomes_a_table(
    figures: ModuleType, tmp_path: Path
) -> None:
    row = {"workload": "lstm", "threads": 1, "proa": 4000.0, "best": "openvino"}
    rows = [
        {**row, "kind": "inference of batch 1", "precision": "fp32", "ratio": 0.5,
         "kept": True},
        {**row, "kind": "inference of batch 1", "precision": "int8", "ratio": 2.0,
         "of_fp32": 0.25},
    ]  # fmt: skip
    (tmp_path / "build" / "bench").mkdir(parents=True)
    bench = tmp_path / "build" / "bench" / "bench.json"
    bench.write_text(json.dumps({"rows": rows}))
    measured = {"training": {"rows": [{"workload": "lenet", "network": "LeNet"}]}}
    figures.collect(tmp_path, measured)
    tables = [figures.RENDERERS[f"inference-{p}"](measured) for p in ("fp32", "int8")]
    assert "| 4.00 | openvino | 0.50 |" in tables[0]
    assert "| 4.00 | openvino | 2.00* | 0.25 |" in tables[1]
    assert "batch 1 on 1: 2.00" in tables[1]
    bench.write_text(json.dumps({"rows": [{**rows[0], "workload": "ocr_det"}]}))
    before = json.dumps(measured)
    figures.collect(tmp_path, measured)  # another network: not the same table
    assert json.dumps(measured) == before


def test_the_first_program_has_twelve_lines_and_its_file_is_served(
    tmp_path: Path,
) -> None:
    program = re.findall(r"```python\n(.*?)```", READMES[0].read_text(), re.S)[0]
    assert len([line for line in program.splitlines() if line.strip()]) <= 12
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "proa_serving.cli", "net.int8.proa", "--http", "0"]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        ready = server.stdout.readline()
        (model,) = re.findall(r"models=(\S+)", ready)
        with HttpClient(ready.split("http=")[1].split()[0]) as client:
            for value, expected in ((0.1, 0), (0.9, 1)):
                x = np.full((1, 4), value, "float32")
                (logits,) = client.infer(model, {"x": x}).as_dict().values()
                assert logits.argmax() == expected
    finally:
        server.terminate()
        assert server.wait(30) == 0


@pytest.mark.parametrize("package", ["core", "slim"])
def test_the_program_of_a_readme_runs(package: str, tmp_path: Path) -> None:
    readme = (ROOT / "packages" / package / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
