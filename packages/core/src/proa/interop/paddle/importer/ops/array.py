"""Arrays of tensors (LoDTensorArray): lists, of which each write makes a new one."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op


@paddle_op("write_to_array", inputs="X I Array", host="I")
def write_to_array(call: Call, x: Any, index: Any, array: Any = None) -> Any:
    items, at = list(array or []), int(call.number(index))
    if not 0 <= at < 1 << 24:
        raise call.refuse(f"index {at}")
    items += [None] * (at + 1 - len(items))
    items[at] = x
    return items


@paddle_op("read_from_array", inputs="X I", host="I")
def read_from_array(call: Call, array: list[Any], index: Any) -> Any:
    return array[int(call.number(index))]


@paddle_op("lod_array_length")
def array_length(call: Call, array: list[Any]) -> Any:
    return proa.to_tensor(np.array([len(array)], np.int64))


@paddle_op("tensor_array_to_tensor", outputs="Out OutIndex")
def array_to_tensor(call: Call, array: list[Any]) -> Any:
    axis = call.get("axis", 0)
    if call.flag("use_stack"):
        sizes, found = [1] * len(array), proa.stack(array, axis)
    else:
        sizes, found = call.known([x.shape[axis] for x in array]), None
        found = proa.concat(array, axis)
    return found, proa.to_tensor(np.array(sizes, np.int32))
