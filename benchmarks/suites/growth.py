"""How time grows with the network: the exponent of each phase, which is to be 1.

Networks of n Linear + ReLU layers are recorded with their training step, optimised,
planned, saved, loaded and differentiated eagerly, for several n. The exponent is the
slope of the least-squares line through (log n, log seconds), of the fastest round of
each size.

A model of 3.4 GB of weights is saved and made a predictor, next to a plain write of as
many bytes to a new file, synced to the disk, and a plain read.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import Case, Work

import proa
from proa import nn
from proa.ir import Builder, Program, from_bytes, read, to_bytes, write
from proa.ir.file import to_parts
from proa.ir.passes import optimize
from proa.runtime import engine_from_bytes

#: Numbers of layers. What a phase touches is beyond the caches at every size: of
#: smaller networks the exponent would be that of the caches.
SIZES = (2000, 4000, 8000)
PLANNED = (32000, 64000, 128000)
DIFFERENTIATED = (8000, 16000, 32000)
WIDTH = 16
ROUNDS = 5
#: The model of 3.4 GB: layers, and the width of each.
HEAVY, HEAVY_WIDTH = 53, 4096
HEAVY_ROUNDS = 3
#: The model, the bytes of its file and the prepacked weights, with room to spare.
HEAVY_MEMORY = 12e9
#: Times grow with at most this power of n.
GOAL = 1.1


def cases(torch: object | None) -> Iterator[Case]:
    """Every phase at every size; prints the exponents at the end."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for phase, prepare in _PHASES.items():
            times = []
            sizes = _SIZES.get(phase, SIZES)
            for n in sizes:
                # One call each time: what is recorded or optimised once stays so.
                case = Case(
                    f"{phase} {n} layers", {"proa": prepare(n, Path(folder))},
                    rounds=ROUNDS, slice_seconds=0.0,
                )  # fmt: skip
                yield case
                times.append(min(case.times["proa"]))
            found = exponent(sizes, times)
            verdict = "" if found <= GOAL else f", more than {GOAL}"
            lines.append(f"{phase:8} grows as n^{found:.2f}{verdict}")
        print("\n".join(lines), flush=True)
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if free >= HEAVY_MEMORY:
            yield from _heavy(Path(folder))


def _heavy(folder: Path) -> Iterator[Case]:
    from proa_inference import Config, create_predictor

    path, copy = folder / "heavy.proa", folder / "copy"
    saved = [_chain(HEAVY, HEAVY_WIDTH)]
    yield Case(
        "save 3.4 GB", {"proa": lambda: write(saved[0], path),
                        "plain write": lambda: _write(copy, to_parts(saved[0]))},
        rounds=HEAVY_ROUNDS, slice_seconds=0.0,
    )  # fmt: skip
    saved.clear()
    yield Case(
        "load 3.4 GB", {"proa": lambda: create_predictor(Config(str(path))),
                        "plain read": lambda: np.fromfile(copy, np.uint8)},
        rounds=HEAVY_ROUNDS, slice_seconds=0.0,
    )  # fmt: skip


def _write(path: Path, parts: tuple[bytes, list[bytes | memoryview]]) -> None:
    new = path.with_suffix(".new")
    with new.open("wb", buffering=0) as file:
        file.write(parts[0])
        for part in parts[1]:
            file.write(part)
        os.fsync(file.fileno())
    new.replace(path)


def exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """The slope of the line through (log size, log seconds)."""
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)


def _chain(n: int, width: int = WIDTH) -> Program:
    random = np.random.default_rng(n)
    b = Builder()
    x = b.input("x", "float32", [-1, width])
    for i in range(n):
        w = random.standard_normal((width, width), np.float32)
        weight = b.parameter(f"{i}.weight", w)
        bias = b.parameter(f"{i}.bias", np.zeros(width, np.float32))
        x = b.relu(b.linear(x, weight, bias))
    b.output(x)
    return b.program


def _network(n: int) -> nn.Sequential:
    layers: list[Any] = []
    for _ in range(n):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers)


def _record(n: int, folder: Path) -> Work:
    net = _network(n)
    optimizer = proa.optimizer.Momentum(parameters=net.parameters())
    x = proa.ones([4, WIDTH])

    def first_call() -> None:
        def step(x: proa.Tensor) -> proa.Tensor:
            loss = net(x).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss

        proa.jit.to_static(step)(x)

    return first_call


def _optimize(n: int, folder: Path) -> Work:
    raw = to_bytes(_chain(n))
    programs = [from_bytes(raw) for _ in range(ROUNDS + 2)]
    return lambda: optimize(programs.pop())


def _plan(n: int, folder: Path) -> Work:
    raw = to_bytes(_chain(n))
    x = np.ones((4, WIDTH), np.float32)
    return lambda: engine_from_bytes(raw).run([x])


def _save(n: int, folder: Path) -> Work:
    program = _chain(n)
    return lambda: write(program, folder / f"save-{n}.proa")


def _load(n: int, folder: Path) -> Work:
    path = folder / f"load-{n}.proa"
    write(_chain(n), path)
    return lambda: read(path)


def _backward(n: int, folder: Path) -> Work:
    net = _network(n)
    x = proa.ones([4, WIDTH])
    losses = [net(x).mean() for _ in range(ROUNDS + 2)]
    return lambda: losses.pop().backward()


_PHASES: dict[str, Callable[[int, Path], Work]] = {
    "record": _record,
    "optimize": _optimize,
    "plan": _plan,
    "save": _save,
    "load": _load,
    "backward": _backward,
}
_SIZES = {"plan": PLANNED, "backward": DIFFERENTIATED}
