"""Throws damaged ONNX and Paddle models at their readers.

    cd packages && python -m core.tests.fuzz.damaged_models --seconds 600 --seed 1

A model is read and recorded, as `proa convert` does it. What ends in another error than
one of `proa.errors`, takes too long, or ends the process is a finding: its file is
written to the folder and named. The exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import resource
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

import proa
from proa.errors import Error
from proa.interop import paddle
from proa.interop.paddle.exporter.save import save_program
from proa.interop.paddle.proto import parse

from ..interop.operator_models import main_dtype, programs, reasons, records

INTEROP = Path(__file__).parents[1] / "interop"
#: Bytes of a process, and of the largest model that is changed.
MEMORY, LARGEST = 6 << 30, 1 << 16
#: Seconds that a model may take.
TIME = 20
#: Sizes, indices and counts that files have no reason to have.
NUMBERS = (0, 1, -1, 2, 255, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63))

#: The parts of a model: the message, and parameters of a Paddle model.
Model = tuple[bytes, ...]


def onnx_models() -> Iterator[Model]:
    """ONNX's own cases."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    for case in cases:
        data = case.model.SerializeToString()
        if len(data) <= LARGEST:
            yield (data,)


def paddle_models() -> Iterator[Model]:
    """A program of each operator that is written."""
    listed = reasons(INTEROP / "paddle" / "not_saved.txt")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        for sample in records(listed):
            for _, _, _, program in programs(sample, main_dtype(sample), True, True):
                try:
                    save_program(program, path)
                except Error:
                    continue
                parts = [
                    path.with_suffix(s).read_bytes() for s in (".pdmodel", ".pdiparams")
                ]
                if max(map(len, parts)) <= LARGEST:
                    yield tuple(parts)
                break


def changed_bytes(data: bytes, other: bytes, rng: Generator) -> bytes:
    """Bytes replaced, removed, inserted, cut off, or taken from another model."""
    found = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(found) + 1))
        kind = int(rng.integers(5))
        if kind == 0 and at < len(found):
            found[at] = int(rng.integers(256))
        elif kind == 1:
            del found[at : at + int(rng.integers(1, 9))]
        elif kind == 2:
            found[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif kind == 3 and rng.random() < 0.2:
            del found[at:]
        else:
            start = int(rng.integers(len(other) + 1))
            length = int(rng.integers(1, 32))
            found[at : at + length] = other[start : start + length]
    return bytes(found)


def changed_fields(message: Any, rng: Generator) -> None:
    """Give a few fields of a message, or of those inside it, other values."""
    every = list(_fields(message))
    for at in rng.integers(0, len(every), int(rng.integers(1, 4))) if every else ():
        owner, field = every[int(at)]
        value = getattr(owner, field.name)
        try:
            if isinstance(value, (str, bytes, int, float)):
                setattr(owner, field.name, _another(value, every, rng))
            elif rng.random() < 0.3:
                owner.ClearField(field.name)
            elif rng.random() < 0.3:
                value.extend([value[int(rng.integers(len(value)))]])
            else:
                place = int(rng.integers(len(value)))
                if isinstance(value[place], (str, bytes, int, float)):
                    value[place] = _another(value[place], every, rng)
                else:
                    del value[place]
        except (ValueError, TypeError, AttributeError):  # out of the field's range
            continue


def _fields(message: Any) -> Iterator[tuple[Any, Any]]:
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            several = hasattr(value, "extend")
            for inner in value if several else [value]:
                yield from _fields(inner)


def _another(value: Any, every: list[tuple[Any, Any]], rng: Generator) -> Any:
    if isinstance(value, float):
        return float(rng.choice([0.0, -1.0, np.inf, np.nan, 1e30]))
    if isinstance(value, int):
        return int(NUMBERS[int(rng.integers(len(NUMBERS)))])
    others = [getattr(o, f.name) for o, f in every]
    alike = [o for o in others if type(o) is type(value)]
    kind = type(value)
    return alike[int(rng.integers(len(alike)))] if rng.random() < 0.8 else kind()


def damaged(model: Model, other: Model, rng: Generator) -> Model:
    """A model with something changed."""
    parts = list(model)
    at = int(rng.integers(len(parts))) if rng.random() < 0.3 else 0
    if at == 0 and rng.random() < 0.7:
        message = _parsed(model)
        changed_fields(message, rng)
        parts[0] = message.SerializePartialToString()
        if rng.random() < 0.8:
            return tuple(parts)
    parts[at] = changed_bytes(parts[at], other[at % len(other)], rng)
    return tuple(parts)


def _parsed(model: Model) -> Any:
    if len(model) == 2:
        return parse("ProgramDesc", model[0])
    import onnx

    return onnx.ModelProto.FromString(model[0])


def read(model: Model, target: Path) -> None:
    """Read a model and record it; errors of `proa.errors` are what may come of it."""
    try:
        if len(model) == 1:
            layer = proa.onnx.load(model[0])
        else:
            layer = paddle.load(None, None, *model)
        proa.jit.save(layer, target, layer.input_spec)
    except Error:
        return


def keep(folder: Path, model: Model, what: str) -> None:
    """Write the file of a finding."""
    for i, part in enumerate(model):
        (folder / f"{re.sub('[^0-9a-zA-Z.]+', '_', what)}.part{i}").write_bytes(part)


def attack(
    models: list[Model], seed: int, seconds: float, folder: Path, say: Any
) -> None:
    """Read damaged models for a time; each is in the folder before it is read."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rng, end, count = np.random.default_rng(seed), time.monotonic() + seconds, 0
    current = [folder / f"{seed}.part{i}" for i in range(2)]
    while time.monotonic() < end:
        first, second = (models[int(i)] for i in rng.integers(0, len(models), 2))
        model = damaged(first, second, rng)
        for path, part in zip(current, model, strict=False):
            path.write_bytes(part)
        if len(model) == 1:
            current[1].unlink(missing_ok=True)
        say.send(("start", count, None))
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                read(model, folder / f"{seed}.proa")
        except Exception as error:
            what = _summary(error)
            keep(folder, model, what)
            say.send(("finding", what, traceback.format_exc()))
        count += 1
    say.send(("end", count, None))


def _summary(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "/proa/" in f.filename] or frames
    return f"{type(error).__name__} at {Path(own[-1].filename).name}:{own[-1].lineno}"


def watch(
    models: list[Model], seed: int, seconds: float, folder: Path,
    report: Callable[[str, str], None],
) -> int:  # fmt: skip
    """Attack in processes of their own, a new one after a crash; how many were read."""
    end, total = time.monotonic() + seconds, 0

    def found(what: str) -> None:
        """Of the file that the process was reading."""
        parts = sorted(folder.glob(f"{seed}.part?"))
        keep(folder, tuple(part.read_bytes() for part in parts), what)
        report(what, "")

    while (left := end - time.monotonic()) > 0:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        given = (models, seed, left, folder, theirs)
        process = multiprocessing.get_context("fork").Process(target=attack, args=given)
        process.start()
        theirs.close()
        try:
            while True:
                if not ours.poll(TIME):
                    found(f"slower than {TIME} s, {seed}")
                    break
                kind, what, text = ours.recv()
                if kind == "finding":
                    report(what, text)
                elif kind == "end":
                    return total + int(what)
                else:
                    count = int(what)
        except EOFError:
            process.join()
            found(f"ended with {process.exitcode}, {seed}")
        process.kill()
        process.join()
        total, seed = total + count, seed + 1000
    return total


def main() -> int:
    """Run; the exit code is 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="for each reader")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    parser.add_argument("--folder", type=Path, default=Path("../build/fuzz/damaged"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    known: dict[str, int] = {}

    def report(what: str, text: str) -> None:
        known[what] = known.get(what, 0) + 1
        if known[what] == 1:
            print(f"{what}\n{text}", flush=True)

    for name, models in (("onnx", onnx_models()), ("paddle", paddle_models())):
        found = list(models)
        count = watch(found, options.seed, options.seconds, options.folder, report)
        print(f"{name}: {count} files damaged from {len(found)} models", flush=True)
    for what, times in known.items():
        print(f"{times:6d} {what}")
    return 1 if known else 0


if __name__ == "__main__":
    raise SystemExit(main())
