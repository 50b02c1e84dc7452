"""Functions that see, and may change, a gradient on its way."""

from __future__ import annotations

from collections.abc import Callable

from proa import _core
from proa._core import Tensor


class RemovableHook:
    """Takes a registered hook off again."""

    def __init__(self, tensor: Tensor, number: int) -> None:
        self._tensor, self._number = tensor, number

    def remove(self) -> bool:
        """True if the hook was still there."""
        removed: bool = _core.remove_hook(self._tensor, self._number)
        return removed


def register_hook(
    self: Tensor, hook: Callable[[Tensor], Tensor | None]
) -> RemovableHook:
    """Call `hook` with the tensor's gradient; what it returns, if anything, replaces
    it.
    """
    return RemovableHook(self, _core.add_hook(self, hook))


Tensor.register_hook = register_hook  # type: ignore[method-assign,assignment]
