"""Rows of operators that extensions bring: made when an extension is loaded.

In a graph such an operator takes its tensors one after the other; the attribute
``input_counts`` says how many belong to each of its inputs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from proa.errors import InvalidArgumentError
from proa.schema.row import Array, Attribute, Row, graph_row

#: Rows by name; `proa.utils.cpp_extension` fills it.
EXTENSION_ROWS: dict[str, Row] = {}

#: Types of attributes that are lists -> what makes an element.
LISTS: dict[str, Callable[[Any], Any]] = {
    "list of int": int,
    "list of float": float,
    "list of text": str,
}


def add_row(
    name: str,
    outputs: Sequence[str],
    attributes: Sequence[tuple[str, str]],
    calls_python: bool = False,
    effect: bool = False,
) -> None:
    """Let graphs name the operator.

    Args:
        name: Name of the operator.
        outputs: Their names.
        attributes: (name, type); types: bool, int, float, text, or a list of the last
            three, as in `LISTS`.
        calls_python: See `graph_row`.
        effect: See `graph_row`.
    """
    EXTENSION_ROWS[name] = graph_row(
        name=name,
        arrays=(Array("inputs", optional=True, variadic=True),),
        attributes=(
            Attribute("input_counts", "list of int"),
            *(Attribute(name, kind) for name, kind in attributes),
        ),
        outputs=tuple(outputs),
        kind="extension",
        doc="An operator of an extension.",
        calls_python=calls_python,
        effect=effect,
    )


class _Reader:
    """Takes numbers off the front of bytes."""

    def __init__(self, where: str, raw: bytes) -> None:
        self.where, self.raw, self.at = where, raw, 0

    def take(self, form: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + form)
        if self.at + size > len(self.raw):
            raise InvalidArgumentError(
                f"[ir] expected complete attributes of {self.where}, got "
                f"{len(self.raw)} bytes"
            )
        found = struct.unpack_from("<" + form, self.raw, self.at)
        self.at += size
        return found

    def count(self, width: int) -> int:
        (count,) = self.take("I")
        if count * width > len(self.raw):
            raise InvalidArgumentError(
                f"[ir] attributes of {self.where} must fit their bytes, got {count}"
            )
        return int(count)

    def text(self) -> str:
        (length,) = self.take("q")
        if not 0 <= length <= len(self.raw):
            raise InvalidArgumentError(
                f"[ir] text of {self.where} must fit its bytes, got length {length}"
            )
        (raw,) = self.take(f"{length}s")
        self.at = (self.at + 7) // 8 * 8
        return str(raw, "utf-8", "replace")


def unpack_struct(row: Row, raw: bytes) -> dict[str, Any]:
    """Attributes from the bytes that a model file holds (see extension_abi.h)."""
    reader = _Reader(row.name, raw)
    reader.take("I")
    attrs: dict[str, Any] = {}
    for attribute in row.attributes:
        if attribute.name == "input_counts":
            count = reader.count(8)
            attrs[attribute.name] = reader.take(f"{count}q")
            continue
        (kind,) = reader.take("I")
        values: Sequence[Any]
        if kind == 3:
            values = [reader.text() for _ in range(reader.count(8))]
        else:
            count = reader.count(8)
            values = reader.take(f"{count}{'d' if kind == 2 else 'q'}")
        if attribute.type in LISTS:
            attrs[attribute.name] = tuple(values)
        elif len(values) == 1:
            attrs[attribute.name] = values[0]
        else:
            raise InvalidArgumentError(
                f"[ir] {attribute.name} of {row.name} must be one value, got "
                f"{len(values)}"
            )
    return attrs
