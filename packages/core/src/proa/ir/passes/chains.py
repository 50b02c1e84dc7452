from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from proa.ir.attributes import row_of
from proa.ir.passes.hoist_updates import storage_owners
from proa.ir.program import Block, Node, Program, Value

#: What the engine takes: nodes of a chain, and the arrays that they name together.
_MAX_NODES = 16
_MAX_ARRAYS = 48
#: How far a search goes for what must run between two groups.
_MAX_VISITS = 256
#: Arrays of fewer elements stay in the cache between ops anyway.
MIN_ELEMENTS = 1 << 15
#: Its kernel tests whether the exponent is one number, which a block of many may be.
_NOT_BY_BLOCKS = "pow"


@dataclass(eq=False)
class _Group:
    """Nodes that run together, in order; most are of one node."""

    nodes: list[int]
    next: dict[_Group, None] = field(default_factory=dict)  # what must run later
    merged_into: _Group | None = None
    waits_for: int = 0

    @property
    def place(self) -> int:
        """The position of the group: its last node's."""
        return self.nodes[-1]

    def current(self) -> _Group:
        """The group that this one is part of by now."""
        group = self
        while group.merged_into is not None:
            group = group.merged_into
        return group


def _may_chain(node: Node) -> bool:
    """Whether a block of the node's elements follows from a block of its inputs'."""
    row = row_of(node.op)
    if not row.elementwise or row.kind != "kernel" or node.op == _NOT_BY_BLOCKS:
        return False
    count = 1
    for d in node.outputs[0].shape:
        count *= d if d >= 0 else MIN_ELEMENTS
    return count >= MIN_ELEMENTS


def _dependencies(block: Block) -> list[set[int]]:
    """The nodes that must run before each: they make what it reads, or read or change
    memory that it changes, or change memory that it reads. Effects and calls of Python
    keep their order.
    """
    owner = storage_owners(block)
    results: dict[Value, int] = {}
    readers: dict[Value, set[int]] = {}
    changer: dict[Value, int] = {}
    ahead: list[set[int]] = []
    call = -1  # the last with an effect
    for i, node in enumerate(block.nodes):
        given = [v for v in node.inputs if v is not None]
        needs = {results[v] for v in given if v in results}
        memory = {owner.get(v, v) for v in given}
        changed: set[Value] = set()
        if row_of(node.op).mutates:
            changed = {owner.get(v, v) for v in node.outputs}
        for held in memory | changed:
            if held in changer:
                needs.add(changer[held])
        for held in changed:
            needs |= readers.pop(held, set())
            changer[held] = i
        for held in memory - changed:
            readers.setdefault(held, set()).add(i)
        for v in node.outputs:
            results[v] = i
        if row_of(node.op).calls_python:
            needs |= {call} - {-1}
            call = i
        needs.discard(i)
        ahead.append(needs)
    return ahead


def _reaches(start: _Group, end: _Group) -> bool:
    """Whether something outside must run after the one and before the other.

    Nodes are numbered in an order in which they can run, so that what begins after
    `end` leads to nothing of it. Yes, to be safe, after _MAX_VISITS groups.
    """
    seen = {start, end}
    path = [iter(start.next)]
    for _ in range(_MAX_VISITS):
        later = next(path[-1], None)
        if later is None:
            path.pop()
            if not path:
                return False
            continue
        group = later.current()
        if group is end and len(path) > 1:
            return True
        if group not in seen and group.nodes[0] < end.place:
            seen.add(group)
            path.append(iter(group.next))
    return True


def _join(first: _Group, second: _Group) -> None:
    first.nodes = sorted(first.nodes + second.nodes)
    if len(first.next) < len(second.next):
        first.next, second.next = second.next, first.next
    first.next |= second.next
    second.merged_into = first
    second.next = {}


def _arrays(block: Block, nodes: list[int]) -> int:
    return sum(len(row_of(block.nodes[i].op).arrays) + 1 for i in nodes)


def _grouped(block: Block, ahead: list[set[int]]) -> list[_Group]:
    """The groups of all nodes."""
    group_of = [_Group([i]) for i in range(len(block.nodes))]
    at = {n: i for i, n in enumerate(block.nodes)}
    for i, needs in enumerate(ahead):
        for k in needs:
            group_of[k].next[group_of[i]] = None
    fit = [_may_chain(n) for n in block.nodes]
    for i, node in enumerate(block.nodes):
        if not fit[i]:
            continue
        for v in node.inputs:
            k = -1 if v is None or v.producer is None else at.get(v.producer, -1)
            if k < 0 or not fit[k] or v is None or v.shape != node.outputs[0].shape:
                continue
            if block.nodes[k].part != node.part:
                continue
            first, second = group_of[k].current(), group_of[i].current()
            if first is second:
                continue
            nodes = first.nodes + second.nodes
            small = len(nodes) <= _MAX_NODES and _arrays(block, nodes) <= _MAX_ARRAYS
            if small and not _reaches(first, second) and not _reaches(second, first):
                _join(first, second)
    return [g for g in group_of if g.merged_into is None]


def _sorted(groups: list[_Group]) -> list[_Group]:
    """The groups in an order in which they can run, each as near to its last node's
    place as that allows.
    """
    for group in groups:
        group.next = dict.fromkeys(g.current() for g in group.next)
        group.next.pop(group, None)
        for later in group.next:
            later.waits_for += 1
    ready = [(g.place, g) for g in groups if g.waits_for == 0]
    heapq.heapify(ready)
    result = []
    while ready:
        _, group = heapq.heappop(ready)
        result.append(group)
        for later in group.next:
            later.waits_for -= 1
            if later.waits_for == 0:
                heapq.heappush(ready, (later.place, later))
    return result


def chain_elementwise(program: Program) -> bool:
    """Put elementwise nodes that can run together, block by block, into chains.

    1. A node that reads what another makes, both elementwise with results of one shape
       of 32768 elements or more, or of unknown size, joins the other's chain, unless
       something else must run between them, they are of different parts, or the chain
       would name more arrays than an engine takes.

    Ensures that a chain's nodes are adjacent, at the place of the last, and that what
    reads or changes one memory keeps its order. Each node runs by its own kernel
    on a part of its elements, so that every bit stays.
    """
    changed = False
    for block in program.blocks:
        before = [(n, n.chain) for n in block.nodes]
        if not any(map(_may_chain, block.nodes)):
            for node in block.nodes:
                node.chain = 0
            changed |= any(chain for _, chain in before)
            continue
        nodes: list[Node] = []
        number = 1
        for group in _sorted(_grouped(block, _dependencies(block))):
            members = [block.nodes[i] for i in group.nodes]
            for node in members:
                node.chain = number if len(members) > 1 else 0
            number += len(members) > 1
            nodes += members
        block.nodes = nodes
        changed |= before != [(n, n.chain) for n in nodes]
    return changed


def chain_spans(program: Program) -> list[tuple[int, int]]:
    """(first node, count) of each chain, as an engine takes them: nodes are counted as
    a file has them, one block after the other.
    """
    found: list[tuple[int, int]] = []
    at = 0
    for block in program.blocks:
        chain = 0
        for node in block.nodes:
            if node.chain and node.chain == chain:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            elif node.chain:
                found.append((at, 1))
            chain = node.chain
            at += 1
    return found
