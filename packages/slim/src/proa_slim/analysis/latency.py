"""How long a network takes, as a whole and by operator, measured on this machine."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import proa
from proa.errors import InvalidArgumentError
from proa.ir import file
from proa.ir.builder import make_node
from proa.ir.passes import optimize
from proa.ir.program import NUMPY_TYPES, Array, Node, Program, Value
from proa.runtime import Engine, engine_from_bytes
from proa.static import InputSpec
from proa_slim.analysis.operations import multiply_adds

#: Runs before those that are timed.
_WARM_UP = 3


def _program(network: proa.nn.Layer, specs: Sequence[InputSpec]) -> Program:
    """The network in evaluation mode, fused as when it is deployed."""
    stream = io.BytesIO()
    proa.jit.save(network, stream, list(specs))
    program = file.from_bytes(stream.getvalue())
    optimize(program, 3)
    return program


def _sample(value: Value) -> Array:
    """An input of ones; of sample size 1 where a size is symbolic."""
    shape = [1 if n < 0 else n for n in value.shape]
    return np.ones(shape, NUMPY_TYPES[value.dtype])


def _median(engine: Engine, inputs: list[Array], repeats: int) -> float:
    if repeats < 1:
        raise InvalidArgumentError(f"[latency] expected repeats above 0, got {repeats}")
    times = []
    for _ in range(_WARM_UP + repeats):
        begin = time.perf_counter()
        engine.run(inputs)
        times.append(time.perf_counter() - begin)
    return float(np.median(times[_WARM_UP:]))


def median_latency(
    network: proa.nn.Layer, specs: Sequence[InputSpec], repeats: int = 30
) -> float:
    """Seconds of a run of the exported network: the median of `repeats`.

    Raises:
        InvalidArgumentError: If `repeats` is not positive.
    """
    program = _program(network, specs)
    engine = engine_from_bytes(file.to_bytes(program))
    return _median(engine, [_sample(v) for v in program.main.inputs], repeats)


@dataclass(frozen=True)
class OperatorLatency:
    """One operator of the exported network, run alone.

    Attributes:
        name: Name of its result in the graph.
        op: The operator, perhaps fused.
        shape: Shape of its result.
        multiply_adds: Multiply-adds of one run.
        seconds: The median.
    """

    name: str
    op: str
    shape: tuple[int, ...]
    multiply_adds: int
    seconds: float


def latency_table(
    network: proa.nn.Layer, specs: Sequence[InputSpec], repeats: int = 30
) -> list[OperatorLatency]:
    """The time of each operator with its input at hand, in the order of the network.

    Operators of equal shapes and attributes are measured once.

    Args:
        network: Is not changed.
        specs: Those of its inputs. Only the first size may be symbolic; it is 1.
        repeats: Runs of which the median counts.

    Raises:
        InvalidArgumentError: If `repeats` is not positive.
    """
    program = _program(network, specs)
    known: dict[str, float] = {}
    table = []
    for node, alone in zip(program.main.nodes, single_operators(program), strict=True):
        key = str(alone)
        if key not in known:
            engine = engine_from_bytes(file.to_bytes(alone))
            inputs = [_sample(v) for v in alone.main.inputs]
            known[key] = _median(engine, inputs, repeats)
        output = alone.main.nodes[0]
        shapes = [None if v is None else v.shape for v in output.inputs]
        count = multiply_adds(node.op, shapes, [v.shape for v in output.outputs])
        result = output.outputs[0]
        table.append(
            OperatorLatency(
                node.outputs[0].name, node.op, result.shape, count, known[key]
            )
        )
    return table


def single_operators(program: Program) -> Iterator[Program]:
    """A program for each node; symbolic sizes are 1."""
    return map(_alone, program.main.nodes)


def _alone(node: Node) -> Program:
    """A program of the one node; symbolic sizes are 1, weights are constants."""
    program = Program()
    values: list[Value | None] = []
    for i, value in enumerate(node.inputs):
        if value is None:
            values.append(None)
        elif value.is_constant:
            values.append(program.constant(np.asarray(value.data), value.dtype))
        else:
            shape = tuple(1 if n < 0 else n for n in value.shape)
            values.append(Value(f"x{i}", value.dtype, shape, "input"))
            program.main.inputs.append(values[-1])  # type: ignore[arg-type]
    result = make_node(program, node.op, values, dict(node.attrs))
    program.main.nodes.append(result)
    program.main.outputs = list(result.outputs)
    return program
