"""Programs that are compressed: run, trained, and with new statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.ir import file
from proa.ir.builder import make_node
from proa.ir.program import Array, Program
from proa_slim.quant.interpret import interpret
from proa_slim.quant.model import QuantizedModel


def runner(program: Program) -> QuantizedModel:
    """The program, to be called on arrays, as runtimes run it."""
    return QuantizedModel(program, [])


def unfused(program: Program) -> Program:
    """A copy to be trained: products apart from residuals and activations, which passes
    for inference put into them. Names of weights stay.
    """
    result = file.from_bytes(file.to_bytes(program))
    nodes = []
    for node in result.main.nodes:
        nodes.append(node)
        if node.op not in ("conv2d_act", "linear_act"):
            continue
        attrs = dict(node.attrs)
        act = attrs.pop("act", "none")
        bias, residual = ([*node.inputs, None, None][:4])[2:]
        steps = [make_node(result, node.op[:-4], [*node.inputs[:2], bias], attrs)]
        if residual is not None:
            inputs = [steps[-1].outputs[0], residual]
            steps.append(make_node(result, "add", inputs, {}))
        if act != "none":
            steps.append(make_node(result, act, [steps[-1].outputs[0]], {}))
        result.main.replace(node.outputs[0], steps[-1].outputs[0])
        nodes[-1:] = steps
    result.main.nodes = nodes
    return result


def renew_norms(program: Program, batches: Sequence[Sequence[Array]]) -> None:
    """Give the batch norms of a pruned program the statistics of what they read now,
    one after the other.
    """
    for node in [n for n in program.main.nodes if n.op == "batch_norm_infer"]:
        x, mean, variance = node.inputs[:3]
        if x is None or mean is None or variance is None or mean.data is None:
            continue
        sums: list[Array] = []

        def watch(value: Any, array: Array, wanted: Any = x, to: Any = sums) -> None:
            if value is wanted:
                axes = tuple(i for i in range(array.ndim) if i != 1)
                wide = array.astype(np.float64)
                to.append(np.stack([wide.mean(axes), (wide**2).mean(axes)]))

        for batch in batches:
            interpret(program, batch, watch)
        if sums:
            first, second = np.mean(sums, axis=0)
            mean.data = first.astype(np.asarray(mean.data).dtype)
            kind = np.asarray(variance.data).dtype
            variance.data = np.maximum(second - first**2, 0).astype(kind)
