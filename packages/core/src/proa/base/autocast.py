"""The mixed precision of a thread: what the dispatcher last received."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

from proa import _core


class _State(threading.local):
    """(whether it is on, its 16-bit dtype, classes of ops that are not the rows')."""

    now: tuple[bool, Any, dict[str, str] | None] = (False, None, None)


_state = _State()


def current() -> tuple[Any, ...]:
    """What `switch` takes to come back to the present state."""
    return _state.now


def switch(state: tuple[Any, ...]) -> None:
    """Compute as in a state that `current` gave."""
    _core.set_autocast(*state)
    _state.now = state


def key() -> Hashable:
    """Equal for states in which ops compute alike."""
    on, dtype, classes = _state.now
    if not on:
        return None
    return dtype.name, None if classes is None else frozenset(classes.items())
