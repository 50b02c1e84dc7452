"""Which program statements go to, and how static mode begins and ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from proa.base.mode import set_static_builder
from proa.errors import InvalidTypeError
from proa.ir.record import set_static_recorder
from proa.static.program import Program
from proa.static.recorder import ProgramRecorder
from proa.static.state import Builder


class _Current(threading.local):
    """The guards that a thread is in, the innermost last."""

    def __init__(self) -> None:
        self.programs: list[tuple[Program, Program]] = []


_current = _Current()
#: The programs that statements outside all guards go to.
_outermost = (Program(), Program())


def _pair() -> tuple[Program, Program]:
    return _current.programs[-1] if _current.programs else _outermost


def default_main_program() -> Program:
    """The program that this thread's statements go to."""
    return _pair()[0]


def default_startup_program() -> Program:
    """The program that initialises the Variables that are made now."""
    return _pair()[1]


@contextmanager
def program_guard(
    main_program: Program, startup_program: Program | None = None
) -> Iterator[None]:
    """While open, this thread's statements go to another program.

    Args:
        main_program: The program that they go to.
        startup_program: What initialises the Variables made; the same as before if
            None.

    Raises:
        InvalidTypeError: If one is no Program.
    """
    startup = default_startup_program() if startup_program is None else startup_program
    for name, program in (("main_program", main_program), ("startup_program", startup)):
        if not isinstance(program, Program):
            raise InvalidTypeError(
                f"[static.program_guard] {name} must be a Program, got "
                f"{type(program).__name__}"
            )
    _current.programs.append((main_program, startup))
    try:
        yield
    finally:
        _current.programs.pop()


def _recorder() -> ProgramRecorder:
    return default_main_program().recorder


def _switch(on: bool) -> None:
    set_static_recorder(_recorder if on else None)


set_static_builder(Builder(default_main_program, default_startup_program), _switch)
