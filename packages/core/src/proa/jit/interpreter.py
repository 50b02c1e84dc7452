"""A program run op by op on tensors: on the tape, or while another is recorded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proa import _core
from proa.autograd.recurrent import recurrent
from proa.base.random import next_key
from proa.ir.attributes import draws, row_of
from proa.ir.program import Block, Node, Program, Value
from proa.ir.record import to_tensor
from proa.jit import flow

Results = Sequence[Any]


def interpret(
    program: Program,
    constants: Mapping[Value, Any],
    inputs: Sequence[Any],
    keyed: bool = False,
) -> list[Any]:
    """The program's outputs.

    Args:
        program: What to run.
        constants: A tensor for each constant and parameter.
        inputs: A tensor for each input.
        keyed: Whether random operators have the keys that they are to draw with.
    """
    return _run_block(program, program.main, constants, inputs, keyed)


def run_block(program: Program, index: int, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of one of the program's blocks, whose random operators keep their
    keys.
    """
    block = program.blocks[index]
    known = {v: to_tensor(_data(v), v.dtype) for v in program.constants()}
    return _run_block(program, block, known, inputs, keyed=True)


def _data(value: Value) -> Any:
    assert value.data is not None
    return value.data


def _run_block(
    program: Program,
    block: Block,
    constants: Mapping[Value, Any],
    inputs: Sequence[Any],
    keyed: bool,
) -> list[Any]:
    known = dict(constants)
    known.update(zip(block.inputs, inputs, strict=True))
    for node in block.nodes:
        arrays = [None if v is None else known[v] for v in node.inputs]
        if row_of(node.op).kind == "flow":
            result: Results = _run_flow(program, node, constants, arrays, keyed)
        else:
            result = _run_node(node, arrays, keyed)
        known.update(zip(node.outputs, result, strict=True))
    return [known[v] for v in block.outputs]


def _run_node(node: Node, arrays: list[Any], keyed: bool) -> Results:
    if node.op == "recurrent":
        return (*recurrent(*arrays, **node.attrs), None)
    attrs = node.attrs
    is_random = not keyed and draws(node.op, attrs)
    if is_random:  # numbers of this run
        seed, offset = next_key(0)
        attrs = {**attrs, "seed": seed, "offset": offset}
    result = getattr(_core.ops, node.op)(*arrays, **attrs)
    results = result if isinstance(result, (tuple, list)) else (result,)
    if is_random:
        next_key(max(t.size for t in (*results, *arrays) if t is not None))
    return results


def _run_flow(
    program: Program,
    node: Node,
    constants: Mapping[Value, Any],
    arrays: list[Any],
    keyed: bool,
) -> list[Any]:
    def body(name: str) -> Callable[..., list[Any]]:
        block = program.blocks[node.attrs[name]]
        return lambda *inputs: _run_block(program, block, constants, inputs, keyed)

    if node.op == "call":
        return body("block")(*arrays)
    if node.op == "branch":
        predicate, *given = arrays
        names = ("then_block", "else_block")
        then, other = (functools.partial(body(name), *given) for name in names)
        if flow.is_symbolic(predicate):
            results: list[Any] = flow.cond(predicate, then, other)
            return results
        return then() if bool(predicate) else other()
    count = node.attrs["carried"]
    carried, others = arrays[:count], arrays[count:]
    test, again = body("cond_block"), body("body_block")
    while True:
        (predicate,) = test(*carried, *others)
        if flow.is_symbolic(predicate):
            return flow.while_loop(
                lambda *c: test(*c, *others)[0], lambda *c: again(*c, *others), carried
            )
        if not bool(predicate):
            return carried
        carried = again(*carried, *others)
