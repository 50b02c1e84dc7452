"""Adding an operator touches three places: docs/add-an-op.md, applied to a copy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
PAGE = ROOT / "docs" / "add-an-op.md"
CORE = ROOT / "packages" / "core"
BLOCK = re.compile(r"^`(packages/[^`]+)`\n+```\w+\n(.*?)^```$", re.M | re.S)


def apply_page(root: Path) -> list[str]:
    """Put the page's code into the tree below `root`; return the files touched."""
    touched = []
    for name, code in BLOCK.findall(PAGE.read_text()):
        path = root / name
        text = path.read_text()
        end = text.rfind("\n}  // namespace") if path.suffix == ".cc" else len(text)
        path.write_text(f"{text[:end]}\n{code}{text[end:]}")
        touched.append(name)
    return touched


def copy_of_core(folder: Path) -> Path:
    """What a build and the op tests read."""
    core = folder / "packages" / "core"
    for name in ("cmake", "codegen", "csrc", "src", "tests/ops"):
        built = shutil.ignore_patterns("__pycache__", "*.so", "lib", "build")
        shutil.copytree(CORE / name, core / name, ignore=built)
    shutil.copy(CORE / "CMakeLists.txt", core)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return core


def generated(core: Path, out: Path) -> dict[str, str]:
    """Run the generator and return its files' texts."""
    options = ("--out", out, "--host", "--stubs", out / "ops.pyi", "--docs", out)
    command = [sys.executable, core / "codegen", *options]
    subprocess.run(list(map(str, command)), check=True)
    return {p.name: p.read_text() for p in out.rglob("*") if p.is_file()}


def test_the_row_reaches_every_generated_file(tmp_path: Path):
    core = copy_of_core(tmp_path)
    before = generated(core, tmp_path / "before")
    touched = apply_page(tmp_path)
    assert len(touched) == 3
    after = generated(core, tmp_path / "after")
    for name in ("op_ids.h", "kernels.h", "op_table.cc", "kernel_table_scalar.cc"):
        assert "softsign" not in before[name]
        assert "softsign" in after[name]
    for name in ("ops.h", "ops.cc", "grads.cc", "host_table.cc", "ops.pyi"):
        assert "softsign" in after[name]
    # Kernels include none of these headers: a row compiles few files again.
    headers = {n for n in after if n.endswith(".h") and after[n] != before[n]}
    assert headers == {"op_ids.h", "kernels.h", "ops.h"}
    assert "softsign_(" in after["ops.pyi"]
    assert "## softsign" in after["activation.md"]


@pytest.mark.full
def test_the_page_builds_and_its_record_passes(tmp_path: Path):
    for tool in ("cmake", "ninja"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    pytest.importorskip("pybind11")
    core = copy_of_core(tmp_path)
    apply_page(tmp_path)
    build = tmp_path / "build"
    options = ["-DPROA_INPLACE=ON", "-DPROA_ISAS=scalar"]
    options.append(f"-DPython3_EXECUTABLE={sys.executable}")
    subprocess.run(
        ["cmake", "-S", core, "-B", build, "-G", "Ninja", *options], check=True
    )
    subprocess.run(["cmake", "--build", build], check=True)
    tests = [core / "tests" / "ops" / f for f in ("test_ops.py", "test_gradients.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "softsign", *tests],
        env={**os.environ, "PYTHONPATH": str(core / "src"), "PROA_ISA": "scalar"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 20
