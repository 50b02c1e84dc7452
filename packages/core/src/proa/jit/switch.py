"""Whether static functions record, or run as the Python functions they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from proa.errors import InvalidTypeError


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


class ProgramTranslator:
    """The switch `enable_to_static` under the name that Paddle 2.0 gave it."""

    @classmethod
    def get_instance(cls) -> ProgramTranslator:
        """A translator; all are one."""
        return cls()

    def enable(self, enable_to_static: bool) -> None:
        """Let static functions record, or run op by op."""
        _set(enable_to_static)
