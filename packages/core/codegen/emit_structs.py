"""attrs/<family>.h (attribute structs), attrs.h (all of them) and op_ids.h."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rows import attrs_type, camel

if TYPE_CHECKING:
    from proa.schema.row import Attribute, Row


def dtype_code(name: str) -> int:
    """The number of a dtype in files and in C++."""
    from proa.schema.dtypes import CODES

    return CODES[name]


def _field(attribute: Attribute) -> str:
    types = {"float": "double", "ints": "Ints", "scalar": "Scalar"}
    kind = types.get(attribute.type, "int64_t")
    return f"  {kind} {attribute.name}{{{_default(attribute)}}};"


def _default(attribute: Attribute) -> str:
    value = attribute.default
    if attribute.type == "ints":
        if value is None:
            return "" if attribute.required else "-1, {}"
        return f"{len(value)}, {{{', '.join(map(str, value))}}}"
    if attribute.type == "scalar":
        return "" if value is None else f"1, {{{value}}}"
    if value is None:
        return ""
    if attribute.type == "choice":
        return str(attribute.choices.index(value))
    if attribute.type == "dtype":
        return str(dtype_code(value))
    if attribute.type == "float":
        return repr(float(value))
    return str(int(value))


def _struct(row: Row) -> str:
    lines = [f"struct {attrs_type(row)} {{"]
    lines += [_field(a) for a in row.attributes]
    for a in row.attributes:
        for i, choice in enumerate(a.choices):
            lines.append(
                f"  static constexpr int64_t k{camel(a.name)}{camel(choice)} = {i};"
            )
    lines.append("};")
    size = sum(a.size for a in row.attributes)
    lines.append(f"static_assert(sizeof({attrs_type(row)}) == {size});")
    return "\n".join(lines)


def attrs_headers(rows: Iterable[Row]) -> dict[str, str]:
    """File name to text: the structs of each family, and attrs.h with all families.

    A kernel includes those of its family, so that a new row compiles few files again.
    """
    structs: dict[str, list[str]] = {}
    for row in rows:
        if row.attributes:
            structs.setdefault(row.family, []).append(_struct(row))
    files = {f"attrs/{name}.h": _header(texts) for name, texts in structs.items()}
    lines = "\n".join(f'#include "proa/gen/{name}"' for name in sorted(files))
    return files | {"attrs.h": f"#pragma once\n{lines}\n"}


def _header(structs: Iterable[str]) -> str:
    body = "\n\n".join(structs)
    return (
        "#pragma once\n// Attribute structs, in row order: append only.\n"
        '#include "proa/base/call.h"\n\n'
        f"namespace proa {{\n\n{body}\n\n}}  // namespace proa\n"
    )


def op_ids_header(rows: Iterable[Row]) -> str:
    """The index of each op in the tables of this build."""
    body = "\n".join(f"  {row.name} = {i}," for i, row in enumerate(rows))
    return (
        "#pragma once\n#include <stdint.h>\n\nnamespace proa {\n\n"
        f"enum class OpId : uint16_t {{\n{body}\n}};\n\n}}  // namespace proa\n"
    )
