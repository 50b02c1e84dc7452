"""docs/ops: a reference page for each family of operators, and their index."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proa.schema.row import Row

_WORDS = {
    "ALL": "any",
    "NUMERIC": "integers, floats, complex",
    "REAL": "integers, floats",
    "INEXACT": "floats, complex",
    "FLOATING": "floats",
    "INTEGERS": "integers",
    "SIGNED": "signed integers",
    "COMPLEX": "complex",
}
_OUT = {
    "same": "that of the first array",
    "last": "that of the last array",
    "real": "that of the first array; of a complex one its real type",
    "complex": "the complex type of the first array's width",
    "wide": "float32 of 16-bit floats, else that of the first array",
    "sum": "int64 of bools and integers, else that of the first array",
    "attr": "the attribute `dtype`",
}
PROMOTE = {
    "none": "the arrays must have fitting dtypes",
    "common": "arrays of unlike dtype are promoted",
    "float": "arrays are promoted, integers to the default float",
}


def signature(row: Row) -> str:
    """The row's signature as one reads it."""
    parts = [
        f"*{a.name}" if a.variadic else f"{a.name}=None" if a.optional else a.name
        for a in row.arrays
    ]
    if row.attributes and not any(a.variadic for a in row.arrays):
        parts.append("*")
    for a in row.attributes:
        parts.append(a.name if a.required else f"{a.name}={a.default!r}")
    return f"{row.name}({', '.join(parts)})"


def dtypes(row: Row) -> str:
    """The admitted element types in words."""
    sets = importlib.import_module("proa.schema.dtypes")
    for name, words in _WORDS.items():
        if set(row.dtypes) == set(getattr(sets, name)):
            return words
    return ", ".join(row.dtypes)


def _gradient(row: Row) -> str:
    if row.grad is None:
        return "none"
    words = {"composite": "of its composite", "refused": "not yet: an error"}
    return "yes" if callable(row.grad) else words[row.grad]


def _attributes(row: Row) -> list[str]:
    lines = []
    for a in row.attributes:
        kind = " or ".join(f'"{c}"' for c in a.choices) or a.type
        default = "" if a.required else f", {a.default!r} unless given"
        lines.append(f"    - `{a.name}`: {kind}{default}")
    return ["- Attributes:", *lines] if lines else []


def _entry(row: Row) -> str:
    shapes = [f"`{a.name}`" for a in row.arrays if a.shape_only]
    outs = dict(zip(row.outputs, row.out, strict=True))
    facts = [f"- Dtypes: {dtypes(row)}; {PROMOTE[row.promote]}."]
    if len(outs) == 1:
        facts.append(f"- Result: dtype {_OUT.get(row.out[0], row.out[0])}.")
    else:
        listed = "; ".join(f"`{n}` {_OUT.get(o, o)}" for n, o in outs.items())
        facts.append(f"- Results and their dtypes: {listed}.")
    if shapes:
        facts.append(f"- Only shape and dtype are used of {', '.join(shapes)}.")
    if row.kind == "view":
        facts.append("- The result shares the memory of the first array.")
    if row.inplace and not row.mutates:
        facts.append(f"- In place: `{row.name}_`.")
    public = [f"`{name}`" for name in (*row.public, *row.public_inplace)]
    if public:
        facts.append(f"- Public as {', '.join(public)}.")
    facts.append(f"- Gradient: {_gradient(row)}. Autocast: {row.autocast}.")
    if not row.lite:
        facts.append("- Not part of the mobile runtime.")
    body = "\n".join([*_attributes(row), *facts])
    return f"## {row.name}\n\n`{signature(row)}`\n\n{row.doc}\n\n{body}\n"


def pages(rows: Iterable[Row]) -> dict[str, str]:
    """File name to text: one page for each family, and all.md."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    files, index = {}, ["# Operators", ""]
    for family, members in sorted(families.items()):
        module = importlib.import_module(f"proa.schema.ops.{family}")
        intro = (module.__doc__ or "").strip()
        entries = "\n".join(map(_entry, members))
        files[f"{family}.md"] = f"# {family.capitalize()}\n\n{intro}\n\n{entries}"
        links = ", ".join(f"[{r.name}]({family}.md#{r.name})" for r in members)
        index += [f"## [{family.capitalize()}]({family}.md)", "", intro, "", links, ""]
    files["all.md"] = "\n".join(index)
    return files
