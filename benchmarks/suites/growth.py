"""How time grows with the network: the exponent of each phase, which is to be 1.

Networks of n Linear + ReLU layers are recorded with their training step, optimised,
planned, saved, loaded and differentiated eagerly, for several n. The exponent is the
slope of the least-squares line through (log n, log seconds), of the fastest round of
each size.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import Case, Work

import proa
from proa import _core, nn
from proa.ir import Builder, Program, from_bytes, read, to_bytes, write
from proa.ir.passes import optimize

SIZES = (250, 500, 1000, 2000)
#: Of phases of less than 100 us a layer: so many that memory is beyond the caches
#: and comes from the system at every size.
LARGE = (2000, 4000, 8000, 16000)
WIDTH = 16
ROUNDS = 5
#: Times grow with at most this power of n.
GOAL = 1.1


def cases(torch: object | None) -> Iterator[Case]:
    """Every phase at every size; prints the exponents at the end."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for phase, prepare in _PHASES.items():
            times = []
            sizes = LARGE if phase in ("plan", "backward") else SIZES
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


def exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """The slope of the line through (log size, log seconds)."""
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)


def _chain(n: int) -> Program:
    random = np.random.default_rng(n)
    b = Builder()
    x = b.input("x", "float32", [-1, WIDTH])
    for i in range(n):
        w = random.standard_normal((WIDTH, WIDTH)).astype(np.float32)
        weight = b.parameter(f"{i}.weight", w)
        bias = b.parameter(f"{i}.bias", np.zeros(WIDTH, np.float32))
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
    return lambda: _core.Engine.from_bytes(raw, verify=False).run([x])


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
