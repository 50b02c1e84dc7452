"""Reading and writing elements at indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import proa
from proa._core import ops
from proa.interop.graph.values import as_host, as_tensor, is_symbolic, simplified
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op
from proa.nn.nms import true_indices
from proa.tensor.search import coordinates_of


def wrapped(index: Any, size: Any) -> Any:
    """Indices without negative ones, which count from the end."""
    if not index._is_symbolic:
        if (index.numpy() >= 0).all():
            return index
    elif type(size) is not int:
        size = proa.cast(size.number(), index.dtype)
    return proa.where(
        proa.less_than(index, proa.zeros_like(index)), index + size, index
    )


@onnx_op("Gather")
def gather(call: Call, x: Any, index: Any) -> Any:
    axis = call.get("axis", 0) % max(x.ndim, 1)
    if isinstance(x, np.ndarray):
        return np.take(x, as_host(index, call.place), axis)
    flat = wrapped(proa.reshape(index, [-1]), x.shape[axis])
    found = proa.gather(x, flat, axis)
    shape = list(x.shape[:axis]) + list(index.shape) + list(x.shape[axis + 1 :])
    return found if index.ndim == 1 else proa.reshape(found, shape)


@onnx_op("GatherElements")
def gather_elements(call: Call, x: Any, index: Any) -> Any:
    axis = call.get("axis", 0) % x.ndim
    return proa.take_along_axis(x, wrapped(index, x.shape[axis]), axis, False)


def _wrapped_tuples(call: Call, index: Any, shape: list[int]) -> Any:
    last = index.shape[-1]
    sizes = as_tensor(simplified(np.array(shape[:last], object)))
    zero = proa.zeros_like(index)
    index_from_end = index + proa.cast(sizes, index.dtype)
    return proa.where(proa.less_than(index, zero), index_from_end, index)


@onnx_op("GatherND")
def gather_nd(call: Call, x: Any, index: Any) -> Any:
    batch = call.get("batch_dims", 0)
    if not batch:
        return proa.gather_nd(x, _wrapped_tuples(call, index, x.shape))
    shape = x.shape
    rows = math.prod(call.known(shape[:batch]))
    call.known(index.shape)
    x = proa.reshape(x, [rows, *shape[batch:]])
    index = proa.reshape(index, [rows, *index.shape[batch:]])
    index = _wrapped_tuples(call, index, x.shape[1:])
    numbers = np.arange(rows, dtype=np.int64).reshape([-1, *[1] * (index.ndim - 1)])
    numbers = np.broadcast_to(numbers, [*index.shape[:-1], 1]).copy()
    index = proa.concat([proa.to_tensor(numbers), index.astype("int64")], -1)
    found = proa.gather_nd(x, index)
    return proa.reshape(found, [*shape[:batch], *found.shape[1:]])


_REDUCED = {"none": "assign", "add": "add", "mul": "mul"}


def _put(call: Call, x: Any, index: Any, updates: Any, axis: int) -> Any:
    how = call.get("reduction", "none")
    if how in _REDUCED:
        kind = _REDUCED[how]
        return proa.put_along_axis(x, index, updates, axis, kind, broadcast=False)
    # No operator has maxima and minima at indices: they run in NumPy.
    array, at = call.host(x).copy(), call.host(index)
    places: list[Any] = list(np.indices(at.shape))
    places[axis] = at
    function = {"max": np.maximum, "min": np.minimum}[how]
    function.at(array, tuple(places), call.host(updates))
    return proa.to_tensor(array)


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(call: Call, x: Any, index: Any, updates: Any) -> Any:
    axis = call.get("axis", 0) % x.ndim
    index = wrapped(index, x.shape[axis])
    return _put(call, x, index, updates, axis)


@onnx_op("ScatterND")
def scatter_nd(call: Call, x: Any, index: Any, updates: Any) -> Any:
    how = call.get("reduction", "none")
    if how in ("none", "add"):
        tuples = _wrapped_tuples(call, index.astype("int64"), x.shape)
        function = ops.index_put if how == "none" else proa.scatter_nd_add
        return function(x, tuples, updates)
    shape, depth = call.known(x.shape), index.shape[-1]
    sizes = np.array(shape[:depth], np.int64)
    steps = np.array([math.prod(sizes[i + 1 :]) for i in range(depth)], np.int64)
    tuples = _wrapped_tuples(call, index.astype("int64"), shape)
    rows = proa.reshape(proa.sum(tuples * proa.to_tensor(steps), -1), [-1])
    width = math.prod(shape[depth:])
    flat = proa.reshape(x, [math.prod(shape[:depth]), width])
    updates = proa.reshape(updates, [-1, width])
    index = proa.expand(proa.unsqueeze(rows, [1]), [rows.shape[0], width])
    return proa.reshape(_put(call, flat, index, updates, 0), shape)


@onnx_op("TensorScatter")
def tensor_scatter(call: Call, past: Any, update: Any, start: Any = None) -> Any:
    axis = call.get("axis", -2) % past.ndim
    size, steps = past.shape[axis], update.shape[axis]
    call.known([*past.shape, *update.shape])
    first = np.zeros(past.shape[0], np.int64) if start is None else call.host(start)
    at = first[:, None] + np.arange(steps)
    if call.get("mode", "linear") == "circular":
        at = at % size
    shape = [1] * past.ndim
    shape[0], shape[axis] = past.shape[0], steps
    index = np.broadcast_to(at.reshape(shape), update.shape).copy()
    return proa.put_along_axis(
        past, proa.to_tensor(index), update, axis, broadcast=False
    )


@onnx_op("NonZero")
def non_zero(call: Call, x: Any) -> Any:
    if x.ndim == 0:
        x = proa.reshape(x, [1])
    if is_symbolic(x):  # how many there are follows from elements
        shape = x.shape
        flat = ops.flatten(x != 0, start_axis=0, stop_axis=x.ndim - 1)
        return proa.transpose(coordinates_of(true_indices(flat), shape), [1, 0])
    return proa.transpose(proa.nonzero(x).astype("int64"), [1, 0])


@onnx_op("Compress")
def compress(call: Call, x: Any, condition: Any) -> Any:
    axis = call.get("axis")
    if axis is None:
        x, axis = proa.reshape(x, [-1]), 0
    return proa.index_select(x, true_indices(condition), axis % x.ndim)


@onnx_op("Unique")
def unique(call: Call, x: Any) -> Any:
    array, axis = call.host(x), call.get("axis")
    values, first, inverse, counts = np.unique(array, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not call.get("sorted", 1):
        order = np.argsort(first)
        rank = np.argsort(order)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    numbers = [proa.to_tensor(v.astype(np.int64)) for v in (first, inverse, counts)]
    return proa.to_tensor(np.ascontiguousarray(values)).astype(x.dtype), *numbers
