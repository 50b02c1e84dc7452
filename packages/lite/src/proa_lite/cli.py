"""``proa-lite``: convert, look into and time models; build a library for them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from proa_lite.errors import LiteError
from proa_lite.predictor import AnyArray, Config, Predictor, create_predictor, isa


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="proa-lite", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _add_tools(commands)
    inspect = commands.add_parser("inspect", help="print inputs, outputs and memory")
    inspect.add_argument("model")
    bench = commands.add_parser("bench", help="time a model on random input")
    bench.add_argument("model")
    bench.add_argument("--batch", type=_positive, default=1)
    bench.add_argument("--runs", type=_positive, default=200)
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _add_tools(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The commands that need more than the runtime."""
    convert = commands.add_parser(
        "convert", help="write a model after its graph passes (needs proa-lite[tools])"
    )
    convert.add_argument("model")
    convert.add_argument("output", type=Path)
    convert.add_argument(
        "--level",
        type=int,
        choices=(0, 1, 2),
        default=2,
        help="1 keeps results bit-equal, 2 also fuses ops (default), 0 changes nothing",
    )
    select = commands.add_parser(
        "select", help="build a library with the models' ops alone (needs a checkout)"
    )
    select.add_argument("models", nargs="*")
    select.add_argument("--out", type=Path, required=True)
    select.add_argument("--source", type=Path, default=Path("packages/lite"))
    select.add_argument(
        "--target", default="native", help="native (default), aarch64 or armv7"
    )
    select.add_argument(
        "--isa",
        action="append",
        default=[],
        help="only these instruction sets (once for each)",
    )


def _convert(options: argparse.Namespace) -> None:
    _need_tools("convert")
    from proa_lite.convert import convert

    done = convert(options.model, options.output, level=options.level)
    size = options.output.stat().st_size
    print(f"{options.output}: {size:,} bytes, {done.before} -> {done.after} nodes")


def _need_tools(command: str) -> None:
    if find_spec("proa") is None:
        raise LiteError(
            f"[proa-lite {command}] the package proa is not installed (in a checkout: "
            "nox -s build -- core && pip install dist/proa-*.whl)"
        )


def _inspect(options: argparse.Namespace) -> None:
    predictor = create_predictor(Config(options.model))
    for title, specs in (
        ("input", predictor.get_input_specs()),
        ("output", predictor.get_output_specs()),
    ):
        for spec in specs:
            shape = ", ".join("?" if d < 0 else str(d) for d in spec.shape)
            print(f"{title:7} {spec.name}: {spec.dtype} ({shape})")
    print(f"memory  {predictor.memory():,} bytes besides the file")
    print(f"runs on {isa()}")


def _random(predictor: Predictor, batch: int) -> list[AnyArray]:
    rng = np.random.default_rng(0)
    arrays = []
    for spec in predictor.get_input_specs():
        shape = tuple(batch if d < 0 else d for d in spec.shape)
        if spec.dtype.kind == "f":
            arrays.append(rng.standard_normal(shape).astype(spec.dtype))
        else:
            arrays.append(rng.integers(0, 2, shape).astype(spec.dtype))
    return arrays


def _bench(options: argparse.Namespace) -> None:
    predictor = create_predictor(Config(options.model))
    inputs = _random(predictor, options.batch)
    times = np.empty(options.runs)
    for i in range(-5, options.runs):
        start = time.perf_counter()
        predictor.run(inputs)
        times[max(i, 0)] = time.perf_counter() - start
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    print(
        f"{options.runs} runs of batch {options.batch}: "
        f"p50 {p50:.3f} ms, p99 {p99:.3f} ms; "
        f"{options.batch / times.mean():,.0f} a second; {predictor.memory():,} bytes"
    )


def _select(options: argparse.Namespace) -> None:
    if options.models:
        _need_tools("select")
    from proa_lite.select import Selection, build, selection_of

    chosen = selection_of(options.models) if options.models else Selection()
    result = build(chosen, options.out, options.source, options.target, options.isa)
    print(f"{result}: {result.stat().st_size:,} bytes, {len(chosen.ops) or 'all'} ops")


def _run(argv: list[str] | None) -> None:
    options = _parser().parse_args(argv)
    commands = {
        "convert": _convert,
        "inspect": _inspect,
        "bench": _bench,
        "select": _select,
    }
    commands[options.command](options)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    1 after an error, which is printed as one line; 130 after Ctrl-C and 141 when the
    reader of the output has gone (`| head`). `proa.cli.exit_code` does the same, but
    this package runs without core.
    """
    try:
        try:
            _run(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        # Errors of core's tools have types that this package does not import.
        ours = isinstance(error, (LiteError, OSError))
        if not ours and type(error).__module__ != "proa.errors":
            raise
        print(f"proa-lite: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
