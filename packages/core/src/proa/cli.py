"""The `proa` command: finds the subcommands of the installed packages.

A package offers a subcommand by an entry point in the group ``proa.commands`` whose
name is the subcommand and whose object is a function ``main(argv) -> int | None``::

    [project.entry-points."proa.commands"]
    infer = "proa_inference.cli:main"

`proa infer bench lenet.proa` then calls ``main(["bench", "lenet.proa"])``.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib import metadata

GROUP = "proa.commands"

# Which wheel brings a subcommand, and what it does: for the messages only. What can be
# run is what is installed.
KNOWN = {
    "slim": ("proa-slim", "compress a model and report what it costs"),
    "infer": ("proa-inference", "run and time a model on this machine"),
    "lite": ("proa-lite", "convert, inspect and time a model for small devices"),
    "serve": ("proa-serving", "serve models over HTTP and gRPC"),
}
WHEELS = ("proa", *(wheel for wheel, _ in KNOWN.values()))

Command = Callable[[Sequence[str]], int | None]


def installed_commands() -> dict[str, metadata.EntryPoint]:
    """The subcommands of the installed packages, by name."""
    found = metadata.entry_points(group=GROUP)
    return {entry.name: entry for entry in sorted(found, key=lambda e: e.name)}


def usage() -> str:
    """The text of `proa --help`: what is here, and what could be installed."""
    commands = installed_commands()
    lines = ["usage: proa <command> [arguments]", "", "commands:"]
    lines.append(
        f"  {'info':10} versions, instruction set and packages of this machine"
    )
    for name, entry in commands.items():
        about = KNOWN[name][1] if name in KNOWN else f"from {entry.value}"
        lines.append(f"  {name:10} {about}")
    missing = {
        name: wheel for name, (wheel, _) in KNOWN.items() if name not in commands
    }
    if missing:
        lines += ["", "not installed:"]
        for name, wheel in missing.items():
            lines.append(f"  {name:10} pip install {wheel}")
    lines += ["", "`proa <command> --help` tells a command's own arguments."]
    return "\n".join(lines)


def version_of(wheel: str) -> str:
    try:
        return metadata.version(wheel)
    except metadata.PackageNotFoundError:
        return "not installed"


def instruction_set() -> dict[str, str]:
    """What the engine says about the CPU; the reason where it cannot be loaded."""
    try:
        core = importlib.import_module("proa._core")
    except ImportError as error:
        return {"engine": f"cannot be loaded: {error}"}
    built: dict[str, object] = core.build_info()
    facts = {
        "isa": str(built["isa"]),
        "cpu": f"runs up to {built['cpu']}",
        "engine": f"abi {built['abi']}, file format {built['format']}, "
        f"{built['ops']} ops, compiled by {built['compiler']}",
    }
    if forced := os.environ.get("PROA_ISA"):
        facts["PROA_ISA"] = forced
    return facts


def info() -> int:
    """Print versions, instruction set and packages, one `name: value` a line."""
    facts = {wheel: version_of(wheel) for wheel in WHEELS}
    facts["python"] = f"{platform.python_version()} ({sys.executable})"
    facts["numpy"] = version_of("numpy")
    facts["machine"] = (
        f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()}"
    )
    facts.update(instruction_set())
    facts["commands"] = " ".join(["info", *installed_commands()])
    for name, value in facts.items():
        print(f"{name + ':':16} {value}")
    return 0


def run(name: str, arguments: Sequence[str]) -> int:
    """Run an installed subcommand; say which wheel brings it if there is none."""
    entry = installed_commands().get(name)
    if entry is None:
        known = KNOWN.get(name)
        if known is not None:
            hint = f"install it: pip install {known[0]}"
        else:
            names = ", ".join(["info", *installed_commands()])
            hint = f"choose from {names}"
        print(f"[proa] no command `{name}` is installed here; {hint}", file=sys.stderr)
        return 2
    try:
        command: Command = entry.load()
    except (ImportError, AttributeError) as error:
        where = f"`{name}` ({entry.value})"
        print(f"[proa] {where} cannot be loaded: {error}", file=sys.stderr)
        return 1
    return command(arguments) or 0


def main(argv: Sequence[str] | None = None) -> int:
    """The console script `proa`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        print(f"proa {version_of('proa')}")
        return 0
    if arguments[0] == "info":
        return info()
    return run(arguments[0], arguments[1:])


if __name__ == "__main__":
    raise SystemExit(main())
