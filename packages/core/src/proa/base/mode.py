"""Which mode programs are written in: dynamic (eager, the default) or static.

The mode is one flag of the process, as users of Paddle expect: it survives exceptions
and holds until it is switched again. Functions of tensors compute at once in either
mode; the flag says which kind of program is being built.
"""

from __future__ import annotations

from proa.base.device import Place, check_place

_static = False


def enable_static() -> None:
    """Switch to static mode, until `disable_static`."""
    global _static
    _static = True


def disable_static(place: Place | str | None = None) -> None:
    """Switch to dynamic mode, the default.

    Args:
        place: The device of tensors from now on; the CPU.
    """
    global _static
    check_place("disable_static", place)
    _static = False


def in_dynamic_mode() -> bool:
    """Whether the mode is dynamic."""
    return not _static
