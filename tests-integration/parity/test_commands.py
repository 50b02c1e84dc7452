"""`proa NAME` runs the command that a package of this repository brings."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from proa import cli


def declared_commands() -> dict[str, str]:
    """The commands that packages of this repository declare."""
    found: dict[str, str] = {}
    for path in Path(__file__).parents[2].glob("packages/*/pyproject.toml"):
        _, _, rest = path.read_text().partition(
            '[project.entry-points."proa.commands"]'
        )
        found.update(re.findall(r'^(\w+) = "(.+)"$', rest.partition("\n[")[0], re.M))
    return found


def test_the_commands_of_the_packages_are_found_and_load(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = declared_commands()
    assert declared.keys() == {"infer", "lite", "serve", "slim"}
    # Only an installed package has entry points, so they are also given as declared.
    installed = {e.name: e.value for e in cli.installed_commands().values()}
    assert installed.items() <= declared.items()
    entries = [EntryPoint(*command, cli.GROUP) for command in declared.items()]
    monkeypatch.setattr(cli.metadata, "entry_points", lambda group: entries)
    for name in declared:
        with pytest.raises(SystemExit) as end:
            cli.run(name, ["--help"])
        assert end.value.code == 0
        assert re.match(f"usage: proa[ -]{name} ", capsys.readouterr().out)
