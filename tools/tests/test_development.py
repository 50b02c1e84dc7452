"""Wheels of development builds: pip takes them with --pre alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .loaded import tool

development = tool("development")

FILES = {
    "net/__init__.py": '"""A net."""\n\n__version__ = "0.1.0"\n',
    "net-0.1.0.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: net\nVersion: 0.1.0\nRequires-Dist: base==0.1.0\n"
    ),
    "net-0.1.0.dist-info/WHEEL": (
        "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
    "net-0.1.0.dist-info/RECORD": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Wheels of a release and of a development build."""
    released = tmp_path / "net-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(released, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    result = development.development_wheel(released, 7, tmp_path)
    assert result.name == "net-0.1.1.dev7-py3-none-any.whl"
    return tmp_path


def installed(folder: Path, *options: str) -> str:
    """The version that pip installs from a folder, as the package says it."""
    target = folder / ("with" + "".join(options))
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    command += ["--find-links", str(folder), "--target", str(target), *options, "net"]
    subprocess.run(command, check=True)
    program = (
        "from importlib.metadata import version; import net; "
        "assert version('net') == net.__version__; print(net.__version__)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=target, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    return answer.stdout.strip()


def test_pip_installs_a_development_build_with_pre_alone(folder: Path) -> None:
    assert installed(folder) == "0.1.0"
    assert installed(folder, "--pre") == "0.1.1.dev7"


def test_only_the_own_version_changes(folder: Path) -> None:
    wheel = folder / "net-0.1.1.dev7-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        facts = archive.read("net-0.1.1.dev7.dist-info/METADATA").decode()
        record = archive.read("net-0.1.1.dev7.dist-info/RECORD").decode()
        names = set(archive.namelist())
    assert "Requires-Dist: base==0.1.0" in facts
    assert {line.split(",")[0] for line in record.splitlines()} == names
