"""``proa slim``: make models smaller."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from proa.cli import exit_code
from proa_slim.compression import RECIPES, compress
from proa_slim.compression.recipe import TARGETS, read_fields


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="proa slim", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    result = commands.add_parser(
        "compress", help="prune and quantize a model within what its metric may lose"
    )
    result.add_argument("model", help="NAME.proa, NAME.onnx, NAME.pdmodel or a folder")
    result.add_argument(
        "--data", required=True, metavar="FILE.npz",
        help="arrays by the inputs' names, and `label`",
    )  # fmt: skip
    result.add_argument("--out", default="compressed", help="the folder to write")
    result.add_argument(
        "--config", metavar="FILE", help="a recipe in YAML or JSON; flags come first"
    )
    result.add_argument(
        "--recipe", choices=list(RECIPES), help="a recipe to begin with"
    )
    result.add_argument("--target", choices=TARGETS)
    result.add_argument("--max-drop", type=float, metavar="POINTS")
    result.add_argument("--prune", type=float, metavar="SHARE", help="of multiply-adds")
    result.add_argument("--epochs", type=int, help="of training after pruning")
    result.add_argument("--learning-rate", type=float)
    result.add_argument(
        "--qat-epochs", type=int, help="of training with the rounding, if need be"
    )
    result.add_argument(
        "--rest", choices=("float32", "float16"), help="of layers left out of int8"
    )
    result.add_argument(
        "--max-milliseconds", type=float, metavar="MS", help="for a run of one sample"
    )
    result.add_argument(
        "--resume", action="store_true", help="go on with a run that was stopped"
    )
    result.add_argument(
        "--compressed", action="store_true", default=None, help="deflate the file"
    )
    result.add_argument("--threads", type=int, help="of timed runs")
    result.add_argument("--quiet", action="store_true", help="print the result alone")
    return parser


def _compress(options: argparse.Namespace) -> None:
    fields: dict[str, Any] = (
        {} if options.config is None else read_fields(options.config)
    )
    for name in (
        "recipe", "target", "max_drop", "prune", "epochs", "learning_rate",
        "qat_epochs", "rest", "max_milliseconds", "threads", "compressed",
    ):  # fmt: skip
        if getattr(options, name) is not None:
            fields[name] = getattr(options, name)
    found = compress(
        options.model, options.data, fields, options.out, progress=not options.quiet,
        resume=options.resume,
    )  # fmt: skip
    whole, small = found.tried[0], found.chosen
    change = f"{0 - small.drop:+.2f}"
    print(
        f"{found.path}: {found.metric_name} {small.metric:.2f} % ({change}), "
        f"{small.file_bytes:,} of {whole.file_bytes:,} bytes"
    )
    if small.milliseconds is not None and whole.milliseconds is not None:
        print(f"{small.milliseconds:.3f} ms, before {whole.milliseconds:.3f} ms")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""

    def run() -> None:
        options = _parser().parse_args(argv)
        _compress(options)

    return exit_code("proa slim", run)


if __name__ == "__main__":
    raise SystemExit(main())
