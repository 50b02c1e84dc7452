"""`auto_cast`: ops of a block compute in 16 bits where that is fast and safe."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any

from proa.amp.lists import classes
from proa.base.autocast import current, switch
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike

LEVELS = ("O0", "O1", "O2")


def check_level(where: str, level: Any) -> None:
    """Raise unless ``level`` is a level of mixed precision."""
    if level not in LEVELS:
        raise InvalidArgumentError(
            f"[{where}] level must be one of {', '.join(LEVELS)}, got {level!r}"
        )


def low_dtype(where: str, dtype: Any) -> Any:
    """The 16-bit dtype of that name."""
    found = as_dtype(dtype)
    if found.name not in ("float16", "bfloat16"):
        raise InvalidArgumentError(
            f"[{where}] dtype must be float16 or bfloat16, got {dtype!r}"
        )
    return found


class auto_cast(ContextDecorator):
    """Compute in 16 bits inside a ``with`` block (or a decorated function).

    At O1 matrix products and convolutions take 16-bit copies of float32 arrays; sums,
    exponentials, losses and what has no 16-bit kernel take float32 ones; other ops take
    what they are given. At O2 all arithmetic but that of the second kind is done in 16
    bits. Gradients are computed as the forward pass was, whether in the block or not.

    Args:
        enable: False leaves everything as it is.
        custom_white_list: Operators (PaddlePaddle's names or the rows') to compute in
            16 bits.
        custom_black_list: Operators to compute in float32.
        level: "O0" (off), "O1" or "O2".
        dtype: "float16" or "bfloat16".
        use_promote: Kept for callers; unlike dtypes always meet in the wider.
    """

    def __init__(
        self,
        enable: bool = True,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        level: str = "O1",
        dtype: DTypeLike = "float16",
        use_promote: bool = True,
    ) -> None:
        check_level("auto_cast", level)
        low = low_dtype("auto_cast", dtype)
        self._wanted: tuple[Any, ...] = (False, None, None)
        if enable and level != "O0":
            own = classes("auto_cast", level, custom_white_list, custom_black_list)
            self._wanted = (True, low, own)
        self._before: list[tuple[Any, ...]] = []

    def __enter__(self) -> None:
        self._before.append(current())
        switch(self._wanted)

    def __exit__(self, *error: object) -> None:
        switch(self._before.pop())


amp_guard = auto_cast
