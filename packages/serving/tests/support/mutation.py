"""Random edits of bytes, for messages that are broken on purpose."""

from __future__ import annotations

import random
from collections.abc import Sequence


def mutate(
    rng: random.Random,
    message: bytes,
    inserts: Sequence[bytes],
    *,
    edits: int,
    reach: int,
    longest: int,
    truncates: bool,
) -> bytes:
    """A copy of ``message`` with fewer than ``edits`` edits, never empty.

    Args:
        rng: Draws the edits.
        message: Not empty.
        inserts: What may be inserted besides random bytes.
        edits: One more than the largest number of edits.
        reach: They begin within so many bytes of the start.
        longest: One more than the bytes that an edit deletes at most.
        truncates: Whether the end may be cut off too.
    """
    data = bytearray(message)
    for _ in range(rng.randrange(edits)):
        at = rng.randrange(min(len(data), reach))
        kind = rng.randrange(4 + truncates)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randrange(1, longest)]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 3:
            data[at:at] = rng.choice(inserts)
        else:
            del data[rng.randrange(1, len(data) + 1) :]
        data = data or bytearray(b"x")
    return bytes(data)
