from __future__ import annotations

from proa.ir.passes.base import register
from proa.ir.passes.hoist_updates import memory_of
from proa.ir.passes.match import made_by, only_user
from proa.ir.program import Block, Node, Program, Value


def _norm_behind(block: Block, grad: Node) -> tuple[Node, Node] | None:
    """The batch norm whose gradient that is, if a relu follows it, and the relu's
    gradient, if nothing else reads that.
    """
    gate = made_by(grad.inputs[0], "relu_grad")
    if gate is None or only_user(block, gate.outputs[0]) is not grad:
        return None
    relu = made_by(gate.inputs[1], "relu")
    norm = made_by(relu.inputs[0], "batch_norm") if relu is not None else None
    if norm is None or norm.attrs != grad.attrs:
        return None
    x, mean, variance, scale = grad.inputs[1:5]
    if norm.inputs[:2] != [x, scale] or norm.outputs[1:] != [mean, variance]:
        return None
    if any(v is None or v.dtype != "float32" for v in (*norm.inputs, grad.inputs[0])):
        return None
    return norm, gate


def _changed(block: Block, values: list[Value], first: Node, last: Node) -> bool:
    """Whether what these values lie in changes between the two nodes."""
    owner = memory_of(block)
    held = {owner.get(v, v) for v in values}
    begin, end = block.nodes.index(first), block.nodes.index(last)
    return any(
        owner.get(v, v) in held
        for node in block.nodes[begin:end]
        if node.op.endswith("_")
        for v in node.outputs
    )


@register(level=4)
def fuse_batch_norm_relu_grad(program: Program) -> bool:
    """Let the gradient of a batch norm and the relu behind it be two passes over
    memory instead of three, which read less: the relu's sign follows from x.

    1. batch_norm_grad(relu_grad(dy, relu(batch_norm(x, scale, bias))), x, ..) ->
       batch_norm_relu_grad(dy, x, .., bias), all of float32.

    Requires that the norm's gradient alone reads the relu's, and that x, scale and
    bias are then what they were. Ensures the same bits: the norm is computed again as
    it was, and the sums are of the same numbers in the same order.
    """
    changed = False
    for block in program.blocks:
        for grad in block.nodes:
            if grad.op != "batch_norm_grad":
                continue
            found = _norm_behind(block, grad)
            if found is None:
                continue
            norm, gate = found
            read = [v for v in (*norm.inputs, *norm.outputs[1:]) if v is not None]
            if _changed(block, read, norm, grad):
                continue
            grad.op = "batch_norm_relu_grad"
            grad.inputs = [gate.inputs[0], *grad.inputs[1:], norm.inputs[2]]
            changed = True
    return changed
