"""Reductions, and what runs along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proa
from proa._core import ops
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.elementwise import is_float
from proa.interop.onnx.importer.table import onnx_op
from proa.tensor.symbolic_dims import SymbolicDim


def _log_sum_exp(x: Any, axis: Any, keepdim: bool) -> Any:
    return proa.logsumexp(x, axis, keepdim)


def _boolean(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(x: Any, axis: Any, keepdim: bool) -> Any:
        if x.dtype.name == "bool":
            return function(x.astype("uint8"), axis, keepdim=keepdim).astype("bool")
        return function(x, axis, keepdim=keepdim)

    return reduced


def _in_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a result of the dtype that its argument has."""

    def reduced(x: Any, axis: Any, keepdim: bool) -> Any:
        wide = x if is_float(x) else x.astype("float64")
        return function(wide, axis, keepdim=keepdim).astype(x.dtype)

    return reduced


def _exact(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(x: Any, axis: Any, keepdim: bool) -> Any:
        return function(x, axis, keepdim=keepdim).astype(x.dtype)

    return reduced


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": _exact(
        lambda x, axis, keepdim: proa.sum(proa.abs(x), axis, keepdim=keepdim)
    ),
    "ReduceL2": _in_dtype(
        lambda x, axis, keepdim: proa.sqrt(proa.sum(x * x, axis, keepdim=keepdim))
    ),
    "ReduceLogSum": _in_dtype(
        lambda x, axis, keepdim: proa.log(proa.sum(x, axis, keepdim=keepdim))
    ),
    "ReduceLogSumExp": _in_dtype(_log_sum_exp),
    "ReduceMax": _boolean(proa.max),
    "ReduceMean": _in_dtype(proa.mean),
    "ReduceMin": _boolean(proa.min),
    "ReduceProd": _exact(proa.prod),
    "ReduceSum": _exact(proa.sum),
    "ReduceSumSquare": _exact(
        lambda x, axis, keepdim: proa.sum(x * x, axis, keepdim=keepdim)
    ),
}

#: What is the result where there are no elements.
_EMPTY = {
    "ReduceMax": float("-inf"), "ReduceMin": float("inf"), "ReduceProd": 1.0,
    "ReduceLogSum": float("-inf"), "ReduceLogSumExp": float("-inf"),
}  # fmt: skip


def _of_nothing(call: Call, x: Any, axes: list[int], keepdim: bool) -> Any:
    value = _EMPTY.get(call.op, 0.0)
    if value in (float("inf"), float("-inf")) and x.dtype.name == "bool":
        value = float(value > 0)
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
    if not keepdim:
        shape = [n for i, n in enumerate(shape) if i not in axes]
    return proa.full(shape, value, x.dtype)


def _reduction(name: str, function: Callable[..., Any]) -> None:
    def rule(call: Call, x: Any, axes: Any = None) -> Any:
        found = call.ints(axes, "axes")
        keepdim = bool(call.get("keepdims", 1))
        if not found:
            if call.get("noop_with_empty_axes", 0):
                # each element is then reduced by itself
                one = function(proa.unsqueeze(x, [0]), [0], False)
                return x if name in ("ReduceSum", "ReduceMean") else one
            found = list(range(x.ndim))
        found = [axis % max(x.ndim, 1) for axis in found]
        if any(x.shape[a] == 0 for a in found if a < x.ndim):
            return _of_nothing(call, x, found, keepdim)
        if not found:  # no axis at all
            return function(proa.reshape(x, [1]), [0], False)
        return function(x, found, keepdim)

    onnx_op(name, host=(1,))(rule)


for _name, _function in _REDUCTIONS.items():
    _reduction(_name, _function)


def _arg_rule(name: str, function: Callable[..., Any]) -> None:
    def rule(call: Call, x: Any) -> Any:
        axis = call.get("axis", 0)
        keepdim = bool(call.get("keepdims", 1))
        if not call.get("select_last_index", 0):
            return function(x, axis, keepdim).astype("int64")
        flipped = function(proa.flip(x, [axis]), axis, keepdim).astype("int64")
        return call.known([x.shape[axis]])[0] - 1 - flipped

    onnx_op(name)(rule)


_arg_rule("ArgMax", proa.argmax)
_arg_rule("ArgMin", proa.argmin)


@onnx_op("CumSum", host=(1,))
def cumsum(call: Call, x: Any, axis: Any) -> Any:
    return _cumulative(call, x, call.number(axis), proa.cumsum, 0)


@onnx_op("CumProd", host=(1,))
def cumprod(call: Call, x: Any, axis: Any) -> Any:
    return _cumulative(call, x, call.number(axis), proa.cumprod, 1)


def _cumulative(call: Call, x: Any, axis: int, function: Any, first: int) -> Any:
    axis = axis % x.ndim
    if call.get("reverse", 0):
        x = proa.flip(x, [axis])
    found = function(x, axis).astype(x.dtype)
    if call.get("exclusive", 0):
        head = proa.full_like(proa.slice(x, [axis], [0], [1]), first)
        body = proa.slice(found, [axis], [0], [-1])
        found = proa.concat([head, body], axis)
    return proa.flip(found, [axis]) if call.get("reverse", 0) else found


@onnx_op("TopK")
def top_k_attribute(call: Call, x: Any) -> Any:
    return _top(call, x, call.get("k"))


@onnx_op("TopK", since=10, host=(1,))
def top_k(call: Call, x: Any, k: Any) -> Any:
    (count,) = call.ints(k) or [0]
    if not isinstance(count, SymbolicDim):
        return _top(call, x, int(count))
    axis = call.get("axis", -1) % x.ndim
    found = ops.sort(x, axis=axis, descending=bool(call.get("largest", 1)))
    first = proa.arange(count)
    return tuple(ops.gather(part, first, axis=axis) for part in found)


def _top(call: Call, x: Any, k: int) -> Any:
    largest = bool(call.get("largest", 1))
    values, index = proa.topk(x, k, call.get("axis", -1), largest)
    return values, index.astype("int64")
