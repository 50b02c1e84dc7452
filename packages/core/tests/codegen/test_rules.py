"""What the generator makes of gradient rules, and which rules it refuses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2]
ROW = """
op(
    "probe(x, y, *, axis: int = 0, flip: bool = False)",
    shape="same",
    outputs=("z",),
    dtypes=FLOATING,
    grad={rule},
    doc="For the test.",
)
"""


def generate(folder: Path, rule: str) -> subprocess.CompletedProcess[str]:
    """Run the generator on a copy of the table with one more row."""
    built = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CORE / "codegen", folder / "codegen", ignore=built)
    schema = folder / "src" / "proa" / "schema"
    shutil.copytree(CORE / "src" / "proa" / "schema", schema, ignore=built)
    with (schema / "ops" / "activation.py").open("a") as file:
        file.write(ROW.format(rule=rule))
    command = [sys.executable, folder / "codegen", "--out", folder / "out", "--host"]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def rule_of(folder: Path, rule: str) -> str:
    """The C++ made of the rule."""
    done = generate(folder, rule)
    assert done.returncode == 0, done.stderr
    text = (folder / "out" / "grads.cc").read_text()
    return re.search(r"[^\n]*\nvoid grad_probe\(.*?\n}\n", text, re.S)[0]  # type: ignore[index]


def test_only_named_tensors_are_saved_each_for_the_gradients_that_read_it(
    tmp_path: Path,
):
    text = rule_of(tmp_path, "lambda g, dz, x, y: (g.mul(dz, y), g.mul(dz, x))")
    # x (input 0) serves the gradient of y (bit 1), y (input 1) that of x (bit 0).
    assert "{SavedSpec::kInput, 0, false, 0x2}" in text
    assert "{SavedSpec::kInput, 1, false, 0x1}" in text
    assert "if (c.needs(0)) t0 = ops::mul" in text


def test_a_tensor_used_for_its_shape_is_saved_without_data(tmp_path: Path):
    text = rule_of(tmp_path, "lambda g, dz, x: (g.sum_to(dz, x), None)")
    assert "{SavedSpec::kInput, 0, true, 0x1}" in text
    assert "c.set(1" not in text


def test_attributes_pass_through_and_flags_negate(tmp_path: Path):
    rule = (
        "lambda g, dz, *, axis, flip: "
        "(g.cumsum(dz, axis=axis, reverse=~flip), g.mul(dz, axis * 2))"
    )
    text = rule_of(tmp_path, rule)
    assert "ops::cumsum(dz, a.axis, int64_t{!a.flip})" in text
    assert "scalar_like((a.axis * 2), dz)" in text


def test_equal_calls_are_computed_once(tmp_path: Path):
    rule = "lambda g, dz, x: (g.mul(g.exp(x), dz), g.mul(dz, g.exp(x)))"
    assert rule_of(tmp_path, rule).count("ops::exp") == 1


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("lambda g, dz, x: (g.no_such_op(x), None)", "no_such_op, which is no row"),
        ("lambda g, dz, x: g.exp(x)", "must give 2 gradients, got 1"),
        ("lambda g, dz, w: (g.exp(w), None)", "parameter w names nothing"),
        ("lambda g, dz: (g.mul(dz), None)", "g.mul needs y"),
        ("lambda g, dz: (g.cumsum(dz, no=1), None)", "has no attribute"),
        ("lambda g, dz: (g.add(1.0, 2.0), None)", "needs an array next to the number"),
        (
            "lambda g, dz, *, flip: (dz if flip else None, None)",
            "must not branch on the attribute",
        ),
    ],
)
def test_a_rule_that_does_not_fit_the_rows_stops_the_build(
    tmp_path: Path, rule: str, message: str
):
    done = generate(tmp_path, rule)
    assert done.returncode != 0
    assert message in done.stderr


def test_a_selection_contains_only_its_ops(tmp_path: Path):
    command = [sys.executable, CORE / "codegen", "--out", tmp_path, "--ops", "relu,add"]
    subprocess.run(list(map(str, command)), check=True)
    table = (tmp_path / "op_table.cc").read_text()
    assert re.findall(r'^    \{"(\w+)"', table, re.M) == ["relu", "add"]
    kernels = (tmp_path / "kernel_table_scalar.cc").read_text()
    assert re.findall(r"^    \{(\w+),", kernels, re.M) == ["relu", "add"]


def test_a_selection_of_unknown_ops_is_refused(tmp_path: Path):
    command = [
        sys.executable,
        CORE / "codegen",
        "--out",
        tmp_path,
        "--ops",
        "relu,nope",
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode != 0
    assert "no such ops: nope" in done.stderr
