"""Marks on the operators that are recorded within a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from proa.ir.record import marked_low


@contextmanager
def fp16_guard() -> Iterator[None]:
    """Mark the operators recorded in the block as such that may run in 16 bits.

    `cast_model_to_fp16` rewrites these alone, unless told otherwise. Eagerly, and for
    `proa.amp.auto_cast`, the mark means nothing.
    """
    with marked_low():
        yield
