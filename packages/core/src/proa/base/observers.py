"""What wants to know of the calls of Layers: the profiler, the search for NaN."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

#: Each is asked, with the Layer, for a context that is open while the Layer computes.
layer_observers: list[Callable[[Any], AbstractContextManager[Any]]] = []
