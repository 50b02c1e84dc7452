"""Process-wide switches, by PaddlePaddle's names; `FLAGS_...` of the environment set
them too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from proa import _core
from proa.errors import InvalidArgumentError


def _truth(value: Any) -> Any:
    if isinstance(value, str):
        return value.lower() not in {"", "0", "false", "off"}
    return bool(value)


_APPLY: dict[str, Callable[[Any], Any]] = {
    "FLAGS_check_nan_inf": lambda value: _core.set_check_finite(_truth(value)),
}
_VALUES: dict[str, Any] = {"FLAGS_check_nan_inf": False}


def set_flags(flags: Mapping[str, Any]) -> None:
    """Set switches: ``set_flags({"FLAGS_check_nan_inf": True})``."""
    for name, value in flags.items():
        if name not in _VALUES:
            raise InvalidArgumentError(
                f"[set_flags] must be among {', '.join(_VALUES)}, got {name!r}"
            )
        _APPLY[name](value)
        _VALUES[name] = _truth(value)


def get_flags(names: str | Iterable[str]) -> dict[str, Any]:
    """The values of one or more switches, by name."""
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in _VALUES:
            raise InvalidArgumentError(
                f"[get_flags] must be among {', '.join(_VALUES)}, got {name!r}"
            )
    return {name: _VALUES[name] for name in wanted}


set_flags({name: os.environ[name] for name in _VALUES if name in os.environ})
