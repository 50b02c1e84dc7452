"""proa.hub: entry points of folders, git repositories and the cache."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from proa import hub
from proa.errors import InvalidArgumentError, NotFoundError, UnavailableError

CONF = '''
dependencies = ["json"]
from sizes import WIDTH

def small(width=WIDTH):
    """A small layer."""
    from proa import nn
    return nn.Linear(width, 1)

def _hidden():
    pass
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "models"
    path.mkdir()
    (path / "hubconf.py").write_text(CONF)
    (path / "sizes.py").write_text("WIDTH = 7\n")
    return path


@pytest.mark.feature("L276")
def test_a_folder_offers_its_entry_points(folder: Path) -> None:
    assert hub.list(str(folder), source="local") == ["small"]
    assert hub.help(str(folder), "small", source="local") == "A small layer."
    assert hub.load(str(folder), "small", source="local").weight.shape == [7, 1]
    net = hub.load(str(folder), "small", source="local", width=3)
    assert net.weight.shape == [3, 1]


def git(folder: Path, *args: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


@pytest.mark.feature("L276")
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_git_repository_offers_a_branch(
    folder: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("PROA_HOME", str(tmp_path / "home"))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "branch", "old")
    assert hub.list(str(folder), source="git") == ["small"]
    (folder / "hubconf.py").write_text(CONF + "\ndef large():\n    return 2\n")
    git(folder, "commit", "-qam", "two")
    assert hub.list(str(folder), source="git") == ["small"]
    renewed = hub.list(str(folder), source="git", force_reload=True)
    assert renewed == ["large", "small"]
    assert hub.help(str(folder), "small", source="git") == "A small layer."
    assert hub.load(str(folder), "small", source="git", width=5).weight.shape == [5, 1]
    assert hub.list(f"{folder}:old", source="git") == ["small"]
    with pytest.raises(InvalidArgumentError, match="with that branch"):
        hub.list(f"{folder}:none", source="git")


def test_remote_sources_use_the_cache(
    folder: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("PROA_HOME", str(tmp_path / "home"))
    with pytest.raises(UnavailableError, match="nothing is downloaded"):
        hub.list("someone/models")
    shutil.copytree(folder, tmp_path / "home" / "hub" / "someone_models_main")
    assert hub.list("someone/models:main") == ["small"]


def test_missing_entries_are_reported(folder: Path) -> None:
    with pytest.raises(NotFoundError, match=r"model must be one of \['small'\]"):
        hub.load(str(folder), "huge", source="local")
    with pytest.raises(InvalidArgumentError, match="source must be"):
        hub.list(str(folder), source="web")
    with pytest.raises(InvalidArgumentError, match="owner/name"):
        hub.list("models")
    with pytest.raises(NotFoundError, match=r"hubconf\.py"):
        hub.list(str(folder.parent), source="local")
    (folder / "hubconf.py").write_text("dependencies = ['no_such_module_ever']")
    with pytest.raises(UnavailableError, match="no_such_module_ever"):
        hub.list(str(folder), source="local")
