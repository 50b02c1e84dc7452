from __future__ import annotations

from bisect import bisect_left

from proa.ir.attributes import row_of
from proa.ir.passes.hoist_updates import storage_owners
from proa.ir.passes.match import produced_by
from proa.ir.program import Block, Node, Program, Value


def _norm_before(grad: Node) -> tuple[Node, Node] | None:
    """The batch norm whose gradient that is, if a relu follows it, and the relu's
    gradient, if nothing else reads that.
    """
    relu_grad = produced_by(grad.inputs[0], "relu_grad")
    if relu_grad is None or relu_grad.outputs[0].only_user is not grad:
        return None
    relu = produced_by(relu_grad.inputs[1], "relu")
    norm = produced_by(relu.inputs[0], "batch_norm") if relu is not None else None
    if norm is None or norm.attrs != grad.attrs:
        return None
    x, mean, variance, scale = grad.inputs[1:5]
    if norm.inputs[:2] != [x, scale] or norm.outputs[1:] != [mean, variance]:
        return None
    if any(v is None or v.dtype != "float32" for v in (*norm.inputs, grad.inputs[0])):
        return None
    return norm, relu_grad


class _Updates:
    """Where in a block memory is changed."""

    def __init__(self, block: Block) -> None:
        self.owner = storage_owners(block)
        self.place = {node: i for i, node in enumerate(block.nodes)}
        self.times: dict[Value, list[int]] = {}
        for i, node in enumerate(block.nodes):
            if row_of(node.op).mutates:
                for v in node.outputs:
                    self.times.setdefault(self.owner.get(v, v), []).append(i)

    def changes(self, value: Value, first: Node, last: Node) -> bool:
        """Whether the value's memory changes between the two nodes."""
        times = self.times.get(self.owner.get(value, value), [])
        k = bisect_left(times, self.place[first])
        return k < len(times) and times[k] < self.place[last]


def fuse_batch_norm_relu_grad(program: Program) -> bool:
    """Let the gradient of a batch norm and the relu after it be two passes over
    memory instead of three, which read less: the relu's sign follows from x.

    1. batch_norm_grad(relu_grad(dy, relu(batch_norm(x, scale, bias))), x, ..) ->
       batch_norm_relu_grad(dy, x, .., bias), all of float32.

    Requires that the norm's gradient alone reads the relu's, and that x, scale and
    bias are then what they were. Ensures the same bits: the norm is computed again as
    it was, and the sums are of the same numbers in the same order.
    """
    changed = False
    for block in program.blocks:
        grads = [n for n in block.nodes if n.op == "batch_norm_grad"]
        if not grads:
            continue
        updates = _Updates(block)
        for grad in grads:
            found = _norm_before(grad)
            if found is None:
                continue
            norm, relu_grad = found
            read = [v for v in (*norm.inputs, *norm.outputs[1:]) if v is not None]
            if any(updates.changes(v, norm, grad) for v in read):
                continue
            grad.op = "batch_norm_relu_grad"
            grad.inputs = [relu_grad.inputs[0], *grad.inputs[1:], norm.inputs[2]]
            changed = True
    return changed
