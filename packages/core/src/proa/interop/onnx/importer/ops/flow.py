"""Control flow: If, Loop and Scan."""

from __future__ import annotations

from typing import Any

import proa
from proa.interop.graph.limits import UNROLLED
from proa.interop.graph.values import as_tensor, is_symbolic, sizes
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op
from proa.jit.control_flow import cond as branch_on
from proa.jit.control_flow import while_loop


@onnx_op("If", folds=False)
def if_else(call: Call, condition: Any) -> Any:
    then, other = call.get("then_branch"), call.get("else_branch")
    if not is_symbolic(condition):
        return tuple(call.run(then if call.number(condition) else other))

    def of(graph: Any) -> Any:
        return lambda: [as_tensor(v) for v in call.run(graph)]

    found = branch_on(proa.reshape(condition, [1]), of(then), of(other))
    return tuple(found) if isinstance(found, (list, tuple)) else (found,)


@onnx_op("Loop", folds=False)
def loop(call: Call, count: Any, condition: Any, *carried: Any) -> Any:
    symbolic = is_symbolic(count) or is_symbolic(condition)
    if symbolic:
        scans = call.get("body").outputs[1 + len(carried) :]
        empty: list[list[Any]] = [[] for _ in scans]
        return _recorded_loop(call, count, condition, list(carried), empty, 0)
    body, values, rounds = call.get("body"), list(carried), 0
    limit = None if count is None else call.number(count)
    goes_on: Any = True if condition is None else call.number(condition)
    scanned: list[list[Any]] = [[] for _ in body.outputs[1 + len(values) :]]
    while goes_on and (limit is None or rounds < limit):
        at = proa.to_tensor(rounds, "int64")
        test, *result = call.run(body, [at, proa.to_tensor(True), *values])
        values = result[: len(values)]
        for items, value in zip(scanned, result[len(values) :], strict=True):
            items.append(as_tensor(value))
        rounds += 1
        if is_symbolic(test) or (rounds == UNROLLED and any(map(is_symbolic, values))):
            return _recorded_loop(call, count, test, values, scanned, rounds)
        goes_on = call.number(test)
    stacked = [_stacked(call, i, items) for i, items in enumerate(scanned)]
    return (*values, *stacked)


def _stacked(call: Call, at: int, items: list[Any]) -> Any:
    if items:
        return proa.stack(items, 0)
    body = call.get("body")
    info = body.outputs[len(body.outputs) - (len(call.node.outputs) - at)]
    return proa.zeros([0, *(n or 0 for n in info.shape or [])], info.dtype or "float32")


def _recorded_loop(
    call: Call, count: Any, condition: Any, values: list[Any],
    scanned: list[list[Any]], first: int,
) -> Any:  # fmt: skip
    """The rounds from the first that is given, with the results of those before it.

    Arrays of results grow by one row in each round.
    """
    body, carried = call.get("body"), len(values)
    going = proa.to_tensor(True) if condition is None else condition
    if first and not is_symbolic(going):
        going = proa.cast(_recorded(proa.cast(going, "int64"), values), "bool")
    limit = proa.to_tensor(2**62) if count is None else proa.cast(count, "int64")
    limit = proa.reshape(limit, [1])
    start = limit * 0 + first
    tensors = [as_tensor(v) for v in values]

    def goes_on(at: Any, test: Any, *_: Any) -> Any:
        return proa.logical_and(proa.less_than(at, limit), test)

    def round_of(at: Any, test: Any, state: list[Any]) -> list[Any]:
        given = [proa.reshape(at, []), proa.reshape(test, []), *state]
        return [as_tensor(v) for v in call.run(body, given)]

    def step(at: Any, test: Any, *state: Any) -> Any:
        test, *result = round_of(at, test, list(state[:carried]))
        rows = [
            _grown(a, v) for a, v in zip(state[carried:], result[carried:], strict=True)
        ]
        return [at + 1, proa.reshape(test, [1]), *result[:carried], *rows]

    arrays = []
    if scanned:
        # A round that nothing reads: it says what the rows are like.
        examples = round_of(start, going, tensors)[1 + carried :]
        arrays = [
            proa.stack(items, 0) if items else _no_rows(example)
            for items, example in zip(scanned, examples, strict=True)
        ]
    found = while_loop(
        goes_on, step, [start, proa.reshape(going, [1]), *tensors, *arrays]
    )
    return tuple(found[2:])


def _recorded(number: Any, values: list[Any]) -> Any:
    """A number as the result of a recorded operator, for a loop that is recorded."""
    like = next(v for v in values if is_symbolic(v))
    axes = list(range(like.ndim))
    some = proa.slice(like, axes, [0] * like.ndim, [1] * like.ndim) if axes else like
    return number + proa.sum(proa.zeros_like(some, "int64"))


def _no_rows(example: Any) -> Any:
    return proa.zeros([0, *example.shape], example.dtype)


def _grown(array: Any, row: Any) -> Any:
    return proa.concat([array, proa.unsqueeze(row, [0])], 0)


@onnx_op("Scan", folds=False)
def scan_batches(call: Call, lengths: Any, *inputs: Any) -> Any:
    if lengths is not None:
        raise call.refuse("lengths of sequences")
    count = len(inputs) - call.get("num_scan_inputs")
    batch, found = inputs[0].shape[0], []
    if type(batch) is not int or (is_symbolic(inputs[0]) and batch > UNROLLED):
        raise call.refuse("a symbolic or large batch")
    for n in range(batch):
        rows = [proa.squeeze(proa.slice(v, [0], [n], [n + 1]), [0]) for v in inputs]
        found.append(_scan(call, rows, count, "directions"))
    return tuple(proa.stack(list(values), 0) for values in zip(*found, strict=True))


@onnx_op("Scan", since=9, folds=False)
def scan(call: Call, *inputs: Any) -> Any:
    count = len(inputs) - call.get("num_scan_inputs")
    return tuple(_scan(call, list(inputs), count, "scan_input_directions"))


def _scan(call: Call, inputs: list[Any], count: int, directions: str) -> list[Any]:
    body, values, series = call.get("body"), inputs[:count], inputs[count:]
    axes = call.get("scan_input_axes", [0] * len(series))
    backwards = call.get(directions, [0] * len(series))
    steps = series[0].shape[axes[0]]
    recorded = any(map(is_symbolic, inputs))
    if type(steps) is not int or (recorded and steps > UNROLLED):
        return _recorded_scan(call, values, series, axes, backwards)
    outputs: list[list[Any]] = [[] for _ in body.outputs[count:]]
    for t in range(steps):
        given = []
        for v, axis, back in zip(series, axes, backwards, strict=True):
            at = steps - 1 - t if back else t
            given.append(proa.squeeze(proa.slice(v, [axis], [at], [at + 1]), [axis]))
        result = call.run(body, [*values, *given])
        values = result[:count]
        for items, value in zip(outputs, result[count:], strict=True):
            items.append(as_tensor(value))
    axes, reverse = _output_axes(call, len(outputs))
    stacked = [
        proa.stack(items[::-1] if back else items, axis)
        for items, axis, back in zip(outputs, axes, reverse, strict=True)
    ]
    return [*values, *stacked]


def _output_axes(call: Call, count: int) -> tuple[list[int], list[int]]:
    axes = call.get("scan_output_axes", [0] * count)
    return axes, call.get("scan_output_directions", [0] * count)


def _recorded_scan(
    call: Call, values: list[Any], series: list[Any], axes: list[int],
    backwards: list[int],
) -> list[Any]:  # fmt: skip
    """A scan along a symbolic or long dimension, as a loop whose results grow."""
    body, count = call.get("body"), len(values)
    steps = as_tensor(sizes([series[0].shape[axes[0]]]))
    if not is_symbolic(steps):
        steps = _recorded(steps, [*values, *series])
    series = [
        proa.flip(v, [axis]) if back else v
        for v, axis, back in zip(series, axes, backwards, strict=True)
    ]
    tensors = [as_tensor(v) for v in values]

    def step(at: Any, *state: Any) -> list[Any]:
        rows = [
            proa.squeeze(proa.index_select(v, at, axis), [axis])
            for v, axis in zip(series, axes, strict=True)
        ]
        results = [as_tensor(v) for v in call.run(body, [*state[:count], *rows])]
        more = [
            _grown(a, v) for a, v in zip(state[count:], results[count:], strict=True)
        ]
        return [at + 1, *results[:count], *more]

    start = steps * 0
    examples = call.run(body, [*tensors, *_rows_like(series, axes)])[count:]
    empty = [_no_rows(as_tensor(v)) for v in examples]
    found = while_loop(
        lambda at, *_: proa.less_than(at, steps), step, [start, *tensors, *empty]
    )
    results = list(found[1 + count :])
    outputs, reverse = _output_axes(call, len(results))
    for i, (axis, back) in enumerate(zip(outputs, reverse, strict=True)):
        y = proa.flip(results[i], [0]) if back else results[i]
        order = list(range(1, y.ndim))
        order.insert(axis % y.ndim, 0)
        results[i] = proa.transpose(y, order) if order[0] else y
    return [*found[1 : 1 + count], *results]


def _rows_like(series: list[Any], axes: list[int]) -> list[Any]:
    """Arrays of zeros with the shapes of one step's inputs."""
    shapes = [
        [*v.shape[:a], *v.shape[a + 1 :]] for v, a in zip(series, axes, strict=True)
    ]
    return [proa.zeros(n, v.dtype) for v, n in zip(series, shapes, strict=True)]
