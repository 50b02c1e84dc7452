"""Adding an operator touches three places: docs/add-an-op.md, applied to a copy."""

from __future__ import annotations

import ast
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
    options = ("--out", out, "--host", "--python", out / "python", "--docs", out)
    command = [sys.executable, core / "codegen", *options]
    subprocess.run(list(map(str, command)), check=True)
    return {p.name: p.read_text() for p in out.rglob("*") if p.is_file()}


def documented(stub: str) -> dict[str, str]:
    """The docstring of every function and method of a stub."""
    nodes = ast.walk(ast.parse(stub))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return {f.name: ast.get_docstring(f) or "" for f in functions}


def test_the_row_reaches_every_generated_file(tmp_path: Path):
    core = copy_of_core(tmp_path)
    before = generated(core, tmp_path / "before")
    touched = apply_page(tmp_path)
    assert len(touched) == 3
    after = generated(core, tmp_path / "after")
    for name in ("op_ids.h", "kernels.h", "op_table.cc", "kernel_table_scalar.cc"):
        assert "elliott" not in before[name]
        assert "elliott" in after[name]
    for name in ("ops.h", "ops.cc", "grads.cc", "host_table.cc", "ops.pyi"):
        assert "elliott" in after[name]
    # Kernels include none of these headers: a row compiles few files again.
    headers = {n for n in after if n.endswith(".h") and after[n] != before[n]}
    assert headers == {"op_ids.h", "kernels.h", "ops.h"}
    # Every public place has it, with its docs.
    for name in ("ops.pyi", "methods.pyi"):
        docs = documented(after[name])
        assert docs["elliott_"] == f"{docs['elliott']}\n\nIn place."
        assert docs["elliott"].startswith("x / (1 + abs(x)) (Elliott, 1993).")
    for name in ("functions.py", "functional.py"):
        assert "elliott as elliott" in after[name]
        assert '"elliott"' in after[name]
    for name in ("elliott", "elliott_"):
        assert f'"{name}": ops.{name},' in after["methods.py"]
    signature = r'"(x, name=None)\n--\n\nx / (1 + abs(x)) (Elliott, 1993).'
    assert signature in after["host_table.cc"]
    assert "Public as `proa.elliott`, `Tensor.elliott`" in after["activation.md"]
    assert "## elliott" in after["activation.md"]


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
    files = ("test_ops.py", "test_gradients.py", "test_public_names.py")
    tests = [core / "tests" / "ops" / f for f in files]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "elliott", *tests],
        env={**os.environ, "PYTHONPATH": str(core / "src"), "PROA_ISA": "scalar"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 20
