"""What an importer admits of files that anybody may have made."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from proa.errors import Error, InvalidArgumentError

#: Graphs and functions that may be nested.
_DEPTH = 32
#: Nodes of a model, those of functions each time they are called.
_NODES = 1_000_000

#: Rounds of a loop that are recorded one by one, where their number is known.
UNROLLED = 1024

#: What code raises when a message says something else than it may.
DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Limits:
    """Counts what a model has.

    Args:
        where: The caller, for errors.
    """

    def __init__(self, where: str) -> None:
        self._where, self._nodes = where, 0

    def add_node(self) -> None:
        """Count a node."""
        self._nodes += 1
        if self._nodes > _NODES:
            raise InvalidArgumentError(
                f"[{self._where}] expected at most {_NODES} nodes, got more"
            )

    def check_depth(self, depth: int) -> None:
        """Refuse graphs nested too deeply."""
        if depth > _DEPTH:
            raise InvalidArgumentError(
                f"[{self._where}] expected at most {_DEPTH} graphs or functions inside "
                "one another"
            )


@contextmanager
def damaged_as_invalid(where: str, what: str) -> Iterator[None]:
    """Make an `InvalidArgumentError` of whatever a damaged message raises."""
    try:
        yield
    except (Error, OSError):
        raise
    except (*DAMAGE, RecursionError, struct.error) as error:
        raise InvalidArgumentError(
            f"[{where}] expected a sound {what}, got {type(error).__name__}: {error}"
        ) from None
