"""What tests of passes and of the engine do with the program of a Builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from proa import _core
from proa.ir import Builder, to_bytes, verify
from proa.ir.passes import apply


def drawn_from(seed: int) -> Callable[..., np.ndarray]:
    """Draws normal float32 arrays of given sizes, one after another."""
    random = np.random.default_rng(seed)
    return lambda *shape: random.standard_normal(shape).astype(np.float32)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    """The same normal float32 array for the same seed."""
    return drawn_from(seed)(*shape)


def load(b: Builder, **options: Any) -> Any:
    """An engine of the program."""
    verify(b.program)
    return _core.Engine.from_bytes(to_bytes(b.program), **options)


def results(b: Builder, *given: np.ndarray) -> np.ndarray:
    """The first output of the program."""
    return np.array(load(b).run(list(given))[0])


def ops(b: Builder) -> list[str]:
    """The names of the program's operators."""
    return [n.op for n in b.program.main.nodes]


def rewrite(b: Builder, *names: str) -> bool:
    """Whether these passes change the program, which is valid before and after."""
    verify(b.program)
    changed = apply(b.program, [*names, "remove_dead_code"])
    verify(b.program)
    return changed
