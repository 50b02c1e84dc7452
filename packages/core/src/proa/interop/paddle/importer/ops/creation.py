"""Tensors made of numbers, and at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import proa
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op
from proa.tensor.symbolic_dims import SymbolicDim

_SHAPE = "ShapeTensor ShapeTensorList*"
_HOST = "ShapeTensor ShapeTensorList"


#: Elements that a constant, which is a few bytes of a file, may have at most.
_MAX_ELEMENTS = 1 << 28


def _checked(call: Call, shape: list[Any]) -> list[Any]:
    """A shape whose tensor is not too large, as far as it is known."""
    count = math.prod(int(n) for n in shape if type(n) is not SymbolicDim)
    if count > _MAX_ELEMENTS:
        raise call.refuse(f"{count} elements")
    return shape


def _number(call: Call) -> Any:
    """The value, as text where a float cannot hold it."""
    text, code = call.get("str_value", ""), call.get("dtype", 5)
    if not text:
        return call.get("value", 0.0)
    return (
        int(text)
        if code in (2, 3) and "." not in text and "e" not in text
        else (float(text))
    )


@paddle_op("fill_constant", inputs=f"ValueTensor {_SHAPE}", host=f"ValueTensor {_HOST}")
def fill_constant(call: Call, value: Any, wanted: Any, each: list[Any]) -> Any:
    number = call.number(value, _number(call))
    dtype = call.dtype(call.get("dtype", 5))
    return proa.full(_checked(call, call.numbers("shape", wanted, each)), number, dtype)


@paddle_op("fill_constant_batch_size_like", inputs="Input")
def fill_batch_size_like(call: Call, like: Any) -> Any:
    wanted = _batch_shape(call, like)
    return proa.full(wanted, _number(call), call.dtype(call.get("dtype", 5)))


def _batch_shape(call: Call, like: Any) -> list[Any]:
    wanted = list(call.get("shape"))
    wanted[call.get("output_dim_idx", 0)] = like.shape[call.get("input_dim_idx", 0)]
    return wanted


@paddle_op("fill_any_like", "fill_any")
def fill_any_like(call: Call, x: Any) -> Any:
    code = call.get("dtype", -1)
    dtype = x.dtype if code < 0 else call.dtype(code)
    return proa.full_like(x, call.get("value", 0.0), dtype)


@paddle_op("fill_zeros_like", "fill_zeros_like2")
def fill_zeros_like(call: Call, x: Any) -> Any:
    return proa.zeros_like(x)


_VALUES = (
    "values", "fp32_values", "fp64_values", "int64_values", "int32_values",
    "int8_values", "bool_values",
)  # fmt: skip


@paddle_op("assign_value", inputs="")
def assign_value(call: Call) -> Any:
    dtype = call.dtype(call.get("dtype", 5))
    found: list[Any] = next((v for v in map(call.get, _VALUES) if v), [])
    array = np.array(found).astype(dtype).reshape(call.get("shape"))
    return proa.to_tensor(array)


@paddle_op("fill", inputs="")
def fill(call: Call) -> Any:
    array = np.array(call.get("value")).astype(call.dtype(call.get("dtype", 5)))
    return proa.to_tensor(array.reshape(call.get("shape")))


@paddle_op("range", inputs="Start End Step", host="Start End Step")
def range_of(call: Call, start: Any, end: Any, step: Any) -> Any:
    values = [call.plain(v).reshape(-1)[0] for v in (start, end, step)]
    if not any(type(v) is SymbolicDim for v in values):
        _checked(call, [abs((values[1] - values[0]) / values[2])])
    dtype = "int64" if isinstance(start, np.ndarray) else start.dtype.name
    return proa.arange(values[0], values[1], values[2], dtype)


@paddle_op("linspace", inputs="Start Stop Num", host="Start Stop Num")
def linspace(call: Call, start: Any, stop: Any, count: Any) -> Any:
    number = int(call.number(count))
    _checked(call, [number])
    return proa.linspace(
        call.number(start), call.number(stop), number,
        call.dtype(call.get("dtype", 5)),
    )  # fmt: skip


@paddle_op("eye", inputs="")
def eye(call: Call) -> Any:
    columns = call.get("num_columns", -1)
    rows = call.get("num_rows")
    _checked(call, [rows, rows if columns < 0 else columns])
    dtype = call.dtype(call.get("dtype", 5))
    return proa.eye(rows, rows if columns < 0 else columns, dtype)


@paddle_op("one_hot_v2", "one_hot", inputs="X depth_tensor", host="depth_tensor")
def one_hot(call: Call, index: Any, depth: Any = None) -> Any:
    count = int(call.number(depth, call.get("depth", 1)))
    if call.op == "one_hot" and index.ndim > 1:
        index = proa.squeeze(index, [index.ndim - 1])
    if call.flag("allow_out_of_range"):  # zeros where there is no class
        numbers = proa.arange(0, count, dtype=index.dtype)
        found = proa.equal(proa.unsqueeze(index, [index.ndim]), numbers)
    else:
        found = proa.nn.functional.one_hot(index, count)
    code = call.get("dtype", 5)
    return found.astype(call.dtype(5 if code < 0 else code))


@paddle_op("gaussian_random", inputs=_SHAPE, host=_HOST, folds=False)
def gaussian(call: Call, wanted: Any, each: list[Any]) -> Any:
    shape = call.numbers("shape", wanted, each)
    return proa.gaussian(
        shape, call.get("mean", 0.0), call.get("std", 1.0), call.get("seed", 0),
        call.dtype(call.get("dtype", 5)),
    )  # fmt: skip


@paddle_op("uniform_random", inputs=_SHAPE, host=_HOST, folds=False)
def uniform(call: Call, wanted: Any, each: list[Any]) -> Any:
    return _uniform(call, call.numbers("shape", wanted, each))


@paddle_op("uniform_random_batch_size_like", inputs="Input", folds=False)
def uniform_batch_size_like(call: Call, like: Any) -> Any:
    return _uniform(call, _batch_shape(call, like))


def _uniform(call: Call, shape: list[Any]) -> Any:
    return proa.uniform(
        shape, call.dtype(call.get("dtype", 5)), call.get("min", -1.0),
        call.get("max", 1.0), call.get("seed", 0),
    )  # fmt: skip


@paddle_op("randint", inputs=_SHAPE, host=_HOST, folds=False)
def randint(call: Call, wanted: Any, each: list[Any]) -> Any:
    shape = call.numbers("shape", wanted, each)
    return proa.randint(
        call.get("low", 0), call.get("high"), shape, call.dtype(call.get("dtype", 3))
    )


@paddle_op("randperm", inputs="", folds=False)
def randperm(call: Call) -> Any:
    return proa.randperm(call.get("n"), call.dtype(call.get("dtype", 3)))


@paddle_op("bernoulli", folds=False)
def bernoulli(call: Call, x: Any) -> Any:
    return proa.bernoulli(x)


@paddle_op("multinomial", folds=False)
def multinomial(call: Call, x: Any) -> Any:
    return proa.multinomial(x, call.get("num_samples", 1), call.flag("replacement"))


@paddle_op("sequence_mask", inputs="X MaxLenTensor", outputs="Y", host="MaxLenTensor")
def sequence_mask(call: Call, x: Any, limit: Any = None) -> Any:
    longest = call.number(limit, call.get("maxlen", -1))
    dtype = call.dtype(call.get("out_dtype", 3))
    longest = None if longest < 0 else int(longest)
    return proa.nn.functional.sequence_mask(x, longest, dtype)
