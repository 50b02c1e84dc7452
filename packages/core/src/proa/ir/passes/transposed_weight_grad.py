from __future__ import annotations

from proa.ir.passes.base import register
from proa.ir.passes.match import only_user
from proa.ir.program import Node, Program


def _swaps(node: Node) -> bool:
    """Whether the node transposes a matrix."""
    if node.op == "transpose":
        return list(node.attrs["perm"]) == [1, 0]
    return node.op == "swap_last"


@register(level=4)
def fuse_transposed_weight_grad(program: Program) -> bool:
    """Make the gradient of weights that are kept transposed as they lie.

    1. swap_last(linear_grad_weight(x, dy)) -> linear_grad_weight(dy, x).
    2. The same of transpose.

    Requires that nothing else reads the product. Ensures the same bits, as an element
    is the sum of the same terms in the same order, and that an optimizer steps through
    its arrays in one direction.
    """
    changed = False
    for block in program.blocks:
        for node in list(block.nodes):
            if node.op != "linear_grad_weight":
                continue
            turn = only_user(block, node.outputs[0])
            if turn is None or not _swaps(turn):
                continue
            node.inputs = [node.inputs[1], node.inputs[0]]
            node.outputs = turn.outputs
            node.outputs[0].producer = node
            block.nodes.remove(turn)
            changed = True
    return changed
