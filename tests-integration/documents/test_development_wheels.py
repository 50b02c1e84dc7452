"""Wheels of development builds, which pip takes with --pre alone: docs/building.md."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
_WHEELS = sorted((ROOT / "dist").glob(f"proa-*-{_TAG}-{_TAG}-*_x86_64.whl"))
PROGRAM = """
import proa
from importlib.metadata import version
assert version("proa") == proa.__version__
assert proa.add(proa.ones([2]), proa.ones([2])).tolist() == [2.0, 2.0]
print(proa.__version__)
"""


def installed(folder: Path, target: Path, *options: str) -> str:
    """The version that pip installs from a folder, as the package says it."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    command += ["--find-links", str(folder), "--target", str(target), *options, "proa"]
    subprocess.run(command, check=True)
    program = f"import sys; sys.path.insert(0, {str(target)!r})\n{PROGRAM}"
    answer = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return answer.stdout.strip()


@pytest.mark.feature("L335")
@pytest.mark.skipif(not _WHEELS, reason="needs a wheel of proa in dist/, as nox makes")
def test_pip_installs_a_development_build_with_pre_alone(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        "development", ROOT / "tools" / "development.py"
    )
    assert spec is not None and spec.loader is not None
    development = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(development)
    folder, (released, *_) = tmp_path / "wheels", _WHEELS
    development.development_wheel(released, 7, folder)
    (folder / released.name).write_bytes(released.read_bytes())
    version = released.name.split("-")[1]
    assert installed(folder, tmp_path / "released") == version
    built = installed(folder, tmp_path / "built", "--pre")
    assert built == development.development_version(version, 7)
