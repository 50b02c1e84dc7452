"""The `proa` command finds subcommands by entry points and names what is missing."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from proa import cli


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package on sys.path that offers `greet` and the broken `lost`."""
    (tmp_path / "greeter.py").write_text(
        "def main(argv):\n    print('hello', *argv)\n    return 3 if argv else None\n"
    )
    facts = tmp_path / "greeter-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: greeter\nVersion: 1\n"
    )
    (facts / "entry_points.txt").write_text(
        "[proa.commands]\ngreet = greeter:main\nlost = greeter_without_module:main\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def only_these(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    entries = [metadata.EntryPoint(n, f"{n}:main", cli.GROUP) for n in names]
    monkeypatch.setattr(cli.metadata, "entry_points", lambda group: entries)


def test_a_packages_command_gets_the_rest_of_the_line(plugin, capsys):
    assert cli.main(["greet", "a", "--b"]) == 3
    assert capsys.readouterr().out == "hello a --b\n"


def test_a_command_that_returns_none_succeeded(plugin):
    assert cli.main(["greet"]) == 0


def test_help_lists_the_commands_found(plugin, capsys):
    assert cli.main(["--help"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert any(line.split()[:1] == ["greet"] for line in listed)
    assert any(line.split()[:1] == ["info"] for line in listed)


def test_help_tells_how_to_get_what_is_not_installed(monkeypatch, capsys):
    only_these(monkeypatch, "serve")
    cli.main(["--help"])
    here, missing = capsys.readouterr().out.split("not installed:")
    assert "serve" in here
    assert "pip install proa-slim" in missing
    assert "proa-serving" not in missing


@pytest.mark.parametrize(("command", "known"), sorted(cli.KNOWN.items()))
def test_a_missing_package_is_named(command, known, monkeypatch, capsys):
    only_these(monkeypatch)
    assert cli.main([command]) == 2
    assert f"pip install {known[0]}" in capsys.readouterr().err


def test_an_unknown_command_gets_the_choice(monkeypatch, capsys):
    only_these(monkeypatch, "lite", "infer")
    assert cli.main(["frobnicate"]) == 2
    error = capsys.readouterr().err
    assert "`frobnicate`" in error
    assert "info, infer, lite" in error


def test_a_command_that_cannot_be_loaded_says_why(plugin, capsys):
    assert cli.main(["lost"]) == 1
    assert "greeter_without_module" in capsys.readouterr().err


def test_no_command_prints_the_help_and_fails(capsys):
    assert cli.main([]) == 2
    assert "usage: proa" in capsys.readouterr().out


def test_info_tells_versions_and_the_instruction_set(capsys):
    assert cli.main(["info"]) == 0
    lines = dict(
        line.split(":", 1)
        for line in capsys.readouterr().out.splitlines()
        if ":" in line
    )
    assert lines["proa"].strip() == metadata.version("proa")
    assert lines["numpy"].strip() == metadata.version("numpy")
    assert lines["isa"].strip() in ("scalar", "avx2", "avx512", "neon", "neondot")


def test_info_reports_the_isa_that_was_forced():
    run = subprocess.run(
        [sys.executable, "-m", "proa.cli", "info"],
        env={**os.environ, "PROA_ISA": "scalar"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line for line in run.stdout.splitlines() if line.startswith("isa:")] == [
        "isa:             scalar"
    ]
