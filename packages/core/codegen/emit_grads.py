"""grads.cc: every gradient rule and composite as C++ over proa/gen/ops.h."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rows import attrs_type
from tracer import Node, Trace, TraceError, in_order, operands, trace

if TYPE_CHECKING:
    from proa.schema.row import Row


class _Writer:
    """Emits the statements of one trace; each computed node becomes a variable."""

    def __init__(self, roots: list[Node | None]) -> None:
        self.roots, self.names, self.lines = roots, dict[int, str](), list[str]()
        self.nodes = in_order(roots)
        self.needed_by = self._masks()

    def _masks(self) -> dict[int, int]:
        masks = {id(n): 0 for n in self.nodes}
        for i, root in enumerate(self.roots):
            if root is not None:
                masks[id(root)] |= 1 << i
        for node in reversed(self.nodes):
            for operand in operands(node):
                masks[id(operand)] |= masks[id(node)]
        return masks

    def argument(self, node: object) -> str:
        if node is None:
            return "Tensor()"
        assert isinstance(node, Node)
        if node.kind == "scalar":
            assert node.like is not None
            return f"scalar_like({node.text}, {self.names[id(node.like)]})"
        if node.kind == "output":
            assert node.of is not None
            return f"{self.names[id(node.of)]}[{node.output}]"
        return self.names[id(node)]

    def compute(self, node: Node) -> str:
        arguments = [self.argument(a) for a in node.args] + node.attrs
        if node.kind == "helper":
            return f"{node.text}({', '.join(arguments)})"
        assert node.row is not None
        return f"ops::{node.row.name}({', '.join(arguments)})"

    def result_type(self, node: Node) -> str:
        if node.kind == "helper":
            return "std::vector<Tensor>"
        assert node.row is not None
        many = len(node.row.outputs)
        return "Tensor" if many == 1 else f"std::array<Tensor, {many}>"

    def statements(self, all_roots: int, condition: str) -> None:
        """Compute every call; what not every root needs is under `condition`."""
        calls = [n for n in self.nodes if n.kind in ("call", "helper")]
        for i, node in enumerate(calls):
            self.names[id(node)] = f"t{i}"
            mask = self.needed_by[id(node)]
            if mask == all_roots:
                self.lines.append(
                    f"  {self.result_type(node)} t{i} = {self.compute(node)};"
                )
            else:
                wanted = " || ".join(
                    condition.format(i) for i in range(len(self.roots)) if mask >> i & 1
                )
                self.lines.append(f"  {self.result_type(node)} t{i};")
                self.lines.append(f"  if ({wanted}) t{i} = {self.compute(node)};")


def _leaf_slots(
    row: Row, traced: Trace, needed_by: dict[int, int]
) -> tuple[list[str], dict[str, str]]:
    """SavedSpec entries, and the C++ that reads each leaf."""
    arrays = [a.name for a in row.arrays]
    specs: list[str] = []
    reads: dict[str, str] = {}
    for name, leaf in traced.leaves.items():
        douts = [f"d{o}" for o in row.outputs]
        if name in douts:
            reads[name] = f"Tensor {name} = c.dout({douts.index(name)})"
            continue
        slot = len(specs)
        if name in row.outputs:
            kind, index = "kOutput", row.outputs.index(name)
        elif name in arrays:
            kind, index = "kInput", arrays.index(name)
        else:
            raise TraceError(f"{row.name}: the rule's parameter {name} names nothing")
        only = "true" if leaf.shape_only_use else "false"
        mask = hex(needed_by.get(id(leaf), 0))
        if kind == "kInput" and row.arrays[index].variadic:
            specs.append(f"{{SavedSpec::kVariadic, {index}, true, {mask}}}")
            reads[name] = f"std::vector<Tensor> {name} = c.saved_list({slot})"
        else:
            specs.append(f"{{SavedSpec::{kind}, {index}, {only}, {mask}}}")
            reads[name] = f"Tensor {name} = c.saved({slot})"
    return specs, reads


def _uses_attrs(writer: _Writer) -> bool:
    texts = [t for n in writer.nodes for t in [*n.attrs, n.text] if n.kind != "leaf"]
    return any("a." in t for t in texts)


@dataclass
class _Rule:
    """A rule's function and its line in the table."""

    text: str
    saves: bool
    inputs: int  # arrays that get a gradient
    outputs: int  # outputs whose gradient is read


def _rule(row: Row, rows: dict[str, Row]) -> _Rule:
    """The C++ of a row's rule."""
    assert callable(row.grad)
    traced = trace(row.grad, rows, row)
    targets = [i for i, a in enumerate(row.arrays) if not a.shape_only]
    if len(traced.roots) != len(targets):
        raise TraceError(
            f"{row.name}: the rule must give {len(targets)} gradients, "
            f"got {len(traced.roots)}"
        )
    roots: list[Node | None] = [None] * len(row.arrays)
    for i, root in zip(targets, traced.roots, strict=True):
        roots[i] = root
    writer = _Writer(roots)
    specs, reads = _leaf_slots(row, traced, writer.needed_by)
    everything = sum(1 << i for i, r in enumerate(roots) if r is not None)
    for name, leaf in traced.leaves.items():
        writer.names[id(leaf)] = name
        if id(leaf) in writer.needed_by:
            writer.lines.append(_read(reads[name], name, writer, leaf, everything))
    writer.statements(everything, "c.needs({})")
    for i, root in enumerate(roots):
        if root is None:
            continue
        setter = "set_list" if row.arrays[i].variadic else "set"
        writer.lines.append(
            f"  if (c.needs({i})) c.{setter}({i}, {writer.argument(root)});"
        )
    if _uses_attrs(writer):
        line = f"  const auto& a = *static_cast<const {attrs_type(row)}*>(c.attrs());"
        writer.lines.insert(0, line)
    body = "\n".join(writer.lines)
    text = f"void grad_{row.name}(GradCall& c) {{\n{body}\n}}\n"
    if specs:
        text = f"const SavedSpec kSaved_{row.name}[] = {{{', '.join(specs)}}};\n{text}"
    douts = [f"d{o}" in traced.leaves for o in row.outputs]
    return _Rule(text, bool(specs), everything, _mask(douts))


def _mask(bits: Iterable[bool]) -> int:
    return sum(1 << i for i, bit in enumerate(bits) if bit)


def _read(read: str, name: str, writer: _Writer, leaf: Node, everything: int) -> str:
    mask = writer.needed_by[id(leaf)]
    if mask == everything or read.startswith("std::vector"):
        return f"  {read};"
    wanted = " || ".join(
        f"c.needs({i})" for i in range(len(writer.roots)) if mask >> i & 1
    )
    kind, _, value = read.partition(f" {name} = ")
    return f"  {kind} {name};\n  if ({wanted}) {name} = {value};"


def _composite(row: Row, rows: dict[str, Row]) -> str:
    assert row.composite is not None
    traced = trace(row.composite, rows, row)
    arrays = [a.name for a in row.arrays]
    writer = _Writer(traced.roots)
    everything = (1 << len(traced.roots)) - 1
    for name, leaf in traced.leaves.items():
        writer.names[id(leaf)] = name
        if id(leaf) in writer.needed_by:
            writer.lines.append(f"  const Tensor& {name} = in[{arrays.index(name)}];")
    # Without guards: every output is wanted.
    writer.needed_by = dict.fromkeys(writer.needed_by, everything)
    writer.statements(everything, "")
    writer.lines += [
        f"  out[{i}] = {writer.argument(r)};" for i, r in enumerate(traced.roots)
    ]
    used = _uses_attrs(writer)
    if used:
        line = f"  const auto& a = *static_cast<const {attrs_type(row)}*>(attrs);"
        writer.lines.insert(0, line)
    body = "\n".join(writer.lines)
    attrs = "attrs" if used else ""
    return (
        f"void composite_{row.name}(const Tensor* in, int, const void* {attrs}, "
        f"Tensor* out) {{\n{body}\n}}\n"
    )


def _entry(row: Row, rows: dict[str, Row]) -> tuple[str, str]:
    """The function of a row, if it has one, and its line in the table."""
    fields, text = "nullptr, nullptr, 0, 0, nullptr, 0", ""
    if callable(row.grad):
        rule = _rule(row, rows)
        text, saved = rule.text, "nullptr, 0"
        if rule.saves:
            name = f"kSaved_{row.name}"
            saved = f"{name}, sizeof({name}) / sizeof(SavedSpec)"
        masks = hex(rule.inputs), hex(rule.outputs)
        fields = f"grad_{row.name}, {saved}, {masks[0]}, nullptr, {masks[1]}"
    elif row.grad == "refused":
        text = (
            f"[[noreturn]] void grad_{row.name}(GradCall&) "
            f'{{ refuse_gradient("{row.name}"); }}\n'
        )
        inputs = hex(_mask(not a.shape_only for a in row.arrays))
        outputs = hex(_mask(True for _ in row.outputs))
        fields = f"grad_{row.name}, nullptr, 0, {inputs}, nullptr, {outputs}"
    elif row.grad == "composite" or row.kind == "composite":
        text = _composite(row, rows)
        every = hex(_mask(True for _ in row.outputs))
        fields = f"nullptr, nullptr, 0, 0, composite_{row.name}, {every}"
    return text, f"    {{{fields}}},  // {row.name}"


def grads(rows: dict[str, Row]) -> str:
    """All rules, all composites that replace a rule or kernel, and the table."""
    entries = [_entry(row, rows) for row in rows.values()]
    functions = "\n".join(text for text, _ in entries if text)
    table = "\n".join(line for _, line in entries)
    return f"""#include <array>
#include <vector>

#include "proa/gen/attrs.h"
#include "proa/gen/ops.h"
#include "proa/train/grad_call.h"
#include "proa/train/rule_helpers.h"

namespace proa {{
namespace {{

{functions}
}}  // namespace

const GradInfo kGrads[] = {{
{table}
}};

}}  // namespace proa
"""
