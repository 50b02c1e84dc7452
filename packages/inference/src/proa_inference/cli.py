"""``proa-infer``: time, inspect, compare, optimize, encrypt or score a model."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from proa.base import files
from proa.cli import exit_code
from proa.errors import InvalidArgumentError
from proa.utils.cpp_extension import load_library
from proa_inference.bench import random_inputs, time_runs
from proa_inference.compare import compare_models, comparison_table
from proa_inference.config import Config
from proa_inference.encryption import encrypt_file
from proa_inference.image_data import (
    MEAN,
    STD,
    accuracy,
    load_images,
    read_image_data,
    write_image_data,
)
from proa_inference.predictor import create_predictor
from proa_inference.profile import profile_table, write_chrome_trace
from proa_inference.tensor import TensorSpec


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="proa-infer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    bench = commands.add_parser("bench", help="time a model on random input")
    bench.add_argument("model")
    bench.add_argument("--batch", type=_positive, default=1)
    bench.add_argument("--threads", type=_positive, default=1)
    bench.add_argument("--runs", type=_positive, default=200)
    _add_shapes(bench)
    bench.add_argument("--profile", action="store_true", help="time each op as well")
    bench.add_argument(
        "--trace", type=Path, metavar="FILE.json", help="write a trace for Perfetto"
    )
    _add_bf16(bench)
    bench.add_argument("--no-optimize", action="store_true", help="run no graph passes")
    bench.add_argument("--json", action="store_true", help="print JSON")
    inspect = commands.add_parser("inspect", help="print the graph of a model")
    inspect.add_argument("model")
    optimize = commands.add_parser(
        "optimize", help="write a model after its graph passes"
    )
    optimize.add_argument("model")
    optimize.add_argument("output", type=Path)
    _add_passes(optimize)
    _add_bf16(optimize)
    compare = commands.add_parser(
        "compare", help="run two models on the same input and compare layer by layer"
    )
    compare.add_argument("first", help="the reference")
    compare.add_argument("second", help="may be the same, with --bf16")
    _add_bf16(compare)
    compare.add_argument("--batch", type=_positive, default=1)
    compare.add_argument("--seed", type=int, default=0, help="of the random input")
    compare.add_argument(
        "--input", type=Path, metavar="FILE.npz", help="arrays by the inputs' names"
    )
    compare.add_argument("--json", action="store_true", help="print JSON")
    _add_shapes(compare)
    encrypt = commands.add_parser("encrypt", help="write a model by AES-256-GCM")
    encrypt.add_argument("model")
    encrypt.add_argument("output", type=Path)
    encrypt.add_argument(
        "--key-file", type=Path, required=True, help="a file of 32 bytes"
    )
    score = _add_image_commands(commands)
    for command in (bench, inspect, optimize, compare, score):
        command.add_argument(
            "--operators",
            action="append",
            default=[],
            metavar="FILE.so",
            help="a library of operators in C++ that the model names",
        )
    where = commands.add_parser(
        "where",
        help="print the folder of headers, of the library or of CMake's package",
    )
    where.add_argument("what", choices=["include", "lib", "cmake"])
    return parser


def _add_image_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    images = commands.add_parser(
        "images", help="write images as the binary file that `accuracy` reads"
    )
    images.add_argument(
        "source", type=Path, help="a folder of a folder for each class, or FILE.npz"
    )
    images.add_argument("output", type=Path)
    images.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    images.add_argument("--size", type=_positive, default=224, help="of the crop")
    images.add_argument(
        "--resize", type=_positive, default=256, help="of the shorter edge before"
    )
    for name, default in (("--mean", MEAN), ("--std", STD)):
        images.add_argument(
            name, type=float, nargs=3, default=default, help="of values in [0, 1]"
        )
    score = commands.add_parser("accuracy", help="score a model on such a file")
    score.add_argument("model")
    score.add_argument("data", type=Path)
    score.add_argument("--batch", type=_positive, default=32)
    score.add_argument("--json", action="store_true", help="print JSON")
    _add_bf16(score)
    return score


def _add_shapes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--shape",
        action="append",
        default=[],
        type=_named_shape,
        metavar="NAME=1,3,224,224",
        help="the shape of one input (once for each)",
    )


def _add_passes(command: argparse.ArgumentParser) -> None:
    for kind, text in (("delete", "takes out"), ("append", "adds at the end")):
        command.add_argument(
            f"--{kind}-pass",
            action="append",
            default=[],
            metavar="NAME",
            help=f"{text} a graph pass (once for each)",
        )


def _add_bf16(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--bf16",
        action="store_true",
        help="compute in bfloat16 (of `compare` the second model)",
    )
    command.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NAME",
        help="with --bf16: an operator, or the name of an array, that stays in float32",
    )


def _config(model: str, options: argparse.Namespace) -> Config:
    config = Config(model)
    if options.bf16:
        config.enable_bf16(options.keep)
    return config


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
                f"[proa-infer] expected an input of the model in --shape "
                f"({', '.join(names)}), got {name!r}"
            )
    return [replace(s, shape=shapes[s.name]) if s.name in shapes else s for s in specs]


def _bench(options: argparse.Namespace) -> None:
    config = _config(options.model, options)
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
    if options.profile or options.trace:
        runs = [predictor.profile(inputs) for _ in range(min(options.runs, 20))]
        if options.trace:
            write_chrome_trace(options.trace, runs)
        if options.profile:
            print(profile_table(runs))


def _inspect(options: argparse.Namespace) -> None:
    from proa import ir

    print(ir.describe(options.model))


def _optimize(options: argparse.Namespace) -> None:
    from proa_inference.optimize import optimized_program, write_optimized

    config = _config(options.model, options)
    builder = config.pass_builder()
    for name in options.delete_pass:
        builder.delete_pass(name)
    for name in options.append_pass:
        builder.append_pass(name)
    write_optimized(optimized_program(config), config, options.output)


def _compare(options: argparse.Namespace) -> None:
    first, second = Config(options.first), _config(options.second, options)
    plain = Config(first)
    plain.switch_ir_optim(False)
    specs = _given_shapes(create_predictor(plain).get_input_specs(), options.shape)
    inputs = random_inputs(specs, options.batch, options.seed)
    if options.input is not None:
        with np.load(options.input, allow_pickle=False) as arrays:
            missing = [s.name for s in specs if s.name not in arrays]
            if missing:
                raise InvalidArgumentError(
                    f"[proa-infer] expected arrays {missing} in {options.input}, got "
                    f"{list(arrays)}"
                )
            inputs = [arrays[s.name] for s in specs]
    found = compare_models(first, second, inputs)
    if options.json:
        print(json.dumps([asdict(d) for d in found]))
    else:
        print(comparison_table(found))


def _encrypt(options: argparse.Namespace) -> None:
    key = files.read(options.key_file, where="proa-infer encrypt")
    encrypt_file(options.model, options.output, bytes(key))


def _images(options: argparse.Namespace) -> None:
    images, labels = load_images(
        options.source, options.size, options.resize, options.mean, options.std
    )
    write_image_data(options.output, images, labels, options.dtype)


def _accuracy(options: argparse.Namespace) -> None:
    images, labels = read_image_data(options.data)
    predictor = create_predictor(_config(options.model, options))
    shares = accuracy(predictor.run, images, labels, options.batch)
    if options.json:
        print(json.dumps({"images": len(images), **shares}))
    else:
        rates = ", ".join(f"{name} {share:.2%}" for name, share in shares.items())
        print(f"{len(images)} images: {rates}")


def _where(options: argparse.Namespace) -> None:
    print(Path(__file__).parent / options.what)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""

    def run() -> None:
        options = _parser().parse_args(argv)
        commands = {
            "bench": _bench, "inspect": _inspect, "optimize": _optimize,
            "compare": _compare, "encrypt": _encrypt, "where": _where,
            "images": _images, "accuracy": _accuracy,
        }  # fmt: skip
        for library in getattr(options, "operators", []):
            load_library(library)
        commands[options.command](options)

    return exit_code("proa-infer", run)


if __name__ == "__main__":
    raise SystemExit(main())
