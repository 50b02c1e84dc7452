"""Mixed precision of graphs built statement by statement: what layers name of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["fp16_guard"]


@contextmanager
def fp16_guard() -> Iterator[None]:
    """Mark the part of a graph in which parameters may be halved.

    Only the optimizers of graphs built statement by statement read the mark, and those
    are not part of this version: eagerly, and in what `proa.jit.to_static` records,
    `proa.amp.auto_cast` says what is computed in half precision. Networks that have
    the mark in their ``forward`` run unchanged.
    """
    yield
