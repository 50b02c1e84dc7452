"""Programs with control flow, node by node, and what NumPy says they compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.ir import Builder
from proa.ir.attributes import complete
from proa.ir.program import Block, Node, Program, Value

Array = np.ndarray
Spec = tuple[str, Sequence[int]]


def new_block(program: Program, *inputs: Spec) -> tuple[int, Builder, list[Value]]:
    """Another block of the program: its number, its builder and its inputs."""
    block = Block()
    program.blocks.append(block)
    b = Builder(program, block)
    number = len(program.blocks) - 1
    return number, b, [b.input(f"b{number}_{i}", *s) for i, s in enumerate(inputs)]


def flow(
    b: Builder,
    op: str,
    inputs: Sequence[Value | None],
    outputs: Sequence[Spec],
    **attrs: int,
) -> list[Value]:
    """Append a node that names blocks."""
    node = Node(op, list(inputs), [], complete(op, attrs))
    for dtype, shape in outputs:
        name = b.program.new_name(op)
        node.outputs.append(Value(name, dtype, tuple(shape), "node", producer=node))
    b.block.nodes.append(node)
    return node.outputs


def scalar(b: Builder, value: Any, dtype: str = "int64") -> Value:
    return b.constant(np.asarray(value, dtype))


WEIGHT = np.random.default_rng(5).standard_normal((4, 4)).astype(np.float32) / 4


def counting(steps: Sequence[int] = (-1, 4)) -> Builder:
    """x (?, 4), n -> (x, rounds): n rounds of x = tanh(x @ WEIGHT)."""
    b = Builder()
    carried: list[Spec] = [("float32", steps), ("int64", ())]
    x, n = b.input("x", "float32", steps), b.input("n", "int64", ())
    test, cond, (_, i, last) = new_block(b.program, *carried, ("int64", ()))
    cond.output(cond.less_than(i, last))
    make, body, (y, i, _) = new_block(b.program, *carried, ("int64", ()))
    weight = body.parameter("weight", WEIGHT)
    body.output(body.tanh(body.matmul(y, weight)), body.add(i, scalar(body, 1)))
    results = flow(
        b, "loop", [x, scalar(b, 0), n], carried,
        cond_block=test, body_block=make, carried=2,
    )  # fmt: skip
    b.output(*results)
    return b


def counted(x: Array, n: int) -> Array:
    for _ in range(n):
        x = np.tanh(x @ WEIGHT)
    return x


def growing() -> Builder:
    """x (?), n -> n rounds of x = concat(x, [sum(x)])."""
    b = Builder()
    specs: list[Spec] = [("float32", (-1,)), ("int64", ()), ("int64", ())]
    x, n = b.input("x", "float32", (-1,)), b.input("n", "int64", ())
    test, cond, (_, i, last) = new_block(b.program, *specs)
    cond.output(cond.less_than(i, last))
    make, body, (y, i, _) = new_block(b.program, *specs)
    total = body.sum(y, axis=(0,), keepdim=True)
    body.output(body.concat(y, total, axis=0), body.add(i, scalar(body, 1)))
    results = flow(
        b, "loop", [x, scalar(b, 0), n], specs[:2],
        cond_block=test, body_block=make, carried=2,
    )  # fmt: skip
    b.output(results[0])
    return b


def grown(x: Array, n: int) -> Array:
    for _ in range(n):
        x = np.concatenate([x, x.sum(keepdims=True)])
    return x


def collatz() -> Builder:
    """n -> (steps to 1, highest): a branch in a loop, whose body directs."""
    b = Builder()
    one: Spec = ("int64", ())
    three = [one, one, one]
    n = b.input("n", *one)
    start, zero = n, scalar(b, 0)
    test, cond, (k, _, _) = new_block(b.program, *three)
    cond.output(cond.greater_than(k, scalar(cond, 1)))
    make, body, (k, steps, top) = new_block(b.program, *three)
    odd, b_odd, (x,) = new_block(b.program, one)
    bit = b_odd.mod(x, scalar(b_odd, 2))
    b_odd.output(b_odd.equal(bit, scalar(b_odd, 1)))
    up, b_up, (x,) = new_block(b.program, one)
    b_up.output(b_up.add(b_up.mul(x, scalar(b_up, 3)), scalar(b_up, 1)))
    down, b_down, (x,) = new_block(b.program, one)
    b_down.output(b_down.floor_div(x, scalar(b_down, 2)))
    end, b_end, (x, s, t) = new_block(b.program, one, one, one)
    b_end.output(b_end.add(s, scalar(b_end, 1)), b_end.maximum(t, x))
    (is_odd,) = flow(body, "call", [k], [("bool", ())], block=odd)
    (following,) = flow(
        body, "branch", [is_odd, k], [one], then_block=up, else_block=down
    )
    steps, top = flow(body, "call", [following, steps, top], [one, one], block=end)
    body.output(following, steps, top)
    _, steps, top = flow(
        b, "loop", [start, zero, n], three,
        cond_block=test, body_block=make, carried=3,
    )  # fmt: skip
    b.output(steps, top)
    return b


def collatz_of(n: int) -> tuple[int, int]:
    steps, top = 0, n
    while n > 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps, top = steps + 1, max(top, n)
    return steps, top


def chosen() -> Builder:
    """p, x (?, 3) -> (relu(x) or its transpose's sum, x as it came)."""
    b = Builder()
    p, x = b.input("p", "bool", (1,)), b.input("x", "float32", (-1, 3))
    spec: Spec = ("float32", (-1, 3))
    then, b_then, (y,) = new_block(b.program, spec)
    b_then.output(b_then.relu(y), y)
    other, b_other, (y,) = new_block(b.program, spec)
    b_other.output(b_other.sum(y, axis=(0,), keepdim=True), b_other.constant(ONES))
    b.output(
        *flow(b, "branch", [p, x], [spec, spec], then_block=then, else_block=other)
    )
    return b


ONES = np.ones((2, 3), np.float32)
