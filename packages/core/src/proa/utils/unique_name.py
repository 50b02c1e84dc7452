"""Names that no other parameter or layer has: ``generate("fc")`` gives fc_0, fc_1, …"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from proa.base.naming import NameGenerator, fresh_names, switch_names, unique_name

__all__ = ["generate", "guard", "switch"]


def generate(key: str) -> str:
    """``key_N`` with the next N of that key."""
    return unique_name(key)


def switch(
    new_generator: NameGenerator | None = None, new_para_name_checker: Any = None
) -> NameGenerator:
    """Count with another generator from now on (a new one if None).

    Returns the generator so far, to switch back to.
    """
    return switch_names(new_generator)


def guard(
    new_generator: str | bytes | NameGenerator | None = None,
) -> AbstractContextManager[None]:
    """Count from 0 in a ``with`` block; a text is put before every name in it."""
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = NameGenerator(new_generator)
    return fresh_names(new_generator)
