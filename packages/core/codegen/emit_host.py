"""ops.h / ops.cc (typed eager functions) and host_table.cc (arguments, promotion)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from emit_stubs import inspected
from rows import attribute_kind, attrs_type

if TYPE_CHECKING:
    from proa.schema.row import Attribute, Row

_TYPES = {"float": "double", "ints": "const Ints&", "scalar": "Scalar"}


_ENTRY = """namespace {
const OpEntry& entry(OpId id) { return op_entries()[static_cast<int>(id)]; }
}  // namespace
"""


def _parameters(row: Row) -> str:
    arrays = [
        f"const std::vector<Tensor>& {a.name}"
        if a.variadic
        else f"const Tensor& {a.name}_in"
        for a in row.arrays
    ]
    attrs = [f"{_TYPES.get(a.type, 'int64_t')} {a.name}" for a in row.attributes]
    return ", ".join(arrays + attrs)


def _result(row: Row) -> str:
    many = len(row.outputs)
    return "Tensor" if many == 1 else f"std::array<Tensor, {many}>"


def ops_header(rows: Iterable[Row]) -> str:
    """A function for each row."""
    body = "\n".join(f"{_result(row)} {row.name}({_parameters(row)});" for row in rows)
    return (
        "#pragma once\n// Every op as a function: dispatches, records for the tape.\n"
        '#include <array>\n#include <vector>\n\n#include "proa/base/call.h"\n'
        f'#include "proa/train/tensor.h"\n\nnamespace proa::ops {{\n\n{body}\n\n'
        "}  // namespace proa::ops\n"
    )


def _function(row: Row) -> str:
    lines = []
    if row.identity_of_real:
        first = f"{row.arrays[0].name}_in"
        lines.append(f"  if (!is_complex({first}.view().dtype)) return {first};")
    attrs = "nullptr"
    if row.attributes:
        fields = ", ".join(a.name for a in row.attributes)
        lines.append(f"  const {attrs_type(row)} a{{{fields}}};")
        attrs = "&a"
    outputs = len(row.outputs)
    out = "&out" if outputs == 1 else "out.data()"
    lines.append(f"  {_result(row)} out;")
    if any(a.variadic for a in row.arrays):
        name = row.arrays[0].name
        lines.append("  std::vector<TensorImpl*> in;")
        lines.append(f"  for (const Tensor& t : {name}) in.push_back(t.get());")
        arrays = "in.data(), static_cast<int>(in.size())"
    else:
        pointers = ", ".join(f"{a.name}_in.get()" for a in row.arrays) or "nullptr"
        lines.append(f"  TensorImpl* in[] = {{{pointers}}};")
        arrays = f"in, {len(row.arrays)}"
    call = "dispatch_inplace" if row.mutates else "dispatch"
    lines.append(f"  {call}(entry(OpId::{row.name}), {arrays}, {attrs}, {out});")
    lines.append("  return out;")
    body = "\n".join(lines)
    return f"{_result(row)} {row.name}({_parameters(row)}) {{\n{body}\n}}\n"


def ops_source(rows: Iterable[Row]) -> str:
    """The functions of ops.h, each over `dispatch`."""
    body = "\n".join(map(_function, rows))
    return (
        '#include "proa/gen/ops.h"\n\n#include "proa/gen/attrs.h"\n'
        '#include "proa/gen/op_ids.h"\n#include "proa/train/dispatch.h"\n\n'
        f"namespace proa::ops {{\n\n{_ENTRY}\n{body}\n}}  // namespace proa::ops\n"
    )


def _argument(row: Row, i: int, offset: int) -> str:
    if i < len(row.arrays):
        a = row.arrays[i]
        kind = "V" if a.variadic else "t" if a.optional else "T"
        required = "false" if a.optional else "true"
        return f"{{\"{a.name}\", '{kind}', {required}, 0, nullptr}}"
    attribute: Attribute = row.attributes[i - len(row.arrays)]
    kind = "c" if attribute.choices else attribute_kind(attribute)
    choices = (
        f"kChoices_{row.name}_{attribute.name}" if attribute.choices else "nullptr"
    )
    required = "true" if attribute.required else "false"
    return f"{{\"{attribute.name}\", '{kind}', {required}, {offset}, {choices}}}"


def _host_op(row: Row) -> tuple[str, str]:
    declarations = []
    for a in row.attributes:
        if a.choices:
            quoted = ", ".join(f'"{c}"' for c in a.choices)
            name = f"kChoices_{row.name}_{a.name}"
            declarations.append(f"const char* const {name}[] = {{{quoted}, nullptr}};")
    entries, offset = [], 0
    for i in range(len(row.arrays)):
        entries.append(_argument(row, i, 0))
    for k, a in enumerate(row.attributes):
        entries.append(_argument(row, len(row.arrays) + k, offset))
        offset += a.size
    arguments = "nullptr"
    if entries:
        declarations.append(
            f"const ArgSpec kArgs_{row.name}[] = {{{', '.join(entries)}}};"
        )
        arguments = f"kArgs_{row.name}"
    has_inplace = bool(row.inplace) and not row.mutates
    fields = (
        f"{arguments}, {len(entries)}, {len(row.arrays)}, "
        f"AutocastClass::k{row.autocast.capitalize()}, {str(has_inplace).lower()}, "
        f"{json.dumps(inspected(row))}"
    )
    return "\n".join(declarations), f"    {{{fields}}},  // {row.name}"


def _promotion() -> str:
    from proa.schema.dtypes import CODES, promote

    lines = []
    for a in CODES:
        cells = ", ".join(f"static_cast<DType>({CODES[promote(a, b)]})" for b in CODES)
        lines.append(f"    {{{cells}}},")
    return "\n".join(lines)


def host_table(rows: Iterable[Row]) -> str:
    """HostOp rows and the promotion table."""
    parts = [_host_op(row) for row in rows]
    declarations = "\n".join(filter(None, (d for d, _ in parts)))
    table = "\n".join(t for _, t in parts)
    return f"""#include "proa/train/host_table.h"

namespace proa {{
namespace {{
{declarations}
}}  // namespace

const HostOp kHostOps[] = {{
{table}
}};

const DType kPromotion[kDTypeCount][kDTypeCount] = {{
{_promotion()}
}};

}}  // namespace proa
"""
