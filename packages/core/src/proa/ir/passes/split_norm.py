from __future__ import annotations

from proa.ir.attributes import row_of
from proa.ir.builder import make_node
from proa.ir.passes.chains import MIN_ELEMENTS
from proa.ir.program import Node, Program

#: Below so many channels a row of an elementwise pass is too short to pay.
_MIN_CHANNELS = 48


def _splits(node: Node) -> bool:
    """Whether an elementwise pass follows that the second half can be part of."""
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    if any(v is None or v.dtype != "float32" for v in node.inputs):
        return False
    # Convolutions write channels last, where channels are neighbours.
    last = len(x.shape) == 2 or (x.producer is not None and x.producer.op == "conv2d")
    if not last or len(x.shape) not in (2, 4) or x.shape[1] < _MIN_CHANNELS:
        return False
    count = 1
    for d in x.shape:
        count *= max(d, 1)
    if count < MIN_ELEMENTS:
        return False
    return any(
        row_of(n.op).elementwise and n.outputs[0].shape == y.shape for n in y.users
    )


def split_batch_norm(program: Program) -> bool:
    """Let what follows a batch norm be one pass over memory with its second half.

    1. batch_norm(x, scale, bias) with an elementwise reader (an activation, the sum
       with a shortcut) -> normalise_by(x, mean, factor, bias), its numbers those of
       channel_moments(x, scale) - if x is float32 with neighbouring channels, 48 or
       more, and large enough for a chain.

    Ensures the same bits: both halves compute as batch_norm does. chain_elementwise
    then joins the second with its readers.
    """
    changed = False
    for block in program.blocks:
        nodes: list[Node] = []
        for node in block.nodes:
            if node.op != "batch_norm" or not _splits(node):
                nodes.append(node)
                continue
            x, scale, bias = node.inputs
            moments = make_node(program, "channel_moments", [x, scale], node.attrs)
            y, mean, variance = node.outputs
            moments.outputs[:2] = [mean, variance]
            for v in (mean, variance):
                v.producer = moments
            parts = [mean, moments.outputs[2], bias]
            assert x is not None
            if len(x.shape) == 4:
                shape = (x.shape[1], 1, 1)
                views = [
                    make_node(program, "reshape", [v], {"shape": shape}) for v in parts
                ]
                parts = [n.outputs[0] for n in views]
            else:
                views = []
            last = make_node(program, "normalise_by", [x, *parts], {})
            last.outputs, y.producer = [y], last
            for result in (moments, *views, last):
                result.location = node.location
            nodes += [moments, *views, last]
            changed = True
        block.nodes = nodes
    return changed
