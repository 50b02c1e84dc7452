"""An op's attributes as Python values and as the struct that C++ reads."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from proa.errors import InvalidArgumentError, VersionError
from proa.schema import ROWS, Attribute, Row
from proa.schema.dtypes import CODES
from proa.schema.extension import EXTENSION_ROWS, LISTS, unpack_struct
from proa.schema.flow import FLOW_ROWS

_NAMES = {code: name for name, code in CODES.items()}
_MAX_INTS = 8


def row_of(op: str) -> Row:
    """The operator's row; VersionError if neither this version of Proa nor a loaded
    extension has such an operator.
    """
    row = ROWS.get(op)
    if row is not None:
        return row
    row = FLOW_ROWS.get(op) or EXTENSION_ROWS.get(op)
    if row is None:
        raise VersionError(
            f"[ir] expected one of this version's {len(ROWS)} operators or one of a "
            f"loaded extension, got {op!r}"
        )
    return row


def draws(op: str, attrs: Mapping[str, Any]) -> bool:
    """Whether a call of the operator draws random numbers."""
    row = row_of(op)
    if not row.random or not row.draw_rate:
        return row.random
    default = row.attribute(row.draw_rate).default
    return bool(attrs.get(row.draw_rate, default) != 0)


def _normal(row: Row, attribute: Attribute, value: Any) -> Any:
    kind = attribute.type
    try:
        if kind == "int":
            return int(value)
        if kind == "float":
            return float(value)
        if kind == "bool":
            return bool(value)
        if kind == "ints":
            return None if value is None else tuple(int(v) for v in value)
        if kind == "text" and isinstance(value, str):
            return value
        if kind in LISTS:
            return tuple(LISTS[kind](v) for v in value)
        if kind == "scalar":
            return int(value) if isinstance(value, (bool, int)) else float(value)
        if kind == "dtype":
            name = str(getattr(value, "name", value)).rpartition(".")[2]
            if name in CODES:
                return name
        elif kind == "choice" and value in attribute.choices:
            return value
    except (TypeError, ValueError):
        pass
    raise InvalidArgumentError(
        f"[{row.name}] {attribute.name} must be {kind}"
        f"{' of ' + ', '.join(attribute.choices) if attribute.choices else ''}, "
        f"got {value!r}"
    )


def complete(op: str, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Every attribute of the op in row order, checked, with defaults filled in."""
    row = row_of(op)
    if not attrs and not row.attributes:
        return {}
    result: dict[str, Any] = {}
    found = 0
    for a in row.attributes:
        if a.name in attrs:
            found += 1
        elif a.required:
            raise InvalidArgumentError(f"[{op}] expected a value of {a.name}, got none")
        result[a.name] = _normal(row, a, attrs.get(a.name, a.default))
    if found != len(attrs):
        raise InvalidArgumentError(
            f"[{op}] attributes must be {[a.name for a in row.attributes]}, "
            f"got {sorted(set(attrs) - set(result))}"
        )
    return result


def attributes_key(attrs: Mapping[str, Any]) -> str:
    """The same for attributes that are the same: 1 is not 1.0, and 0.0 is not -0.0."""
    return repr(attrs) if attrs else ""


def _pack_one(a: Attribute, value: Any) -> bytes:
    if a.type == "float":
        return struct.pack("<d", value)
    if a.type == "ints":
        items = () if value is None else tuple(value)
        if len(items) > _MAX_INTS:
            raise InvalidArgumentError(
                f"[ir] {a.name} must have at most {_MAX_INTS} numbers, got {len(items)}"
            )
        count = -1 if value is None else len(items)
        return struct.pack("<9q", count, *items, *[0] * (_MAX_INTS - len(items)))
    if a.type == "scalar":
        if isinstance(value, int):
            return struct.pack("<qq", 1, value)
        return struct.pack("<qd", 0, value)
    if a.type == "dtype":
        return struct.pack("<q", CODES[value])
    if a.type == "choice":
        return struct.pack("<q", a.choices.index(value))
    return struct.pack("<q", value)


def pack(op: str, attrs: Mapping[str, Any]) -> bytes:
    """The op's attribute struct."""
    whole = complete(op, attrs)
    if row_of(op).kind == "extension":
        from proa import _core

        packed: bytes = _core.pack_extension(op, whole)
        return packed
    return b"".join(_pack_one(a, whole[a.name]) for a in row_of(op).attributes)


def _unpack_one(a: Attribute, raw: bytes) -> Any:
    if a.type == "float":
        return struct.unpack("<d", raw)[0]
    if a.type == "ints":
        count, *items = struct.unpack("<9q", raw)
        if not -1 <= count <= _MAX_INTS:
            raise InvalidArgumentError(
                f"[ir] {a.name} must have a count from -1 to 8, got {count}"
            )
        return None if count < 0 else tuple(items[:count])
    if a.type == "scalar":
        is_int = struct.unpack("<q", raw[:8])[0] != 0
        return struct.unpack("<q" if is_int else "<d", raw[8:])[0]
    number = struct.unpack("<q", raw)[0]
    if a.type == "dtype":
        if number not in _NAMES:
            raise InvalidArgumentError(f"[ir] {a.name} must be a dtype, got {number}")
        return _NAMES[number]
    if a.type == "choice":
        if not 0 <= number < len(a.choices):
            raise InvalidArgumentError(f"[ir] {a.name} must be a choice, got {number}")
        return a.choices[number]
    return bool(number) if a.type == "bool" else number


def unpack(op: str, raw: bytes) -> dict[str, Any]:
    """The attributes in a struct that may be of an earlier version of the row."""
    row = row_of(op)
    if row.kind == "extension":
        return complete(op, unpack_struct(row, raw))
    attrs: dict[str, Any] = {}
    at = 0
    for a in row.attributes:
        if at == len(raw):
            break
        if at + a.size > len(raw):
            raise InvalidArgumentError(f"[ir] attributes of {op} end inside {a.name}")
        attrs[a.name] = _unpack_one(a, raw[at : at + a.size])
        at += a.size
    if at != len(raw):
        raise VersionError(
            f"[ir] attributes of {op} must have at most {at} bytes, got {len(raw)}: "
            "a newer version of Proa wrote them"
        )
    return complete(op, attrs)
