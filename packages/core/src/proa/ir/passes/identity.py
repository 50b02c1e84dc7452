from __future__ import annotations

from proa.ir.attributes import row_of
from proa.ir.program import Node, Program, Value

_SHAPED = (
    "reshape", "broadcast_to", "squeeze", "unsqueeze", "flatten", "reshape_like",
)  # fmt: skip
_OPS = frozenset(
    (
        "assign",
        "cast",
        "cast_like",
        "scale",
        "dropout",
        "transpose",
        "pad",
        "sum_to",
        *_SHAPED,
    )
)


def _same(node: Node, x: Value) -> bool:
    y, attrs = node.outputs[0], node.attrs
    if node.op == "assign":
        return True
    if node.op in ("cast", "cast_like"):
        return x.dtype == y.dtype
    if node.op == "scale":
        return bool(attrs["scale"] == 1.0 and attrs["bias"] == 0.0)
    if node.op == "dropout":
        return bool(attrs["p"] == 0.0)
    if node.op == "transpose":
        return bool(attrs["perm"] == tuple(range(len(x.shape))))
    if node.op == "sum_to":
        return x.shape == y.shape and -1 not in x.shape
    if node.op in _SHAPED:
        return x.shape == y.shape and x.shape.count(-1) <= 1
    if node.op == "pad":
        return not any(attrs["low"]) and not any(attrs["high"])
    return False


def remove_identities(program: Program) -> bool:
    """Let readers of a node that changes nothing read its input.

    1. assign; 2. cast to the dtype it has; 3. scale by 1 plus 0; 4. dropout with p = 0;
    5. transpose in order; 6. reshape, flatten, squeeze, unsqueeze, broadcast_to that
    keep a shape with at most one unknown dimension; 7. pad by nothing; 8. sum_to the
    shape that it has, all of which is known.

    Leaves the nodes as dead code, and outputs their names. What an op that changes its
    arrays is given stays: a copy of it may be wanted as it was before.
    """
    changed = False
    for block in program.blocks:
        updates = (n for n in block.nodes if row_of(n.op).mutates)
        changing = {v for n in updates for v in n.inputs}
        for node in block.nodes:
            if node.op not in _OPS:
                continue
            x = node.inputs[0] if node.inputs else None
            if x is None or not _same(node, x) or x in changing:
                continue
            y = node.outputs[0]
            if y.is_output and (x.kind != "node" or x.is_output):
                continue  # an output keeps a name of its own
            if y.users or y.is_output:
                if y.is_output:
                    x.name, y.name = y.name, x.name
                block.replace(y, x)
                changed = True
    return changed
