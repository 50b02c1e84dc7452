"""Reading and writing elements at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op


@paddle_op("gather", inputs="X Index Axis", host="Axis")
def gather(call: Call, x: Any, index: Any, axis: Any = None) -> Any:
    flat = proa.reshape(index, [-1]) if index.ndim > 1 else index
    return proa.gather(x, flat, int(call.number(axis, call.get("axis", 0))))


@paddle_op("gather_nd", inputs="X Index")
def gather_nd(call: Call, x: Any, index: Any) -> Any:
    return proa.gather_nd(x, index)


@paddle_op("scatter", inputs="X Ids Updates")
def scatter(call: Call, x: Any, index: Any, updates: Any) -> Any:
    flat = proa.reshape(index, [-1]) if index.ndim > 1 else index
    return proa.scatter(x, flat, updates, call.flag("overwrite", True))


@paddle_op("scatter_nd_add", inputs="X Index Updates")
def scatter_nd_add(call: Call, x: Any, index: Any, updates: Any) -> Any:
    return proa.scatter_nd_add(x, index, updates)


@paddle_op("index_select", inputs="X Index")
def index_select(call: Call, x: Any, index: Any) -> Any:
    return proa.index_select(x, index, call.get("dim", 0))


@paddle_op("index_sample", inputs="X Index")
def index_sample(call: Call, x: Any, index: Any) -> Any:
    return proa.index_sample(x, index)


@paddle_op("take_along_axis", inputs="Input Index", outputs="Result")
def take_along_axis(call: Call, x: Any, index: Any) -> Any:
    return proa.take_along_axis(x, index, call.get("Axis", 0), False)


@paddle_op("put_along_axis", inputs="Input Index Value", outputs="Result")
def put_along_axis(call: Call, x: Any, index: Any, value: Any) -> Any:
    return proa.put_along_axis(
        x, index, value, call.get("Axis", 0), call.get("Reduce", "assign"),
        broadcast=False,
    )  # fmt: skip


@paddle_op("lookup_table", "lookup_table_v2", inputs="W Ids", weights="W")
def lookup(call: Call, w: Any, index: Any) -> Any:
    if call.op == "lookup_table":
        index = proa.squeeze(index, [index.ndim - 1])
    padding = call.get("padding_idx", -1)
    found = F.embedding(index, w)
    if padding < 0:
        return found
    keep = proa.not_equal(index, proa.full_like(index, padding))
    return found * proa.unsqueeze(keep.astype(found.dtype), [index.ndim])


@paddle_op("where_index", inputs="Condition")
def where_index(call: Call, condition: Any) -> Any:
    return proa.nonzero(condition)


@paddle_op("masked_select", inputs="X Mask", outputs="Y")
def masked_select(call: Call, x: Any, mask: Any) -> Any:
    return proa.masked_select(x, mask)


@paddle_op("unique", outputs="Out Indices Index Counts")
def unique(call: Call, x: Any) -> Any:
    array = call.host(x)
    axis = call.get("axis") or None
    values, first, inverse, counts = np.unique(
        array, True, True, True, axis=None if axis is None else axis[0]
    )
    dtype = call.dtype(call.get("dtype", 3))
    numbers = [
        proa.to_tensor(v.reshape(-1).astype(dtype)) for v in (first, inverse, counts)
    ]
    return proa.to_tensor(np.ascontiguousarray(values)), *numbers


@paddle_op(
    "set_value",
    inputs="Input ValueTensor StartsTensorList* EndsTensorList* StepsTensorList*",
    host="StartsTensorList EndsTensorList StepsTensorList",
)
def set_value(
    call: Call, x: Any, value: Any, starts: list[Any], ends: list[Any],
    steps: list[Any],
) -> Any:  # fmt: skip
    x = x.clone()
    axes, low = call.get("axes"), call.numbers("starts", None, starts)
    high, step = call.numbers("ends", None, ends), call.numbers("steps", None, steps)
    at: list[Any] = [slice(None)] * x.ndim
    for axis, a, b, s in zip(axes, low, high, step, strict=True):
        at[axis] = slice(a, b, s)
    for axis in call.get("decrease_axes") or []:
        at[axis] = at[axis].start
    for axis in sorted(call.get("none_axes") or []):
        at.insert(axis, None)
    if value is None:
        value = _attribute_values(call, x)
    x[tuple(at)] = value
    return x


def _attribute_values(call: Call, x: Any) -> Any:
    names = ("values", "fp32_values", "fp64_values", "int64_values", "int32_values",
             "bool_values")  # fmt: skip
    found = next((v for v in map(call.get, names) if v), [0])
    array = np.array(found).astype(x.dtype.name)
    return proa.to_tensor(array.reshape(call.get("shape") or []))


@paddle_op("shard_index")
def shard_index(call: Call, x: Any) -> Any:
    return proa.shard_index(
        x, call.get("index_num"), call.get("nshards"), call.get("shard_id"),
        call.get("ignore_value", -1),
    )  # fmt: skip


@paddle_op("searchsorted", inputs="SortedSequence Values")
def searchsorted(call: Call, ordered: Any, values: Any) -> Any:
    return proa.searchsorted(
        ordered, values, call.flag("out_int32"), call.flag("right")
    )


@paddle_op("histogram")
def histogram(call: Call, x: Any) -> Any:
    return proa.histogram(
        x, call.get("bins", 100), call.get("min", 0), call.get("max", 0)
    )


@paddle_op("bincount", inputs="X Weights")
def bincount(call: Call, x: Any, weights: Any = None) -> Any:
    return proa.bincount(x, weights, call.get("minlength", 0))


@paddle_op("multiplex", inputs="Ids X*")
def multiplex(call: Call, index: Any, xs: list[Any]) -> Any:
    return proa.multiplex(xs, index)


@paddle_op("gather_tree", inputs="Ids Parents")
def gather_tree(call: Call, ids: Any, parents: Any) -> Any:
    return F.gather_tree(ids, parents)


@paddle_op("is_empty")
def is_empty(call: Call, x: Any) -> Any:
    return proa.is_empty(x)
