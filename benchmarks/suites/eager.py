"""The overhead of an operation: adds, a chain, a small step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import networks
import numpy as np
import workloads
from harness import Case

import proa
from suites import train


def cases(torch: object | None) -> Iterator[Case]:
    """Eager overhead against the peers in the same process."""
    yield _add(torch, grad=False)
    yield _add(torch, grad=True)
    yield from _small_calls(torch)
    yield _chain(torch)
    yield from _steps()


def _add(torch: object | None, *, grad: bool) -> Case:
    x, y = proa.ones([1]), proa.ones([1])
    x.stop_gradient = not grad
    contenders = {"proa": lambda: x + y}
    if torch is not None:
        a = torch.ones(1, requires_grad=grad)
        b = torch.ones(1)
        contenders["torch"] = lambda: a + b
    return Case("add1_grad" if grad else "add1", contenders, limit=0.5)


def _small_calls(torch: Any) -> Iterator[Case]:
    """One call each, on a matrix of 64 and on numbers."""
    array = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    x, k, one = proa.to_tensor(array), proa.ones([1024]), proa.ones([1])
    calls: dict[str, tuple[float, Callable[[], object]]] = {
        "add1k": (0.5, lambda: k + k),
        "index": (0.5, lambda: x[3]),
        "slice": (0.5, lambda: x[2:5, :3]),
        "mask": (1.0, lambda: x[x > 0]),
        "reshape": (0.5, lambda: x.reshape([32, 128])),
        "from_numpy": (0.5, lambda: proa.to_tensor(array)),
        "zeros": (1.0, lambda: proa.zeros([4])),
        "item": (0.5, lambda: one.item()),
        "concat": (1.0, lambda: proa.concat([one, one])),
        "sum": (1.0, lambda: k.sum()),
    }
    theirs: dict[str, Callable[[], object]] = {}
    if torch is not None:
        a, b, c = torch.tensor(array), torch.ones(1024), torch.ones(1)
        theirs = {
            "add1k": lambda: b + b,
            "index": lambda: a[3],
            "slice": lambda: a[2:5, :3],
            "mask": lambda: a[a > 0],
            "reshape": lambda: a.reshape([32, 128]),
            "from_numpy": lambda: torch.tensor(array),
            "zeros": lambda: torch.zeros([4]),
            "item": lambda: c.item(),
            "concat": lambda: torch.cat([c, c]),
            "sum": lambda: b.sum(),
        }
    for name, (limit, ours) in calls.items():
        contenders = {"proa": ours}
        if name in theirs:
            contenders["torch"] = theirs[name]
        yield Case(name, contenders, limit=limit)


def _chain(torch: object | None) -> Case:
    """Ten operations on 8 elements, forward and backward."""
    x = proa.ones([8])
    x.stop_gradient = False

    def ours() -> None:
        y = x
        for _ in range(5):
            y = (y * 1.01).tanh()
        y.sum().backward()
        x.clear_grad()

    contenders = {"proa": ours}
    if torch is not None:
        a = torch.ones(8, requires_grad=True)

        def theirs() -> None:
            b = a
            for _ in range(5):
                b = (b * 1.01).tanh()
            b.sum().backward()
            a.grad = None

        contenders["torch"] = theirs
    return Case("chain10_fb", contenders, limit=0.5)


def _steps() -> Iterator[Case]:
    """Training steps of nothing but overhead, and of a small network."""
    for name, network, shape, labels, limit in (
        ("tiny", networks.tiny, (4, 8), (4, 8), 0.5),
        ("mlp", networks.mlp, (64, 784), (64, 10), 1.0),
    ):
        # A compiled step has nothing of the overhead that the tiny network is for.
        known = ("proa", "torch", "paddle", *(["jax"] if name == "mlp" else []))
        for kind in ("sgd", "adam"):
            work = workloads.Workload(
                f"{name}_{kind}", network, workloads.images(*shape), labels, kind, 11,
                limit,
            )  # fmt: skip
            yield train.case(work, "fp32", proa.get_num_threads(), known, memory=False)
