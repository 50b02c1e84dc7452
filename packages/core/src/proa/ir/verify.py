"""Checks that a program is sound: definitions, arities, dtypes, attributes, shapes."""

from __future__ import annotations

from proa.errors import InvalidArgumentError
from proa.ir.attributes import complete, row_of
from proa.ir.flow import check_flow, fits, is_flow
from proa.ir.program import NUMPY_TYPES, Block, Node, Program, Value
from proa.ir.shapes import infer
from proa.schema.dtypes import CODES


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"[ir.verify] {message}")


def _check_value(value: Value) -> None:
    if value.dtype not in CODES:
        raise _fail(f"%{value.name} must have a known dtype, got {value.dtype!r}")
    if len(value.shape) > 8:
        raise _fail(f"%{value.name} must have rank <= 8, got {len(value.shape)}")
    if not value.is_constant:
        return
    if value.data is None:
        raise _fail(f"constant %{value.name} must have data, got none")
    actual = (value.data.shape, value.data.dtype)
    if actual != (value.shape, NUMPY_TYPES[value.dtype]):
        raise _fail(f"%{value.name} must hold {value.dtype}{value.shape}, got {actual}")


def _check_arity(node: Node) -> None:
    row = row_of(node.op)
    variadic = bool(row.arrays) and row.arrays[-1].variadic
    required = sum(not a.optional and not a.variadic for a in row.arrays)
    count = len(node.inputs)
    if count < required or (count > len(row.arrays) and not variadic):
        raise _fail(f"{node.op} must have {len(row.arrays)} inputs, got {count}")
    if len(node.outputs) != len(row.outputs):
        raise _fail(
            f"{node.op} must have {len(row.outputs)} outputs, got {len(node.outputs)}"
        )
    for i, value in enumerate(node.inputs):
        if value is None and not row.arrays[min(i, len(row.arrays) - 1)].optional:
            raise _fail(f"input {i} of {node.op} must not be None")
    first = node.inputs[0] if node.inputs else None
    if first is not None and first.dtype not in row.dtypes:
        raise _fail(f"{node.op} must have {row.dtypes} first, got {first.dtype}")
    if row.promote != "none":
        dtypes = {v.dtype for v in node.inputs if v is not None}
        if len(dtypes) > 1:
            raise _fail(
                f"inputs of {node.op} must have one dtype, got {sorted(dtypes)}"
            )


def _check_shapes(node: Node) -> None:
    outputs = infer(node.op, node.inputs, node.attrs)
    for value, (dtype, shape) in zip(node.outputs, outputs, strict=True):
        if value.dtype != dtype or not fits(value.shape, shape):
            raise _fail(f"{value} of {node.op} must be {dtype}{list(shape)}")


def _check_chains(block: Block) -> None:
    ended: set[int] = set()
    last: Node | None = None
    for node in block.nodes:
        chain = 0 if last is None else last.chain
        if node.chain != chain:
            ended.add(chain)
        if node.chain and node.chain in ended:
            raise _fail(f"nodes of chain {node.chain} must be consecutive")
        if node.chain and not row_of(node.op).elementwise:
            raise _fail(f"nodes of a chain must be elementwise, got {node.op}")
        if last and node.chain and node.chain == chain:
            shape = last.outputs[0].shape
            if node.outputs[0].shape != shape:
                raise _fail(f"{node.outputs[0]} of a chain must be of shape {shape}")
        last = node


def verify_block(block: Block) -> None:
    """Raise InvalidArgumentError where the block breaks a rule."""
    defined: set[Value] = set()
    for value in block.inputs:
        if value.kind != "input" or value in defined:
            raise _fail(f"inputs must be distinct and of kind input, got {value}")
        defined.add(value)
    names = [v.name for v in block.inputs]
    if len(set(names)) != len(names):
        raise _fail(f"inputs must have distinct names, got {names}")
    for value in block.values():
        _check_value(value)
    for node in block.nodes:
        if not is_flow(node):
            _check_arity(node)
        for read in node.inputs:
            if read is not None and not read.is_constant and read not in defined:
                raise _fail(f"{node.op} must read values defined before it, got {read}")
        if complete(node.op, node.attrs) != node.attrs:
            raise _fail(f"{node.op} must have all attributes, got {node.attrs}")
        for value in node.outputs:
            if value in defined or value.kind != "node" or value.producer is not node:
                raise _fail(f"{value} must be defined once, by {node.op}")
            defined.add(value)
        if not is_flow(node):
            _check_shapes(node)
    _check_chains(block)
    for value in block.outputs:
        if not value.is_constant and value not in defined:
            raise _fail(f"outputs must be defined in their block, got {value}")


def verify(program: Program) -> None:
    """Raise InvalidArgumentError where the program breaks a rule of the schema."""
    for block in program.blocks:
        verify_block(block)
    check_flow(program)
