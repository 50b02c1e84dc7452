"""Marks on the operators that are recorded within a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from proa.ir.record import marked_low


class _Casts(threading.local):
    #: What a marked block computes in besides, as a step is recorded.
    within: Callable[[], AbstractContextManager[Any]] = nullcontext


_casts = _Casts()


@contextmanager
def casting_where_marked(
    casts: Callable[[], AbstractContextManager[Any]],
) -> Iterator[None]:
    """While open, this thread enters such a context in every block of `fp16_guard`."""
    before, _casts.within = _casts.within, casts
    try:
        yield
    finally:
        _casts.within = before


@contextmanager
def fp16_guard() -> Iterator[None]:
    """Mark the operators recorded in the block as such that may run in 16 bits.

    `cast_model_to_fp16` rewrites these alone, unless set otherwise, and so does an
    optimizer of `decorate` that computes all in 16 bits. Eagerly, and for
    `proa.amp.auto_cast`, the mark means nothing.
    """
    with marked_low(), _casts.within():
        yield
