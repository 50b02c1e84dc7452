"""Chunks of tagged sequences, their rates, and distances of sequences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from proa.errors import InvalidArgumentError

#: Tags of a type in a scheme: those that begin a chunk, continue, end, are one alone.
_SCHEMES = {"IOB": "BI", "IOE": "IE", "IOBES": "BIES", "plain": "I"}


def chunks(
    tags: Sequence[Any], scheme: str, types: int, excluded: Collection[int] = ()
) -> set[tuple[int, int, int]]:
    """(begin, end, type) of each chunk.

    Args:
        tags: Tag k of type t is t * (number of tags of the scheme) + k; what is beyond
            is outside of chunks.
        scheme: IOB, IOE, IOBES or plain.
        types: The number of types.
        excluded: Types that are left out.

    Raises:
        InvalidArgumentError: If the scheme is another.
    """
    if scheme not in _SCHEMES:
        raise InvalidArgumentError(
            f"[chunk_eval] chunk_scheme must be one of {sorted(_SCHEMES)}, got "
            f"{scheme!r}"
        )
    kinds = _SCHEMES[scheme]
    found, begin, before = set(), 0, (types, "O")
    for place, tag in enumerate([*(int(t) for t in tags), types * len(kinds)]):
        kind, number = divmod(tag, len(kinds))
        now = (kind, kinds[number]) if kind < types else (types, "O")
        if before[0] != types and _ends(before, now, scheme):
            found.add((begin, place, before[0]))
            before = (types, "O")
        if before[0] == types:
            begin = place
        before = now
    return {chunk for chunk in found if chunk[2] not in excluded}


def _ends(before: tuple[int, str], now: tuple[int, str], scheme: str) -> bool:
    """Whether a chunk ends between two tags."""
    if before[0] != now[0]:
        return True
    if scheme == "IOE":
        return before[1] == "E"
    return now[1] in "BS" or before[1] in "ES"


def rates(inferred: int, wanted: int, right: int) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 where nothing is counted."""
    precision = right / inferred if inferred else 0.0
    recall = right / wanted if wanted else 0.0
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if right else 0.0


def edit_distance(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How many insertions, deletions and substitutions make a into b (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]
