"""The operator table's row: one `op(...)` call states every fact about one operator.

A signature reads ``name(arrays, *, attributes)``. Arrays are positional:
``x`` (needed), ``x?`` (may be None), ``xs...`` (any number, last), ``like: shape``
(only its shape and dtype are used, so nothing keeps its data alive), ``x: mask`` (marks
which elements are meant, so that a number given for another array does not take its
dtype). Attributes are keyword-only, typed ``int float bool ints dtype scalar`` or a
choice ``"a"|"b"``, and may have defaults; ``None`` is admitted as default of ``ints``
alone. An attribute takes 8 bytes in the op's struct (``ints`` 72, ``scalar`` 16), in
the order written: append only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from proa.schema.dtypes import ALL

Promote = Literal["none", "common", "float"]
AutocastClass = Literal["white", "black", "gray", "mixed"]
Layout = Literal["row_major", "follow", "follow_order", "channels_last"]

#: Where the names of `public` may be.
NAMESPACES = ("proa", "proa.nn.functional", "Tensor")

#: Instruction sets whose table holds only the rows that name them in `extra_isas`; for
#: the others the look-up continues in the set that they extend.
EXTRA_ISAS = ("neondot",)

#: The gradient of this row is that of its composite, which runs on the tape.
COMPOSITE = "composite"
#: Differentiating this row is an error: there is a gradient, but no rule for it.
REFUSED = "refused"


@dataclass(frozen=True)
class Array:
    """An array argument."""

    name: str
    optional: bool = False
    variadic: bool = False
    shape_only: bool = False
    mask: bool = False


@dataclass(frozen=True)
class Attribute:
    """A keyword-only argument that is no tensor."""

    name: str
    type: str  # int float bool ints dtype scalar choice
    default: Any = None
    required: bool = True
    choices: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes in the op's attribute struct."""
        return {"ints": 72, "scalar": 16}.get(self.type, 8)


@dataclass(frozen=True)
class Row:
    """Every fact about one operator. See `op` for the meaning of the fields."""

    name: str
    arrays: tuple[Array, ...]
    attributes: tuple[Attribute, ...]
    outputs: tuple[str, ...]
    out: tuple[str, ...]
    dtypes: tuple[str, ...]
    shape: str
    kind: Literal["kernel", "view", "composite", "extension", "flow"]
    grad: Callable[..., Any] | str | None
    composite: Callable[..., Any] | None
    promote: Promote
    inplace: tuple[str, ...]
    public: tuple[str, ...]
    public_inplace: tuple[str, ...]
    autocast: AutocastClass
    arithmetic: bool
    scratch: bool
    pack: str | None
    elementwise: bool
    layout: Layout
    mutates: bool
    random: bool
    draw_rate: str
    identity_of_real: bool
    extra_isas: tuple[str, ...]
    lite: bool
    version: int
    family: str
    doc: str
    changes: tuple[str, ...] = ()
    calls_python: bool = False
    effect: bool = False
    adds: str | None = None
    index: int = field(default=-1, compare=False)

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name; KeyError if there is none."""
        for a in self.attributes:
            if a.name == name:
                return a
        raise KeyError(name)


#: All rows by name, filled by the `op` calls of `proa.schema.ops`.
ROWS: dict[str, Row] = {}


def graph_row(
    name: str,
    arrays: tuple[Array, ...],
    attributes: tuple[Attribute, ...],
    outputs: tuple[str, ...],
    kind: Literal["extension", "flow"],
    doc: str,
    calls_python: bool = False,
    effect: bool = False,
) -> Row:
    """A row outside the table that graphs may name: no kernel, no gradient.

    Args:
        calls_python: It calls functions of this process: passes leave it alone, and no
            file can hold it.
        effect: It is run although no result is read.
    """
    return Row(
        name=name,
        arrays=arrays,
        attributes=attributes,
        outputs=outputs,
        out=("same",) * len(outputs),
        dtypes=ALL,
        shape=kind,
        kind=kind,
        grad=None,
        composite=None,
        promote="none",
        inplace=(),
        public=(),
        public_inplace=(),
        autocast="gray",
        arithmetic=False,
        scratch=False,
        pack=None,
        elementwise=False,
        layout="row_major",
        mutates=False,
        random=False,
        draw_rate="",
        identity_of_real=False,
        extra_isas=(),
        lite=False,
        calls_python=calls_python,
        effect=effect,
        version=1,
        family=kind,
        doc=doc,
    )


_SIGNATURE = re.compile(r"^(\w+)\((.*)\)$", re.S)


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "[(") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _parse_array(text: str) -> Array:
    name, _, kind = (s.strip() for s in text.partition(":"))
    variadic, optional = name.endswith("..."), name.endswith("?")
    if kind not in {"", "shape", "mask"}:
        raise ValueError(f"[schema] array {name} has no known kind, got {kind!r}")
    return Array(name.rstrip(".?"), optional, variadic, kind == "shape", kind == "mask")


def _parse_attribute(text: str) -> Attribute:
    name, _, rest = (s.strip() for s in text.partition(":"))
    kind, has_default, default = (s.strip() for s in rest.partition("="))
    value = ast.literal_eval(default) if has_default else None
    choices: tuple[str, ...] = ()
    if kind.startswith('"'):
        choices = tuple(c.strip().strip('"') for c in kind.split("|"))
        kind = "choice"
    if kind not in {"int", "float", "bool", "ints", "dtype", "scalar", "choice"}:
        raise ValueError(f"[schema] attribute {name} has no known type, got {kind!r}")
    return Attribute(name, kind, value, not has_default, choices)


def parse_signature(
    signature: str,
) -> tuple[str, tuple[Array, ...], tuple[Attribute, ...]]:
    """Split ``name(arrays, *, attributes)`` into its parts."""
    match = _SIGNATURE.match(signature.strip())
    if not match:
        raise ValueError(f"[schema] a signature must read name(...), got {signature!r}")
    parts = _split(match[2])
    star = parts.index("*") if "*" in parts else len(parts)
    arrays = tuple(_parse_array(p) for p in parts[:star])
    return match[1], arrays, tuple(_parse_attribute(p) for p in parts[star + 1 :])


def op(
    signature: str,
    *,
    shape: str,
    doc: str,
    grad: Callable[..., Any] | str | None,
    dtypes: tuple[str, ...] = ALL,
    outputs: tuple[str, ...] = ("y",),
    out: str | tuple[str, ...] = "same",
    kind: Literal["kernel", "view", "composite"] = "kernel",
    composite: Callable[..., Any] | None = None,
    promote: Promote = "none",
    inplace: str | tuple[str, ...] = (),
    public: tuple[str, ...] = (),
    public_inplace: tuple[str, ...] = (),
    autocast: AutocastClass = "gray",
    arithmetic: bool = False,
    scratch: bool = False,
    pack: str | None = None,
    elementwise: bool = False,
    layout: Layout | None = None,
    mutates: bool = False,
    random: bool = False,
    draw_rate: str = "",
    identity_of_real: bool = False,
    extra_isas: tuple[str, ...] = (),
    lite: bool = True,
    changes: tuple[str, ...] = (),
    adds: str | None = None,
) -> None:
    """Add one operator to the table.

    Args:
        signature: See the module's docstring.
        shape: Name of the C++ shape rule (``shape_<name>`` in csrc/portable/shapes).
        doc: One line or a paragraph; the formula first.
        grad: A function over public ops (see codegen/tracer.py), None if the op is
            constant almost everywhere, REFUSED, or COMPOSITE. Its parameters are found
            by name: ``g`` (the ops), ``d<output>``, outputs, arrays, and keyword-only
            attributes. Returns one expression (or None) for each array that is not
            shape-only.
        dtypes: Admitted element types of the first array.
        outputs: Names of the outputs.
        out: Their dtype: same (as the first array), last (as the last given array),
            bool, int64, int32, int8, float32, real (of a complex), complex (of a real),
            wide (float32 of 16-bit floats, else same), sum (int64 of integers, else
            same), attr (the attribute named ``dtype``); one for all or one each.
        kind: kernel, view (strides only, shares memory), or composite (no kernel: the
            composite is expanded where the op is called).
        composite: The same result by smaller ops: oracle and fallback.
        promote: What happens to arrays of unlike dtype: none (an error), common (the
            promotion table), float (common, then integers become the default float).
        inplace: Array(s) whose memory output i takes over in the in-place form
            ``name_``; where the row `mutates` there is no other form.
        public: Names under which the op itself is public, such as ``proa.erf``,
            ``proa.nn.functional.relu`` or ``Tensor.erf``. A function that does more
            than call the op is written in Python and is not named here.
        public_inplace: The same of the in-place form: ``Tensor.erf_``.
        autocast: white (low precision wanted), black (kept in float32), gray (as its
            arrays are), mixed (gray, and its parameters may stay in float32).
        arithmetic: It computes with elements. A gray row that does is white at level O2
            of autocast.
        scratch: The kernel file also defines ``size_t <name>_scratch(const Call&)``.
        pack: Array that may be prepacked when constant; the kernel file then defines
            ``<name>_pack_size`` and ``<name>_pack``.
        elementwise: Output element i depends on input elements i alone (broadcast).
        layout: Memory order of the outputs where the caller wants none: row_major,
            follow (that of the first array whose sizes they keep), follow_order (that
            of the first array, whatever its sizes), or channels_last. By default follow
            of elementwise rows and of gradients (last array shape-only), else
            row_major.
        mutates: The row changes its arrays `inplace` and has no other form, such as an
            optimizer's step; no gradient passes through it. Its name ends in ``_``.
        random: Draws random numbers, by the key in its attributes seed and offset.
        draw_rate: The attribute of a random row that, if it is 0, means no draws.
        identity_of_real: The C++ function of a real array returns the array itself.
        extra_isas: Instruction sets of `EXTRA_ISAS` with a kernel of their own, in
            csrc/portable/kernels/<family>.
        lite: Part of the mobile runtime (no for training-only ops).
        changes: What each version after the first changed in the meaning of what model
            files hold: an attribute's unit, an output's dtype. Each needs a converter
            (`proa.ir.versions`). An attribute that is appended is no change.
        adds: Array that the kernel adds to results of 16 bits element by element when
            they are finished: the output may take over its memory.
    """
    name, arrays, attributes = parse_signature(signature)
    row = Row(
        name=name, arrays=arrays, attributes=attributes,
        outputs=outputs,
        out=(out,) * len(outputs) if isinstance(out, str) else out,
        dtypes=dtypes, shape=shape, kind=kind,
        grad=grad, composite=composite,
        promote=promote,
        inplace=(inplace,) if isinstance(inplace, str) else inplace,
        public=public, public_inplace=public_inplace,
        autocast=autocast, arithmetic=arithmetic,
        scratch=scratch, pack=pack,
        elementwise=elementwise,
        layout=layout or _default_layout(arrays, elementwise),
        mutates=mutates,
        random=random, draw_rate=draw_rate,
        identity_of_real=identity_of_real,
        extra_isas=extra_isas, lite=lite,
        version=1 + len(changes), changes=changes,
        family=_calling_family(),
        doc=doc,
        adds=adds,
        index=len(ROWS),
    )  # fmt: skip
    _add(row)


def _add(row: Row) -> None:
    _check_names(row)
    _check_flags(row)
    ROWS[row.name] = row


def _default_layout(arrays: tuple[Array, ...], elementwise: bool) -> Layout:
    is_gradient = bool(arrays) and arrays[-1].shape_only
    return "follow" if elementwise or is_gradient else "row_major"


def _check_names(row: Row) -> None:
    """Refuse a row whose name, or a name in it, is taken."""
    if row.name in ROWS:
        raise ValueError(f"[schema] op names must be unique, got {row.name!r} twice")
    names = [*(a.name for a in row.arrays), *(a.name for a in row.attributes)]
    names += row.outputs
    if len(set(names)) < len(names):
        raise ValueError(f"[schema] {row.name}: all names must differ, got {names}")
    if len(row.out) != len(row.outputs):
        raise ValueError(
            f"[schema] {row.name}: {len(row.outputs)} outputs, {len(row.out)} dtypes"
        )


def _check_flags(row: Row) -> None:
    """Refuse a row whose flags do not fit its name and arguments."""
    if row.mutates != row.name.endswith("_") or (row.mutates and not row.inplace):
        raise ValueError(
            f"[schema] {row.name}: expected a name that ends in _, and inplace=, of "
            f"rows with mutates=True alone, got mutates={row.mutates}"
        )
    names = {a.name for a in row.attributes}
    if row.random != ("seed" in names) or (row.random and "offset" not in names):
        raise ValueError(
            f"[schema] {row.name}: expected the attributes seed and offset of rows "
            f"with random=True alone, got random={row.random} and {sorted(names)}"
        )
    if row.kind == "view" and len(row.outputs) != 1:
        raise ValueError(
            f"[schema] {row.name}: expected one output of a view, got {row.outputs}"
        )
    if row.draw_rate and not (row.random and row.draw_rate in names):
        raise ValueError(
            f"[schema] {row.name}: expected draw_rate to name an attribute of a random "
            f"row, got {row.draw_rate!r}"
        )
    if row.public_inplace and (row.mutates or not row.inplace):
        raise ValueError(
            f"[schema] {row.name}: expected public_inplace of rows with an "
            f"in-place form alone, got {row.public_inplace}"
        )
    taken = {n for r in ROWS.values() for n in (*r.public, *r.public_inplace)}
    for public in (*row.public, *row.public_inplace):
        if public.rpartition(".")[0] not in NAMESPACES or public in taken:
            raise ValueError(
                f"[schema] {row.name}: expected public names in {NAMESPACES}, each of "
                f"one row, got {public}"
            )
    if not set(row.extra_isas) <= set(EXTRA_ISAS):
        raise ValueError(
            f"[schema] {row.name}: expected extra_isas among {EXTRA_ISAS}, got "
            f"{row.extra_isas}"
        )


def function_and_method(*names: str) -> tuple[str, ...]:
    """`public` names of a function of `proa` that is a Tensor method too."""
    return tuple(f"{space}.{name}" for name in names for space in ("proa", "Tensor"))


def _calling_family() -> str:
    import sys

    return str(sys._getframe(2).f_globals["__name__"]).rpartition(".")[2]
