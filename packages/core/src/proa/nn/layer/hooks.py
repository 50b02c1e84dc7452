"""Functions that are called around a layer's."""

from __future__ import annotations

from typing import Any


class HookHandle:
    """What registering a hook returns; `remove` takes the hook out."""

    _next = 0

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks, self._id = hooks, HookHandle._next
        HookHandle._next += 1
        hooks[self._id] = hook

    def remove(self) -> None:
        """Take the hook out."""
        self._hooks.pop(self._id, None)
