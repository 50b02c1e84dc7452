"""The `proa` command finds subcommands by entry points and names what is missing."""

import os
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

import proa
from proa import cli
from proa.errors import InvalidArgumentError


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package on sys.path that offers `greet` and the broken `lost`."""
    (tmp_path / "greeter.py").write_text(
        "def main(argv):\n    print('hello', *argv)\n    return 3 if argv else None\n"
    )
    facts = tmp_path / "proa_greeter-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: proa-greeter\nVersion: 1\n"
        "Summary: Greets by name\n"
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


def test_help_shows_the_summary_of_the_package_that_brings_a_command(plugin, capsys):
    cli.main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if line.split()[:1] == ["greet"])
    assert line.split(maxsplit=1)[1] == "Greets by name"


def test_help_offers_no_command_that_no_package_has(monkeypatch, capsys):
    only_these(monkeypatch)
    cli.main(["--help"])
    listed = capsys.readouterr().out
    assert all(f"  {name} " not in listed for name in ("infer", "lite", "serve"))


def test_info_names_the_installed_packages_of_proa(plugin, capsys):
    assert cli.main(["info"]) == 0
    facts = dict(
        line.split(":", 1) for line in capsys.readouterr().out.splitlines()
    )  # fmt: skip
    assert facts["proa-greeter"].strip() == "1"
    assert "greet" in facts["commands"].split()


def test_an_unknown_command_gets_the_choice(monkeypatch, capsys):
    only_these(monkeypatch, "lite", "infer")
    assert cli.main(["frobnicate"]) == 2
    error = capsys.readouterr().err
    assert "`frobnicate`" in error
    assert "info, version, infer, lite" in error


def test_a_command_that_cannot_be_loaded_reports_the_reason(plugin, capsys):
    assert cli.main(["lost"]) == 1
    assert "greeter_without_module" in capsys.readouterr().err


def test_no_command_prints_the_help_and_fails(capsys):
    assert cli.main([]) == 2
    printed = capsys.readouterr()
    assert "usage: proa" in printed.err
    assert not printed.out


@pytest.mark.parametrize("word", ["version", "--version", "-V"])
def test_version_is_one_line(word, capsys):
    assert cli.main([word]) == 0
    assert capsys.readouterr().out == f"proa {proa.__version__}\n"


@pytest.mark.parametrize("command", [["info", "--help"], ["help", "info"]])
def test_help_of_a_command_of_its_own(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(command)
    assert end.value.code == 0
    assert "usage: proa info" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["info", "version"])
def test_arguments_that_a_command_does_not_take(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([command, "more"])
    assert end.value.code == 2
    assert "unrecognized arguments: more" in capsys.readouterr().err


def test_help_of_a_plugged_command(plugin, capsys):
    assert cli.main(["help", "greet"]) == 3
    assert capsys.readouterr().out == "hello --help\n"


@pytest.mark.parametrize(
    ("raised", "code", "printed"),
    [
        (InvalidArgumentError("[it] got 3"), 1, "it: [it] got 3\n"),
        (FileNotFoundError(2, "No such file or directory", "a"), 1,
         "it: a: No such file or directory\n"),
        (OSError("full"), 1, "it: full\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)  # fmt: skip
def test_what_ends_a_command_becomes_a_line_and_a_code(raised, code, printed, capsys):
    def command():
        raise raised

    assert cli.exit_code("it", command) == code
    assert capsys.readouterr().err == printed


def test_a_bug_keeps_its_traceback():
    def command():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cli.exit_code("it", command)


@pytest.mark.parametrize("word", ["--help", "info"])
def test_a_reader_that_has_gone_ends_the_command_quietly(word):
    command = [sys.executable, "-m", "proa.cli", word]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_info_shows_versions_and_the_instruction_set(capsys):
    assert cli.main(["info"]) == 0
    lines = dict(
        line.split(":", 1)
        for line in capsys.readouterr().out.splitlines()
        if ":" in line
    )
    assert lines["proa"].strip() == proa.__version__
    assert lines["numpy"].strip() == metadata.version("numpy")
    assert lines["isa"].strip() in ("scalar", "avx2", "avx512", "neon", "neondot")


def test_info_shows_devices_and_extras():
    facts = _info()
    assert facts["devices"].split()[0] == "cpu"
    assert facts["gpu"] == "none that this build can use"
    assert ("vision" in facts["extras"]) == (find_spec("PIL") is not None)


def test_the_package_is_the_command_too():
    command = [sys.executable, "-m", "proa", "--help"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.startswith("usage: proa <command>")


def _info(**environment):
    run = subprocess.run(
        [sys.executable, "-m", "proa.cli", "info"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line.split(":", 1) for line in run.stdout.splitlines() if ":" in line)
    return {name: value.strip() for name, value in lines}


def test_info_reports_the_isa_that_was_forced():
    # The lowest one of the build: any CPU that runs the build has it.
    lowest = _info()["built for"].split()[0]
    assert _info(PROA_ISA=lowest)["isa"] == lowest


@pytest.mark.parametrize("profile", ["small", "large"])
def test_info_reports_the_cache_profile_that_was_forced(profile):
    assert _info(PROA_CACHES=profile)["caches"] == f"blocks for {profile}"
