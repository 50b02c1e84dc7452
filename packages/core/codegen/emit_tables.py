"""The portable tables: op_table.cc, kernels.h, shapes.h, kernel_table_<isa>.cc."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emit_structs import dtype_code
from rows import attribute_kind, attrs_type, camel

if TYPE_CHECKING:
    from proa.schema.row import Row

_DTYPE_RULES = {
    "same": "kSame",
    "bool": "kBool",
    "int64": "kI64",
    "int32": "kI32",
    "int8": "kI8",
    "float32": "kF32",
    "attr": "kAttr",
    "real": "kReal",
    "last": "kLast",
    "sum": "kSum",
    "complex": "kComplex",
    "wide": "kWide",
}
EVERY_DTYPE = 0xFFF


def _alias(row: Row) -> list[int]:
    names = [a.name for a in row.arrays]
    alias = [
        names.index(row.inplace[i]) if i < len(row.inplace) else -1 for i in range(8)
    ]
    if row.kind == "view":
        alias[0] = 0
    return alias


def _mask(row: Row, computed: int) -> int:
    """The dtypes of the first input; rows that admit all only move elements."""
    mask = sum(1 << dtype_code(t) for t in row.dtypes)
    return mask if mask == EVERY_DTYPE else mask & computed


def _info(i: int, row: Row, computed: int) -> str:
    variadic = any(a.variadic for a in row.arrays)
    required = sum(not a.optional and not a.variadic for a in row.arrays)
    offset, dtype_at = 0, -1
    for a in row.attributes:
        if a.name == "dtype":
            dtype_at = offset
        offset += a.size
    names = [a.name for a in row.arrays]
    kinds = "".join(map(attribute_kind, row.attributes))
    rules = [f"DTypeRule::{_DTYPE_RULES[o]}" for o in row.out]
    fields = [
        f'"{row.name}"',
        str(i),
        str(row.version),
        f"OpKind::k{row.kind.capitalize()}",
        "kVariadic" if variadic else str(len(row.arrays)),
        str(required),
        str(len(row.outputs)),
        hex(_mask(row, computed)),
        str(offset),
        f"&kDefault{attrs_type(row)}" if row.attributes else "nullptr",
        f"shape_{row.shape}",
        "{" + ", ".join(rules) + "}",
        str(dtype_at),
        "{" + ", ".join(map(str, _alias(row))) + "}",
        f'"{kinds}"',
        f"Promote::k{row.promote.capitalize()}",
        str(names.index(row.pack) if row.pack else -1),
        "true" if row.elementwise else "false",
        hex(sum(1 << k for k, a in enumerate(row.arrays) if a.shape_only)),
        f"Layout::k{camel(row.layout)}",
        "true" if row.mutates else "false",
        "true" if row.random else "false",
        str(names.index(row.adds) if row.adds else -1),
    ]
    return "    {" + ", ".join(fields) + "},"


def op_table(rows: Sequence[Row], computed: int = EVERY_DTYPE) -> str:
    """The rows as the runtimes need them, and an index sorted by name.

    Bit i of `computed`: kernels of the build compute in dtype i (PROA_DTYPES in C++).
    """
    defaults = "\n".join(
        f"const {attrs_type(r)} kDefault{attrs_type(r)};" for r in rows if r.attributes
    )
    infos = "\n".join(_info(i, row, computed) for i, row in enumerate(rows))
    order = sorted(range(len(rows)), key=lambda i: rows[i].name)
    return f"""#include "proa/base/op_table.h"
#include "proa/gen/attrs.h"
#include "proa/gen/shapes.h"

namespace proa {{
namespace {{
{defaults}
}}  // namespace

extern const OpInfo kOps[];
extern const uint16_t kOpsByName[];
extern const int kOpCount;

const OpInfo kOps[] = {{
{infos}
}};
const uint16_t kOpsByName[] = {{{", ".join(map(str, order))}}};
const int kOpCount = {len(rows)};

}}  // namespace proa
"""


def shapes_header(rows: Iterable[Row]) -> str:
    """Declarations of the shape rules in use."""
    names = sorted({row.shape for row in rows})
    body = "\n".join(f"Status shape_{name}(const Call&);" for name in names)
    return (
        '#pragma once\n#include "proa/base/call.h"\n\nnamespace proa {\n\n'
        f"{body}\n\n}}  // namespace proa\n"
    )


def _has_kernel(row: Row) -> bool:
    return row.kind == "kernel"


def kernels_header(rows: Iterable[Row]) -> str:
    """Declarations of every kernel, in the namespace of the ISA being compiled."""
    lines = []
    for row in filter(_has_kernel, rows):
        lines.append(f"Status {row.name}(const Call&);")
        if row.scratch:
            lines.append(f"size_t {row.name}_scratch(const Call&);")
        if row.pack:
            lines.append(f"size_t {row.name}_pack_size(const Call&);")
            lines.append(f"Status {row.name}_pack(const Call&, void* packed);")
    body = "\n".join(lines)
    return (
        '#pragma once\n#include "proa/base/call.h"\n\nnamespace proa::PROA_ISA {\n\n'
        f"{body}\n\n}}  // namespace proa::PROA_ISA\n"
    )


def defined_functions(sources: Iterable[Path]) -> set[str]:
    """Names that look like kernel functions or kernel macros in the sources."""
    found: set[str] = set()
    for source in sources:
        text = source.read_text()
        found.update(re.findall(r"^(?:Status|size_t)\s+(\w+)\s*\(", text, re.M))
        found.update(re.findall(r"^PROA_\w+\(\s*(\w+)\s*[,)]", text, re.M))
    return found


def kernel_table(rows: Sequence[Row], isa: str, defined: set[str] | None) -> str:
    """The entries of one ISA. With `defined`, what is not in it is left null."""

    def name(text: str) -> str:
        return text if defined is None or text in defined else "nullptr"

    from proa.schema.row import EXTRA_ISAS

    lines = []
    for row in rows:
        wanted = isa not in EXTRA_ISAS or isa in row.extra_isas
        if not _has_kernel(row) or not wanted or name(row.name) == "nullptr":
            lines.append(f"    {{}},  // {row.name}")
            continue
        entry = [row.name, name(f"{row.name}_scratch") if row.scratch else "nullptr"]
        if row.pack:
            entry += [name(f"{row.name}_pack_size"), name(f"{row.name}_pack")]
        lines.append("    {" + ", ".join(entry) + "},")
    body = "\n".join(lines)
    return f"""#include "proa/base/op_table.h"
#include "proa/gen/kernels.h"

namespace proa::PROA_ISA {{

extern const KernelEntry kKernels[];
const KernelEntry kKernels[] = {{
{body}
}};

}}  // namespace proa::PROA_ISA
"""


def isa_table(isas: Sequence[str]) -> str:
    """Which ISAs this build has, for select_isa()."""
    codes = {"scalar": "kScalar", "avx2": "kAvx2", "avx512": "kAvx512"}
    codes |= {"neon": "kNeon", "neondot": "kNeonDot"}
    declared = "\n".join(
        f"namespace {isa} {{\nextern const KernelEntry kKernels[];\n}}" for isa in isas
    )
    entries = ", ".join(f"{{Isa::{codes[isa]}, {isa}::kKernels}}" for isa in isas)
    return f"""#include "proa/base/isa_table.h"

namespace proa {{
{declared}

const IsaTable kIsaTables[] = {{{entries}}};
const int kIsaTableCount = {len(isas)};

}}  // namespace proa
"""


def kernel_folders(rows: Iterable[Row]) -> str:
    """For CMake: which folders of kernels the `EXTRA_ISAS` compile."""
    from proa.schema.row import EXTRA_ISAS

    lines = []
    for isa in EXTRA_ISAS:
        folders = sorted({row.family for row in rows if isa in row.extra_isas})
        lines.append(f'set(PROA_KERNEL_FOLDERS_{isa} "{"|".join(folders)}")\n')
    return "".join(lines)
