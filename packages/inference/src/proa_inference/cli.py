"""``proa-infer``: time a model, look into it, or write it optimized."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from proa.cli import exit_code
from proa.errors import InvalidArgumentError
from proa_inference.bench import random_inputs, time_runs
from proa_inference.config import Config
from proa_inference.predictor import Predictor, TensorSpec, create_predictor


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="proa-infer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    bench = commands.add_parser("bench", help="time a model on random input")
    bench.add_argument("model")
    bench.add_argument("--batch", type=_positive, default=1)
    bench.add_argument("--threads", type=_positive, default=1)
    bench.add_argument("--runs", type=_positive, default=200)
    bench.add_argument(
        "--shape",
        action="append",
        default=[],
        type=_named_shape,
        metavar="NAME=1,3,224,224",
        help="the shape of one input (once for each)",
    )
    bench.add_argument("--profile", action="store_true", help="time each op as well")
    bench.add_argument("--no-optimize", action="store_true", help="run no graph passes")
    bench.add_argument("--json", action="store_true", help="print JSON")
    inspect = commands.add_parser("inspect", help="print the graph of a model")
    inspect.add_argument("model")
    optimize = commands.add_parser(
        "optimize", help="write a model after its graph passes"
    )
    optimize.add_argument("model")
    optimize.add_argument("output", type=Path)
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, shape = text.rpartition("=")
    sizes = shape.split(",")
    if not name or not all(size.strip().isdecimal() for size in sizes):
        raise argparse.ArgumentTypeError(
            f"expected NAME=SIZES such as x=1,3,224,224, got {text!r}"
        )
    return name, tuple(int(size) for size in sizes)


def _given_shapes(
    specs: list[TensorSpec], options: list[tuple[str, tuple[int, ...]]]
) -> list[TensorSpec]:
    shapes, names = dict(options), [spec.name for spec in specs]
    for name in shapes:
        if name not in names:
            raise InvalidArgumentError(
                f"[bench] expected an input of the model in --shape "
                f"({', '.join(names)}), got {name!r}"
            )
    return [
        TensorSpec(s.name, s.dtype, shapes[s.name]) if s.name in shapes else s
        for s in specs
    ]


def _print_profile(predictor: Predictor, inputs: list, runs: int) -> None:  # type: ignore[type-arg]  # any arrays
    totals: dict[str, float] = defaultdict(float)
    for _ in range(min(runs, 20)):
        for step in predictor.profile(inputs):
            totals[f"{step.op:24} {step.name}"] += step.milliseconds
    whole = sum(totals.values())
    for name, elapsed in sorted(totals.items(), key=lambda item: -item[1]):
        print(f"{elapsed / whole:6.1%}  {elapsed / min(runs, 20):9.4f} ms  {name}")


def _bench(options: argparse.Namespace) -> None:
    config = Config(options.model)
    config.set_cpu_math_library_num_threads(options.threads)
    config.switch_ir_optim(not options.no_optimize)
    predictor = create_predictor(config)
    specs = _given_shapes(predictor.get_input_specs(), options.shape)
    inputs = random_inputs(specs, options.batch)
    timing = time_runs(predictor, inputs, options.runs)
    if options.json:
        print(json.dumps({**asdict(timing), "memory": predictor.memory()}))
        return
    print(
        f"{timing.runs} runs of batch {timing.batch}: p50 {timing.p50_ms:.3f} ms, "
        f"p90 {timing.p90_ms:.3f}, p99 {timing.p99_ms:.3f}; "
        f"{timing.per_second:,.0f} a second"
    )
    for kind, size in predictor.memory().items():
        print(f"{kind:8} {size / 2**20:8.2f} MB")
    if options.profile:
        _print_profile(predictor, inputs, options.runs)


def _inspect(options: argparse.Namespace) -> None:
    from proa import ir

    print(ir.describe(options.model))


def _optimize(options: argparse.Namespace) -> None:
    from proa.ir import file, passes

    config = Config(options.model)
    program = file.from_bytes(config.content())
    passes.apply(program, config.pass_builder().all_passes())
    file.write(program, options.output)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""

    def run() -> None:
        options = _parser().parse_args(argv)
        commands = {"bench": _bench, "inspect": _inspect, "optimize": _optimize}
        commands[options.command](options)

    return exit_code("proa-infer", run)


if __name__ == "__main__":
    raise SystemExit(main())
