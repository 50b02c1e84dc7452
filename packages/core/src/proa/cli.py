"""The `proa` command: finds the subcommands of the installed packages.

A package offers a subcommand by an entry point in the group ``proa.commands`` whose
name is the subcommand and whose object is a function ``main(argv) -> int | None``::

    [project.entry-points."proa.commands"]
    infer = "proa_inference.cli:main"

`proa infer bench lenet.proa` then calls ``main(["bench", "lenet.proa"])``. The help
shows the summary that the package's metadata has.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from proa.errors import Error, InvalidArgumentError
from proa.utils import installation

GROUP = "proa.commands"

OWN = {
    "convert": "write an ONNX or Paddle model as a .proa file",
    "export": "write a .proa file as an ONNX or Paddle model",
    "migrate": "rewrite programs for Paddle 1.x (fluid) for 2.x",
    "info": "versions, instruction set and packages of this machine",
    "version": "the version of proa",
}

Command = Callable[[Sequence[str]], int | None]


def installed_commands() -> dict[str, metadata.EntryPoint]:
    """The subcommands of the installed packages, by name."""
    found = metadata.entry_points(group=GROUP)
    return {entry.name: entry for entry in sorted(found, key=lambda e: e.name)}


def _summary(entry: metadata.EntryPoint) -> str:
    """The summary of the package that has a command."""
    facts = {} if entry.dist is None else entry.dist.metadata.json
    return str(facts.get("summary") or f"from {entry.value}")


def usage() -> str:
    """The text of `proa --help`."""
    lines = ["usage: proa <command> [arguments]", "", "commands:"]
    lines += [f"  {name:10} {about}" for name, about in OWN.items()]
    for name, entry in installed_commands().items():
        lines.append(f"  {name:10} {_summary(entry)}")
    lines += ["", "`proa <command> --help` shows the arguments of one command."]
    lines += ["Other packages of Proa add commands when they are installed."]
    return "\n".join(lines)


def info(arguments: Sequence[str] = ()) -> int:
    """Print versions, instruction set and packages, one `name: value` a line."""
    _no_arguments("info", arguments)
    facts = installation.report()
    facts["commands"] = " ".join([*OWN, *installed_commands()])
    for name, value in facts.items():
        print(f"{name + ':':16} {value}")
    return 0


def version(arguments: Sequence[str] = ()) -> int:
    """Print the version of proa."""
    _no_arguments("version", arguments)
    print(f"proa {installation.version_of('proa')}")
    return 0


def _named(option: str, text: str) -> tuple[str, list[str]]:
    """``name=1,2`` as the name and its items."""
    name, equals, items = text.partition("=")
    if not name or not equals:
        raise InvalidArgumentError(
            f"[proa convert] expected {option} NAME=VALUES, got {text!r}"
        )
    return name, [item for item in items.split(",") if item]


def _number(option: str, text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise InvalidArgumentError(
            f"[proa convert] expected a number in {option}, got {text!r}"
        ) from None


def convert(arguments: Sequence[str]) -> int:
    """Write an ONNX or Paddle model as a .proa file."""
    parser = argparse.ArgumentParser("proa convert", description=OWN["convert"])
    parser.add_argument(
        "model", help="the ONNX model, PREFIX.pdmodel, or the folder with __model__"
    )
    parser.add_argument("output", help="the file to write, named *.proa")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,-1,-1",
        help="the shape of an input in place of the model's; -1 is symbolic",
    )
    parser.add_argument(
        "--fix", action="append", default=[], metavar="NAME=VALUE",
        help="the value of an input, which the written model no longer takes",
    )  # fmt: skip
    parser.add_argument(
        "--out-thresholds", action="store_true",
        help="of a quantized Paddle model: round also by the attributes out_threshold",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    is_paddle = given.model.endswith(".pdmodel") or os.path.isdir(given.model)
    importer = "interop.paddle" if is_paddle else "onnx"
    reader, jit = (importlib.import_module(f"proa.{n}") for n in (importer, "jit"))
    fixed: dict[str, Any] = {}
    for name, items in (_named("--fix", text) for text in given.fix):
        numbers = [_number("--fix", item) for item in items]
        fixed[name] = numbers[0] if len(numbers) == 1 else numbers
    options: dict[str, Any] = {}
    if given.out_thresholds:
        if not is_paddle:
            raise InvalidArgumentError(
                "[proa convert] expected a Paddle model with --out-thresholds, got "
                f"{given.model!r}"
            )
        options["out_thresholds"] = True
    layer = reader.load(given.model, fixed, **options)
    shapes = dict(_named("--shape", text) for text in given.shape)
    sizes = {n: [int(_number("--shape", i)) for i in s] for n, s in shapes.items()}
    jit.save(layer, given.output, layer.specs(sizes))
    return 0


def export(arguments: Sequence[str]) -> int:
    """Write a .proa file as an ONNX or Paddle model."""
    parser = argparse.ArgumentParser("proa export", description=OWN["export"])
    parser.add_argument("model", help="the .proa file")
    parser.add_argument(
        "output",
        help="the file to write, named *.onnx; or PREFIX.pdmodel, which gets a "
        "PREFIX.pdiparams",
    )
    parser.add_argument(
        "--opset", type=int, default=9, help="of the ONNX model: 9 (the default) to 21"
    )
    given = parser.parse_args(arguments)
    onnx, jit = (importlib.import_module(f"proa.{name}") for name in ("onnx", "jit"))
    if given.output.endswith(".pdmodel"):
        jit.save(jit.load(given.model), given.output, format="paddle")
        return 0
    onnx.export(jit.load(given.model), given.output, opset_version=given.opset)
    return 0


def _no_arguments(name: str, arguments: Sequence[str]) -> None:
    """Answer --help and refuse everything else, as argparse does."""
    parser = argparse.ArgumentParser(f"proa {name}", description=f"Print {OWN[name]}.")
    parser.parse_args(arguments)


def run(name: str, arguments: Sequence[str]) -> int:
    """Run an installed subcommand; list those there are if there is none."""
    entry = installed_commands().get(name)
    if entry is None:
        choice = ", ".join([*OWN, *installed_commands()])
        print(
            f"proa: no command `{name}` is installed; choose from {choice}, or install "
            "the package of Proa that brings it",
            file=sys.stderr,
        )
        return 2
    try:
        command: Command = entry.load()
    except (ImportError, AttributeError) as error:
        where = f"`{name}` ({entry.value})"
        print(f"proa: {where} cannot be loaded: {error}", file=sys.stderr)
        return 1
    return command(arguments) or 0


def exit_code(program: str, command: Callable[[], int | None]) -> int:
    """Run a command; report what ends it as a shell's user expects.

    Returns:
        What `command` returns, 0 for None; 1 after an error of `proa.errors` or of the
        operating system, which is printed as one line; 130 after Ctrl-C and 141 when
        the reader of its output has gone (`| head`), both without a message.
    """
    try:
        try:
            return command() or 0
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"{program}: {reason}", file=sys.stderr)
        return 1
    except Error as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1


def _main(arguments: Sequence[str]) -> int:
    if not arguments:
        print(usage(), file=sys.stderr)
        return 2
    first, rest = arguments[0], arguments[1:]
    if first == "help" and rest:
        first, rest = rest[0], ["--help"]
    if first in ("-h", "--help", "help"):
        print(usage())
        return 0
    if first in ("-V", "--version", "version"):
        return version(rest)
    if first == "convert":
        return convert(rest)
    if first == "export":
        return export(rest)
    if first == "migrate":
        command: Command = importlib.import_module("proa.migrate.command").main
        return command(rest) or 0
    if first == "info":
        return info(rest)
    return run(first, rest)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script `proa`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return exit_code("proa", lambda: _main(arguments))


if __name__ == "__main__":
    raise SystemExit(main())
