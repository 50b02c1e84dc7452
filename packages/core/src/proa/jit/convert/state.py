"""What is known while one function is recorded."""

from __future__ import annotations

import threading
from types import CodeType
from typing import Any


class RecordingState(threading.local):
    """What a thread knows while it records.

    Attributes:
        depth: How many functions are being recorded, one by way of another.
        avals: The abstract values with which branches and loops were recorded, to begin
            with when they are retraced as a part of another.
        lost: Variables that a branch left without a value, each with the error to
            raise where it is read.
        logged: Code that was logged, if that was requested.
        has_effects: Whether what is printed and asserted is recorded.
        layers: By id, Layers that computed, with the attributes that they had.
        first: The code whose results are those of the recorded function.
        active: The Layers that are computing, the outermost first.
        failure: The error that left a Layer last, with the Layers that were active when
            it was raised.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.has_effects = True
        self.clear()

    def clear(self) -> None:
        """Forget."""
        self.avals: dict[Any, Any] = {}
        self.lost: dict[str, Exception] = {}
        self.logged: set[CodeType] = set()
        self.layers: dict[int, Any] = {}
        self.first: CodeType | None = None
        self.active: list[Any] = []
        self.failure: tuple[BaseException, tuple[Any, ...]] | None = None


recording_state = RecordingState()
