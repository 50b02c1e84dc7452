"""Names that no other parameter or layer has: ``generate("fc")`` gives fc_0, fc_1, …"""

import contextlib as _contextlib

from proa.base import naming as _naming

__all__ = ["generate", "guard", "switch"]


def __dir__() -> list[str]:
    return __all__


def generate(key: str) -> str:
    """``key_N`` with the next N of that key."""
    return _naming.unique_name(key)


def switch(
    new_generator: _naming.NameGenerator | None = None,
    new_para_name_checker: object = None,
) -> _naming.NameGenerator:
    """Count with another generator from now on (a new one if None).

    Returns the generator so far, to switch back to.
    """
    return _naming.switch_names(new_generator)


def guard(
    new_generator: str | bytes | _naming.NameGenerator | None = None,
) -> _contextlib.AbstractContextManager[None]:
    """Count from 0 in a ``with`` block; a text is put before every name in it."""
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = _naming.NameGenerator(new_generator)
    return _naming.fresh_names(new_generator)
