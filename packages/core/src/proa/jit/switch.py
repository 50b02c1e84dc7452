"""Whether static functions record, or run as the Python functions they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from proa.errors import InvalidTypeError
from proa.jit.convert import code_of, converted

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class _Switch:
    records: bool = True


switch = _Switch()


def enable_to_static(enable_to_static_bool: bool) -> None:
    """Let static functions record (the default), or run op by op, to be debugged.

    Args:
        enable_to_static_bool: Whether they record.

    Raises:
        InvalidTypeError: If it is not a bool.
    """
    _set(enable_to_static_bool)


def _set(records: bool) -> None:
    if not isinstance(records, bool):
        raise InvalidTypeError(
            f"[enable_to_static] the argument must be a bool, got {records!r}"
        )
    switch.records = records


@contextmanager
def as_functions() -> Iterator[None]:
    """Static functions run op by op within, so that hooks see arrays."""
    before, switch.records = switch.records, False
    try:
        yield
    finally:
        switch.records = before


def _function(where: str, given: Callable[P, R]) -> Callable[P, R]:
    """The function itself of a static one."""
    if not callable(given):
        raise InvalidTypeError(
            f"[{where}] dygraph_func must be a function, got {type(given).__name__}"
        )
    found: Callable[P, R] = getattr(given, "dygraph_function", given)
    return found


class ProgramTranslator:
    """The switch `enable_to_static` under the name that Paddle 2.0 gave it, and what is
    made of functions in order to record them.
    """

    @classmethod
    def get_instance(cls) -> ProgramTranslator:
        """A translator; all are one."""
        return cls()

    def enable(self, enable_to_static: bool) -> None:
        """Let static functions record, or run op by op."""
        _set(enable_to_static)

    def get_code(self, dygraph_func: Callable[..., object]) -> str:
        """The source of the function with its control flow converted.

        Raises:
            OSError: If the function has no source, as in an interactive session.
        """
        return code_of(_function("get_code", dygraph_func))

    def get_func(self, dygraph_func: Callable[P, R]) -> Callable[P, R]:
        """The function with its control flow converted."""
        result: Callable[P, R] = converted(_function("get_func", dygraph_func))
        return result

    def get_output(
        self, dygraph_func: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """What the converted function gives for these arguments."""
        if not switch.records:
            return dygraph_func(*args, **kwargs)
        return self.get_func(dygraph_func)(*args, **kwargs)
