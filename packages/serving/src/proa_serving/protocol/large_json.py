"""Parses large JSON in chunks, so that other threads run meanwhile.

``json.loads`` holds Python's lock until it is done, which for a body of some megabytes
is long enough to fail a health check, and makes objects of every number. Here lists of
numbers are parsed a chunk at a time, each by ``json``; the ``data`` of tensors become
arrays at once.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from proa_serving.protocol.messages import Array

MAX_DEPTH = 64
# Each tensor of a request is an object or a few.
MAX_OBJECTS = 4096
_CHUNK = 2**15
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBERS = re.compile(r"[-+0-9.eE, \t\r\n\[\]]*")
_BRACKETS = re.compile(r"[\[\]]")
_decode = json.JSONDecoder().raw_decode


def parse_large_json(text: str) -> Any:
    """What ``json.loads`` makes of ``text``, but for ``data``, which may be an array.

    Raises:
        ValueError: If it is not JSON, is nested deeper than ``MAX_DEPTH``, or holds
            more than ``MAX_OBJECTS`` objects.
    """
    parser = _Parser(text)
    value, end = parser.value(0, 0, numbers=False)
    if parser.skip(end) != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._objects = 0

    def skip(self, at: int) -> int:
        """The position of what follows the white space at ``at``."""
        found = _SPACE.match(self._text, at)
        assert found is not None  # it matches nothing, too
        return found.end()

    def value(self, at: int, depth: int, *, numbers: bool) -> tuple[Any, int]:
        """The value at ``at`` and the position after it."""
        at = self.skip(at)
        kind = self._text[at : at + 1]
        if kind in ("{", "[") and depth == MAX_DEPTH:
            raise ValueError(f"must be nested at most {MAX_DEPTH} deep")
        if kind == "{":
            return self._object(at + 1, depth + 1)
        if kind == "[":
            return self._array(at + 1, depth + 1, numbers)
        return _decode(self._text, at)

    def _next(self, at: int, end: str) -> tuple[bool, int]:
        """Whether a comma follows and not ``end``, and the position after it."""
        at = self.skip(at)
        found = self._text[at : at + 1]
        if found not in (",", end):
            raise json.JSONDecodeError(f"Expecting ',' or '{end}'", self._text, at)
        return found == ",", at + 1

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        self._objects += 1
        if self._objects > MAX_OBJECTS:
            raise ValueError(f"must hold at most {MAX_OBJECTS} objects")
        held: dict[str, Any] = {}
        start = self.skip(at)
        if self._text[start : start + 1] == "}":
            return held, start + 1
        more = True
        while more:
            at = self.skip(at)
            if self._text[at : at + 1] != '"':
                raise json.JSONDecodeError("Expecting a name", self._text, at)
            key, at = _decode(self._text, at)
            at = self.skip(at)
            if self._text[at : at + 1] != ":":
                raise json.JSONDecodeError("Expecting ':'", self._text, at)
            held[key], at = self.value(at + 1, depth, numbers=key == "data")
            more, at = self._next(at, "}")
        return held, at

    def _array(
        self, at: int, depth: int, numbers: bool
    ) -> tuple[list[Any] | Array, int]:
        start = self.skip(at)
        if self._text[start : start + 1] == "]":
            return [], start + 1
        items: list[Any] = []
        chunks: list[Array] = []
        more = True
        while more:
            cut = self._cut(at, depth)
            if cut > at:
                found = json.loads(f"[{self._text[at:cut]}]")
                if numbers and not items:
                    chunks.append(_array_of(found))
                else:
                    items += found
                at = cut
            else:
                value, at = self.value(at, depth, numbers=numbers)
                items.append(value)
            more, at = self._next(at, "]")
        if not chunks:
            return items, at
        if items:
            chunks.append(_array_of(items))
        return _joined(chunks), at

    def _cut(self, at: int, depth: int) -> int:
        """Where a chunk of whole elements of numbers ends that starts at ``at``."""
        found = _NUMBERS.match(self._text, at, at + _CHUNK)
        assert found is not None  # it matches nothing, too
        end, inner, cut = found.end(), 0, at
        # Brackets are rare or regular; an element ends at a comma where all are closed.
        for bracket in _BRACKETS.finditer(self._text, at, end):
            if bracket.group() == "[":
                inner += 1
                if depth + inner > MAX_DEPTH:
                    raise ValueError(f"must be nested at most {MAX_DEPTH} deep")
            elif inner:
                inner -= 1
                if not inner:
                    cut = bracket.end()
            else:  # of this array: the elements end here
                return bracket.start()
        if inner or cut > at:
            return cut
        return max(at, self._text.rfind(",", at, end))


def _array_of(items: list[Any]) -> Array:
    try:
        return np.array(items)
    except (ValueError, OverflowError):
        raise ValueError("data must be a regular list") from None


def _joined(chunks: list[Array]) -> Array:
    """One array of ``chunks``, of the type that NumPy finds for all numbers at once."""
    if len(chunks) == 1:
        return chunks[0]
    if len({chunk.shape[1:] for chunk in chunks}) > 1:
        raise ValueError("data must be a regular list")
    kinds = {chunk.dtype.kind for chunk in chunks}
    if kinds == {"i", "u"} and all(
        chunk.min() >= 0 for chunk in chunks if chunk.dtype.kind == "i"
    ):
        return np.concatenate([chunk.astype(np.uint64) for chunk in chunks])
    return np.concatenate(chunks)
