"""What a profiled run says: a table, and a trace for chrome://tracing or Perfetto."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from proa.ir import Node, Program, Value
from proa.ir.attributes import row_of
from proa.ir.program import NUMPY_TYPES
from proa.ir.shapes import infer


@dataclass(frozen=True)
class StepTime:
    """One step of a profiled run.

    Attributes:
        op, name: The operator, and its first output.
        milliseconds: How long it took.
        flops: Multiplications and additions; 0 where they are not known.
        bytes: Read and written, once for each array; 0 where they are not known.
    """

    op: str
    name: str
    milliseconds: float
    flops: int = 0
    bytes: int = 0

    @property
    def gflops(self) -> float:
        """Operations a second, in 10^9."""
        return self.flops / self.milliseconds / 1e6 if self.milliseconds > 0 else 0.0


def profile_table(runs: Sequence[Sequence[StepTime]]) -> str:
    """The steps of several runs, the slowest first, with means of the runs."""
    totals: dict[tuple[str, str], StepTime] = {}
    for steps in runs:
        for step in steps:
            known = totals.get((step.op, step.name))
            before = 0.0 if known is None else known.milliseconds
            totals[step.op, step.name] = replace(
                step, milliseconds=before + step.milliseconds
            )
    count = max(len(runs), 1)
    whole = sum(step.milliseconds for step in totals.values()) or 1.0
    lines = [f"{'share':>6} {'ms':>9} {'GFLOP/s':>8} {'MB':>8}  op"]
    for step in sorted(totals.values(), key=lambda s: -s.milliseconds):
        mean = replace(step, milliseconds=step.milliseconds / count)
        speed = f"{mean.gflops:8.2f}" if step.flops else f"{'-':>8}"
        size = f"{step.bytes / 1e6:8.3f}" if step.bytes else f"{'-':>8}"
        lines.append(
            f"{step.milliseconds / whole:6.1%} {mean.milliseconds:9.4f} {speed} "
            f"{size}  {step.op} {step.name}"
        )
    return "\n".join(lines)


def write_chrome_trace(path: str | Path, runs: Sequence[Sequence[StepTime]]) -> None:
    """Write the steps of runs as a JSON file of trace events, one after another."""
    events: list[dict[str, object]] = []
    now = 0.0
    for number, steps in enumerate(runs):
        start = now
        for step in steps:
            duration = step.milliseconds * 1e3
            about = {"name": step.name, "flops": step.flops, "bytes": step.bytes}
            events.append(_event(step.op, now, duration, about))
            now += duration
        events.append(_event("run", start, now - start, {"number": number}))
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
    Path(path).write_text(text, encoding="utf-8")


def _event(
    name: str, start: float, duration: float, about: dict[str, object]
) -> dict[str, object]:
    return {
        "name": name, "ph": "X", "ts": start, "dur": duration, "pid": 1, "tid": 1,
        "args": about,
    }  # fmt: skip


class Costs:
    """Operations and bytes of the nodes of a program for given input shapes.

    Args:
        program: Is not changed. Nothing is known of one with control flow.
        shapes: Shapes of its inputs.
    """

    def __init__(self, program: Program, shapes: Sequence[Sequence[int]]) -> None:
        self._nodes: dict[str, Node] = {}
        if any(row_of(node.op).kind == "flow" for node in program.nodes()):
            return
        clone = program.copy()
        for value, shape in zip(clone.main.inputs, shapes, strict=True):
            value.shape = tuple(shape)
        for node in clone.main.nodes:
            found = infer(node.op, node.inputs, node.attrs)
            for value, (_, shape) in zip(node.outputs, found, strict=True):
                value.shape = tuple(shape)
            self._nodes[node.outputs[0].name] = node

    def of(self, name: str) -> tuple[int, int]:
        """(operations, bytes) of the node with this first output; 0 if not known."""
        node = self._nodes.get(name)
        if node is None:
            return 0, 0
        arrays = [v for v in (*node.inputs, *node.outputs) if v is not None]
        if any(-1 in value.shape for value in arrays):
            return 0, 0
        size = sum(math.prod(v.shape) * _element_bytes(v) for v in arrays)
        return _flops(node), size


def _element_bytes(value: Value) -> int:
    return int(np.dtype(NUMPY_TYPES[value.dtype]).itemsize)


_PRODUCTS = frozenset(
    ("linear", "linear_act", "linear_dynamic", "linear_int8", "linear_weight_only",
     "matmul", "matmul_int8")
)  # fmt: skip
_CONVOLUTIONS = frozenset(("conv2d", "conv2d_act", "conv2d_norm", "conv2d_int8"))


def _flops(node: Node) -> int:
    result = math.prod(node.outputs[0].shape)
    shapes = [() if v is None else v.shape for v in node.inputs]
    if node.op in _PRODUCTS:  # (.., k) @ (k, n): k products and sums for each element
        return 2 * result * shapes[0][-1]
    if node.op in _CONVOLUTIONS:  # weight (out, in / groups, KH, KW)
        return 2 * result * math.prod(shapes[1][1:])
    if node.op == "conv2d_transpose":  # each element of x goes through the window
        return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if node.op in ("attention", "attention_int8"):  # (batch, length, heads, width)
        q, k, v = shapes[:3]
        return 2 * q[0] * q[2] * q[1] * k[1] * (q[3] + v[3])
    if node.op in ("recurrent", "recurrent_int8"):  # (time, batch, ..)
        return 2 * math.prod(shapes[0][:2]) * math.prod(shapes[1])
    return result if row_of(node.op).elementwise else 0
