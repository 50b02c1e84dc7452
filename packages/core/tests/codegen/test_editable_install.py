"""`pip install -e` makes the compiled module importable, with its stubs."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2]
NEEDED = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "src/proa/_core",
    "src/proa/version.py",
)
build = pytest.importorskip("scikit_build_core.build")


def test_the_finder_of_an_editable_install_leaves_the_compiled_module_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = tmp_path / "packages" / "core"
    for name in NEEDED:
        source, target = CORE / name, core / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    assert list(core.glob("src/proa/_core/*.pyi"))
    monkeypatch.chdir(core)
    wheel = build.build_editable(str(tmp_path), {"wheel.cmake": "false"})
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        texts = [archive.read(n).decode() for n in archive.namelist() if ".py" in n]
    (finder,) = (text for text in texts if "'proa.version'" in text)
    assert "'proa._core'" not in finder
