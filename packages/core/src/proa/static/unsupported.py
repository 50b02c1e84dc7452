"""What builds graphs statement by statement, which this version does not do."""

from __future__ import annotations

from typing import NoReturn

from proa.errors import UnimplementedError


class NotThereError(UnimplementedError, AttributeError):
    """Also an AttributeError, so that `hasattr` says no."""


def refuse(name: str) -> NoReturn:
    """Say what to do instead of using ``proa.static.<name>``.

    Raises:
        NotThereError: Always.
    """
    raise NotThereError(
        f"[static.{name}] not supported: this version records graphs by "
        "proa.jit.to_static"
    )
