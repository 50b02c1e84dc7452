"""Reductions, and the order of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proa
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_sum": proa.sum, "reduce_mean": proa.mean, "reduce_max": proa.max,
    "reduce_min": proa.min, "reduce_prod": proa.prod, "reduce_all": proa.all,
    "reduce_any": proa.any, "reduce_amax": proa.max, "reduce_amin": proa.min,
}  # fmt: skip


def _axes(call: Call, x: Any, name: str = "dim") -> list[int] | None:
    axes = call.get(name, [0])
    axes = [axes] if isinstance(axes, int) else list(axes)
    if call.flag("reduce_all") or not axes or len(axes) == x.ndim:
        return None
    return [a + x.ndim if a < 0 else a for a in axes]


def _add(name: str, function: Callable[..., Any]) -> None:
    def rule(call: Call, x: Any) -> Any:
        code = call.get("out_dtype", -1)
        if name in ("reduce_sum", "reduce_mean", "reduce_prod") and code >= 0:
            x = proa.cast(x, call.dtype(code))
        return function(x, _axes(call, x), keepdim=call.flag("keep_dim"))

    paddle_op(name)(rule)


for _name, _function in _REDUCTIONS.items():
    _add(_name, _function)


@paddle_op("logsumexp")
def logsumexp(call: Call, x: Any) -> Any:
    return proa.logsumexp(x, _axes(call, x, "axis"), call.flag("keepdim"))


@paddle_op("mean")
def mean(call: Call, x: Any) -> Any:
    return proa.mean(x)


def _best(call: Call, x: Any, function: Callable[..., Any]) -> Any:
    axis = None if call.flag("flatten") else call.get("axis", -1)
    code = call.get("dtype", 3)
    dtype = call.dtype(3 if code < 0 else code)
    return function(x, axis, call.flag("keepdims"), dtype=dtype)


@paddle_op("arg_max")
def arg_max(call: Call, x: Any) -> Any:
    return _best(call, x, proa.argmax)


@paddle_op("arg_min")
def arg_min(call: Call, x: Any) -> Any:
    return _best(call, x, proa.argmin)


@paddle_op("argsort", outputs="Out Indices")
def argsort(call: Call, x: Any) -> Any:
    axis, descending = call.get("axis", -1), call.flag("descending")
    index = proa.argsort(x, axis, descending)
    return proa.take_along_axis(x, index, axis, False), index


@paddle_op("top_k", "top_k_v2", inputs="X K", outputs="Out Indices", host="K")
def top_k(call: Call, x: Any, count: Any = None) -> Any:
    k = int(call.number(count, call.get("k", 1)))
    values, index = proa.topk(
        x, k, call.get("axis", -1), call.flag("largest", True), True
    )
    return values, index


@paddle_op("cumsum")
def cumsum(call: Call, x: Any) -> Any:
    axis = call.axis(x.ndim)
    if call.flag("flatten"):
        x, axis = proa.reshape(x, [-1]), 0
    backwards = call.flag("reverse")
    x = proa.flip(x, [axis]) if backwards else x
    total = proa.cumsum(x, axis)
    total = total - x if call.flag("exclusive") else total
    return proa.flip(total, [axis]) if backwards else total


@paddle_op("cumprod")
def cumprod(call: Call, x: Any) -> Any:
    return proa.cumprod(x, call.get("dim"))


@paddle_op("logcumsumexp")
def logcumsumexp(call: Call, x: Any) -> Any:
    if call.flag("exclusive") or call.flag("reverse"):
        raise call.refuse("exclusive or reverse")
    return proa.logcumsumexp(x, None if call.flag("flatten") else call.get("axis", -1))


@paddle_op("kthvalue", outputs="Out Indices")
def kthvalue(call: Call, x: Any) -> Any:
    return proa.kthvalue(
        x, call.get("k", 1), call.get("axis", -1), call.flag("keepdim")
    )


@paddle_op("mode", outputs="Out Indices")
def mode(call: Call, x: Any) -> Any:
    return proa.mode(x, call.get("axis", -1), call.flag("keepdim"))


@paddle_op("trace", inputs="Input")
def trace(call: Call, x: Any) -> Any:
    return proa.trace(
        x, call.get("offset", 0), call.get("axis1", 0), call.get("axis2", 1)
    )


@paddle_op("allclose", inputs="Input Other")
def allclose(call: Call, x: Any, y: Any) -> Any:
    rtol, atol = float(call.get("rtol", 1e-5)), float(call.get("atol", 1e-8))
    return proa.allclose(x, y, rtol, atol, call.flag("equal_nan"))


@paddle_op("equal_all", inputs="X Y")
def equal_all(call: Call, x: Any, y: Any) -> Any:
    return proa.equal_all(x, y)


@paddle_op("dist", inputs="X Y")
def dist(call: Call, x: Any, y: Any) -> Any:
    return proa.dist(x, y, call.get("p", 2.0))
