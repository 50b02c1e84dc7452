from __future__ import annotations

from proa.ir.program import Node, Program


def _swaps(node: Node) -> bool:
    """Whether the node transposes a matrix."""
    if node.op == "transpose":
        return list(node.attrs["perm"]) == [1, 0]
    return node.op == "swap_last"


def fuse_transposed_weight_grad(program: Program) -> bool:
    """Compute the gradient of weights that are stored transposed in their layout.

    1. swap_last(linear_grad_weight(x, dy)) -> linear_grad_weight(dy, x).
    2. The same of transpose.

    Requires that nothing else reads the product. Ensures the same bits, as an element
    is the sum of the same terms in the same order, and that an optimizer steps through
    its arrays in one direction.
    """
    changed = False
    for block in program.blocks:
        merged: set[Node] = set()
        for node in block.nodes:
            if node.op != "linear_grad_weight":
                continue
            transpose = node.outputs[0].only_user
            if transpose is None or not _swaps(transpose):
                continue
            node.inputs = [node.inputs[1], node.inputs[0]]
            node.outputs = transpose.outputs
            node.outputs[0].producer = node
            merged.add(transpose)
        if merged:
            block.nodes = [n for n in block.nodes if n not in merged]
            changed = True
    return changed
