"""Switching the tape off for a block, for code below `proa.autograd`."""

from __future__ import annotations

from proa import _core


class NoTape:
    """``with NoTape():`` notes nothing on the tape."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _core.set_grad_enabled(False)

    def __exit__(self, *args: object) -> None:
        _core.set_grad_enabled(self._before)
