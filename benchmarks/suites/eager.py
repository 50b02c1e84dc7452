"""What an operation costs beside its arithmetic: adds, a chain, a small step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness import Case

import proa


def cases(torch: object | None) -> Iterator[Case]:
    """Eager overhead against PyTorch in the same process."""
    yield _add(torch, grad=False)
    yield _add(torch, grad=True)
    yield from _small_calls(torch)
    yield _chain(torch)
    yield _tiny_step(torch, "SGD")
    yield _tiny_step(torch, "Adam")
    yield _mlp_step(torch)


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


def _tiny_step(torch: object | None, name: str) -> Case:
    """Three linear layers of 8, batch 4: nothing but overhead."""
    data = np.random.default_rng(0).standard_normal((4, 8), np.float32)
    net = proa.nn.Sequential(*(proa.nn.Linear(8, 8) for _ in range(3)))
    optimizer = getattr(proa.optimizer, name)(1e-3, parameters=net.parameters())
    x = proa.to_tensor(data)

    def ours() -> None:
        net(x).mean().backward()
        optimizer.step()
        optimizer.clear_grad()

    contenders = {"proa": ours}
    if torch is not None:
        nn = torch.nn
        peer = nn.Sequential(*(nn.Linear(8, 8) for _ in range(3)))
        step = getattr(torch.optim, name)(peer.parameters(), lr=1e-3)
        a = torch.from_numpy(data)

        def theirs() -> None:
            step.zero_grad()
            peer(a).mean().backward()
            step.step()

        contenders["torch"] = theirs
    return Case(f"tiny_{name.lower()}", contenders, limit=0.5)


def _mlp_step(torch: object | None) -> Case:
    """784-512-512-10, batch 64, cross-entropy and Adam."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((64, 784), np.float32)
    label = rng.integers(0, 10, 64)
    net = proa.nn.Sequential(
        proa.nn.Linear(784, 512),
        proa.nn.ReLU(),
        proa.nn.Linear(512, 512),
        proa.nn.ReLU(),
        proa.nn.Linear(512, 10),
    )
    adam = proa.optimizer.Adam(learning_rate=1e-3, parameters=net.parameters())
    x, y = proa.to_tensor(data), proa.to_tensor(label)

    def ours() -> None:
        proa.nn.functional.cross_entropy(net(x), y).backward()
        adam.step()
        adam.clear_grad()

    contenders = {"proa": ours}
    if torch is not None:
        nn = torch.nn
        peer = nn.Sequential(
            nn.Linear(784, 512),
            nn.ReLU(),
            nn.Linear(512, 512),
            nn.ReLU(),
            nn.Linear(512, 10),
        )
        step = torch.optim.Adam(peer.parameters(), lr=1e-3)
        a, b = torch.from_numpy(data), torch.from_numpy(label)

        def theirs() -> None:
            step.zero_grad()
            nn.functional.cross_entropy(peer(a), b).backward()
            step.step()

        contenders["torch"] = theirs
    return Case("mlp_adam", contenders, limit=1.0)
