"""The log of `to_static`: nothing, unless requested."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proa.errors import InvalidArgumentError
from proa.ir.program import Program

_logger = logging.getLogger("proa.jit")


def _level(name: str, level: Any) -> int:
    if isinstance(level, bool) or not isinstance(level, int):
        raise InvalidArgumentError(f"[{name}] level must be an int, got {level!r}")
    return level


def _of_environment(name: str) -> int:
    text = os.environ.get(name, "0")
    return int(text) if text.lstrip("-").isdigit() else 0


@dataclass
class _Settings:
    verbosity: int = _of_environment("TRANSLATOR_VERBOSITY")
    code_level: int = _of_environment("TRANSLATOR_CODE_LEVEL")
    to_stdout: bool = False


_settings = _Settings()


def set_verbosity(level: int = 0, also_to_stdout: bool = False) -> None:
    """Log what is recorded: 0 nothing, 1 each recording, 3 also where each op comes
    from.

    Messages go to the logger ``proa.jit``. The variable TRANSLATOR_VERBOSITY of the
    environment gives the first level.

    Args:
        level: What to log.
        also_to_stdout: Whether to print messages, too.
    """
    _settings.verbosity = _level("set_verbosity", level)
    _settings.to_stdout = bool(also_to_stdout)


def set_code_level(level: int = 100, also_to_stdout: bool = False) -> None:
    """Log functions as they were converted to be recorded, and the program that each
    recording gives, as text, if level is above 0.

    Messages go to the logger ``proa.jit``. The variable TRANSLATOR_CODE_LEVEL of the
    environment gives the first level.

    Args:
        level: Functions are converted in one step, so that all levels above 0 are
            equal.
        also_to_stdout: Whether to print messages, too.
    """
    _settings.code_level = _level("set_code_level", level)
    _settings.to_stdout = bool(also_to_stdout)


def log_code(function: Callable[..., Any], code: Callable[[], str]) -> None:
    """Log the function as it was rewritten to be recorded, if that was requested."""
    if _settings.code_level > 0:
        _emit([f"code of {_name_of(function)}:\n{code()}"])


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _emit(lines: list[str]) -> None:
    for line in lines:
        # Shown whatever the levels of the application's own loggers: it was requested.
        _logger.log(max(_logger.getEffectiveLevel(), logging.INFO), line)
        if _settings.to_stdout:
            print(line, file=sys.stdout)


def log_recording(function: Callable[..., Any], program: Program) -> None:
    """Log a recording of the function, in the requested detail."""
    if _settings.verbosity <= 0 and _settings.code_level <= 0:
        return
    name, nodes = _name_of(function), program.main.nodes
    lines = []
    if _settings.verbosity > 0:
        inputs = ", ".join(str(v) for v in program.main.inputs)
        lines.append(f"recorded {name}({inputs}): {len(nodes)} ops")
    if _settings.verbosity > 2:
        lines += [f"{n.op}: {n.line or 'of the gradient'}" for n in nodes]
    if _settings.code_level > 0:
        lines.append(f"program of {name}:\n{program}")
    _emit(lines)
