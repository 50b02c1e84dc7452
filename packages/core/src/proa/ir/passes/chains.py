from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from proa.ir.attributes import row_of
from proa.ir.passes.base import register
from proa.ir.passes.hoist_updates import memory_of
from proa.ir.program import Block, Node, Program, Value

#: What the engine takes: nodes of a chain, and the arrays that they name together.
_MOST_NODES = 16
_MOST_ARRAYS = 48
#: Arrays of fewer elements stay in the cache between ops anyway.
MIN_ELEMENTS = 1 << 15
#: Its kernel asks whether the exponent is one number, which a block of many may be.
_NOT_BY_BLOCKS = "pow"


@dataclass(eq=False)
class _Group:
    """Nodes that run together, in order; most are of one node."""

    nodes: list[int]
    behind: set[_Group] = field(default_factory=set)  # what must run later
    ahead: int = 0

    @property
    def place(self) -> int:
        """Where the group stands: at its last node."""
        return self.nodes[-1]


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
    owner = memory_of(block)
    made: dict[Value, int] = {}
    readers: dict[Value, set[int]] = {}
    changer: dict[Value, int] = {}
    ahead: list[set[int]] = []
    call = -1  # the last with an effect
    for i, node in enumerate(block.nodes):
        given = [v for v in node.inputs if v is not None]
        needs = {made[v] for v in given if v in made}
        memory = {owner.get(v, v) for v in given}
        changed: set[Value] = set()
        if node.op.endswith("_"):
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
            made[v] = i
        if row_of(node.op).family in ("effect", "python"):
            needs |= {call} - {-1}
            call = i
        needs.discard(i)
        ahead.append(needs)
    return ahead


def _reaches(start: _Group, end: _Group) -> bool:
    """Whether something outside must run after the one and before the other."""
    seen = {start}
    left = [g for g in start.behind if g is not end]
    while left:
        group = left.pop()
        if group is end:
            return True
        if group in seen:
            continue
        seen.add(group)
        left += group.behind
    return False


def _join(first: _Group, second: _Group, group_of: list[_Group]) -> None:
    first.nodes = sorted(first.nodes + second.nodes)
    first.behind = (first.behind | second.behind) - {first, second}
    for i in second.nodes:
        group_of[i] = first
    for group in {*group_of} - {first}:
        if second in group.behind:
            group.behind.discard(second)
            group.behind.add(first)


def _arrays(block: Block, nodes: list[int]) -> int:
    return sum(len(row_of(block.nodes[i].op).arrays) + 1 for i in nodes)


def _grouped(block: Block, ahead: list[set[int]]) -> list[_Group]:
    """Each node's group."""
    group_of = [_Group([i]) for i in range(len(block.nodes))]
    at = {n: i for i, n in enumerate(block.nodes)}
    for i, needs in enumerate(ahead):
        for k in needs:
            group_of[k].behind.add(group_of[i])
    fit = [_may_chain(n) for n in block.nodes]
    for i, node in enumerate(block.nodes):
        if not fit[i]:
            continue
        for v in node.inputs:
            k = -1 if v is None or v.producer is None else at.get(v.producer, -1)
            if k < 0 or not fit[k] or v is None or v.shape != node.outputs[0].shape:
                continue
            first, second = group_of[k], group_of[i]
            if first is second:
                continue
            nodes = first.nodes + second.nodes
            small = len(nodes) <= _MOST_NODES and _arrays(block, nodes) <= _MOST_ARRAYS
            if small and not _reaches(first, second) and not _reaches(second, first):
                _join(first, second, group_of)
    return group_of


def _sorted(group_of: list[_Group]) -> list[_Group]:
    """The groups in an order in which they can run, each as near to its last node's
    place as that allows.
    """
    groups = {id(g): g for g in group_of}
    for group in groups.values():
        group.ahead = 0
    for group in groups.values():
        for later in group.behind:
            later.ahead += 1
    ready = [(g.place, g) for g in groups.values() if g.ahead == 0]
    heapq.heapify(ready)
    result = []
    while ready:
        _, group = heapq.heappop(ready)
        result.append(group)
        for later in group.behind:
            later.ahead -= 1
            if later.ahead == 0:
                heapq.heappush(ready, (later.place, later))
    return result


@register(level=4)
def chain_elementwise(program: Program) -> bool:
    """Put elementwise nodes that can run together, block by block, into chains.

    1. A node that reads what another makes, both elementwise with results of one shape
       of 32768 elements or more, or of unknown size,, joins the other's chain, unless
       something else must run between them, or the chain would name more arrays than
       an engine takes.

    Ensures that a chain's nodes stand together, where the last of them stood, and that
    what reads or changes one memory keeps its order. Each node runs by its own kernel
    on a part of its elements, so that every bit stays.
    """
    changed = False
    for block in program.blocks:
        before = [(n, n.chain) for n in block.nodes]
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
    a file has them, one block behind the other.
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
