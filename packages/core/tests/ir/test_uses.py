"""Use lists: a value knows who reads it, whatever is done to nodes and blocks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from proa.ir import Builder, Program, to_bytes
from proa.ir.passes import optimize
from proa.ir.program import Block, Node, Value


def check_uses(program: Program) -> None:
    """Every value's uses are what a walk over the program finds."""
    reads: Counter[tuple[Value, Node]] = Counter()
    outputs: Counter[Value] = Counter()
    values: set[Value] = set()
    for block in program.blocks:
        values.update(block.values())
        outputs.update(block.outputs)
        for node in block.nodes:
            assert node.block is block
            reads.update((v, node) for v in node.inputs if v is not None)
    for value in values:
        own = {n: c for (v, n), c in reads.items() if v is value}
        assert set(value.users) == set(own)
        assert value.is_output == (outputs[value] > 0)
        alone = len(own) == 1 and not outputs[value] and sum(own.values()) == 1
        assert (value.only_user is not None) == alone


def some_program() -> Builder:
    b = Builder()
    x = b.input("x", "float32", [4])
    values = [x, b.constant(np.zeros(4, np.float32))]
    for k in range(6):
        values.append(b.add(values[-1], values[k // 2]))
    b.output(values[-1], values[3])
    return b


def change(b: Builder, what: int, k: int) -> None:
    block = b.program.main
    node = block.nodes[k % len(block.nodes)]
    values = list(block.values())
    value = values[k % len(values)]
    if what == 0:
        node.inputs = [value, value]
    elif what == 1:
        node.inputs[k % len(node.inputs)] = value
    elif what == 2:
        block.replace(values[-1 - k % len(values)], value)
    elif what == 3:
        block.nodes = [n for n in block.nodes if n is not node] or [node]
    elif what == 4 and len(block.nodes) > 1:
        block.nodes.remove(node)
    elif what == 5:
        block.outputs.append(value)
    elif what == 6:
        block.outputs = [value, *block.outputs[1:]]
    elif what == 7 and len(block.outputs) > 1:
        block.outputs.pop()
    elif what == 8:
        block.nodes.reverse()
    elif what == 9:
        block.nodes.insert(k % 3, Node("relu", [value], []))
    elif what == 10:
        node.inputs.append(value)
        del node.inputs[:1]
    elif what == 11:
        rest = Block([], block.nodes[1:], [])
        block.nodes = block.nodes[:1]
        block.nodes += rest.nodes


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 30)), max_size=12))
def test_uses_stay_true_whatever_changes(changes: list[tuple[int, int]]) -> None:
    b = some_program()
    check_uses(b.program)
    for what, k in changes:
        change(b, what, k)
        check_uses(b.program)


def test_what_leaves_a_block_reads_nothing() -> None:
    b = Builder()
    x = b.input("x", "float32", [2])
    b.relu(x)
    node = b.program.main.nodes.pop()
    assert node.block is None and x.users == []
    b.program.main.nodes.append(node)
    assert x.only_user is node


def chain(layers: int) -> Program:
    """Linear, its bias apart, and relu, so many times."""
    b = Builder()
    x = b.input("x", "float32", [-1, 4])
    for i in range(layers):
        w = b.parameter(f"w{i}", np.full((4, 4), 0.1, np.float32))
        bias = b.parameter(f"b{i}", np.zeros(4, np.float32))
        x = b.relu(b.assign(b.add(b.linear(x, w), bias)))
    b.output(x)
    return b.program


def count_calls(program: Program) -> int:
    """How many Python functions optimize calls."""
    import sys

    calls = 0

    def see(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        optimize(program, 4)
    finally:
        sys.setprofile(None)
    check_uses(program)
    return calls


def test_optimize_takes_steps_in_proportion_to_the_graph() -> None:
    few, many = (count_calls(chain(n)) for n in (50, 200))
    assert many < 4.4 * few


def test_a_copy_of_a_program_is_rewritten_on_its_own() -> None:
    program = some_program().program
    program.metadata["name"] = "chain"
    before = to_bytes(program)
    clone = program.copy()
    assert to_bytes(clone) == before
    check_uses(clone)
    optimize(clone)
    clone.metadata.clear()
    assert to_bytes(clone) != before
    assert to_bytes(program) == before
    check_uses(program)
    name = program.new_name("add")
    assert clone.new_name("add") == name  # and so is none that the copy has
    constants = zip(program.constants(), program.copy().constants(), strict=True)
    assert all(np.shares_memory(a.data, b.data) for a, b in constants)
