"""In-place functions ``name_``: the result takes the memory of the first tensor.

Those that are an operator's in-place form come from the operator table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, is_grad_enabled, ops
from proa.base.random import next_key
from proa.errors import InvalidArgumentError
from proa.tensor import manipulation, math, search
from proa.tensor.arguments import as_int, as_ints, cast_if
from proa.tensor.creation import as_tensor

if TYPE_CHECKING:
    from proa.base.typing import ScalarLike
    from proa.tensor.arguments import AxisLike, IntsLike

#: Those that are functions of `proa` too.
__all__ = ["reshape_", "scatter_", "squeeze_", "unsqueeze_"]
#: Those that are methods alone.
METHODS_ONLY = (
    "clip_", "fill_", "flatten_", "normal_", "put_along_axis_", "scale_", "uniform_",
    "zero_",
)  # fmt: skip


def scale_(
    x: Tensor,
    scale: float = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """x = scale * x + bias, or scale * (x + bias)."""
    offset = bias if bias_after_scale else bias * scale
    ops.scale_(x, scale=float(scale), bias=float(offset))
    if act is not None:
        math.activated("scale_", x, act, "_")
    return x


def clip_(
    x: Tensor,
    min: ScalarLike | None = None,
    max: ScalarLike | None = None,
    name: str | None = None,
) -> Tensor:
    """x limited to [min, max] in place."""
    low, high = math.clip_bounds(x, min, max)
    return ops.clip_(x, min=low, max=high)


def _before(x: Tensor) -> Tensor:
    """x as it is now, for gradients that need it once x is another value."""
    return x if x.stop_gradient else ops.assign(x)


def _check_leaf(where: str, x: Tensor) -> None:
    """Raise where the gradient of a leaf would be that of its new value."""
    if x.is_leaf and not x.stop_gradient and is_grad_enabled():
        raise InvalidArgumentError(
            f"[{where}] a leaf that requires a gradient cannot be changed in place "
            f"outside no_grad, got a leaf of shape {tuple(x.shape)}"
        )


def _reshaped(where: str, x: Tensor, result: Tensor) -> Tensor:
    _check_leaf(where, x)
    return x._become(result)


def _filled(where: str, x: Tensor, values: Tensor) -> Tensor:
    """x with all its elements replaced; what x was before gets a gradient of 0."""
    _check_leaf(where, x)
    x[...] = values
    return x


def reshape_(x: Tensor, shape: IntsLike, name: str | None = None) -> Tensor:
    """x under another shape, on the same memory."""
    return _reshaped("reshape_", x, ops.reshape(x, shape=as_ints("reshape_", shape)))


def flatten_(
    x: Tensor, start_axis: int = 0, stop_axis: int = -1, name: str | None = None
) -> Tensor:
    """x with the axes start to stop merged, on the same memory."""
    return _reshaped(
        "flatten_", x, ops.flatten(x, start_axis=start_axis, stop_axis=stop_axis)
    )


def squeeze_(x: Tensor, axis: AxisLike = None, name: str | None = None) -> Tensor:
    """x without axes of size 1, on the same memory."""
    return _reshaped("squeeze_", x, manipulation.squeeze(x, axis))


def unsqueeze_(x: Tensor, axis: IntsLike, name: str | None = None) -> Tensor:
    """x with axes of size 1 put in, on the same memory."""
    return _reshaped("unsqueeze_", x, manipulation.unsqueeze(x, axis))


def _full(where: str, x: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        value = value.item()
    return _filled(where, x, ops.full_like(x, value=value, dtype=x.dtype))


def fill_(x: Tensor, value: ScalarLike) -> Tensor:
    """Every element becomes value."""
    return _full("fill_", x, value)


def zero_(x: Tensor) -> Tensor:
    """Every element becomes 0."""
    return _full("zero_", x, 0)


def uniform_(x: Tensor, min: float = -1.0, max: float = 1.0, seed: int = 0) -> Tensor:
    """Every element becomes uniform in [min, max)."""
    key, offset = next_key(x.size, seed)
    values = ops.uniform(
        shape=x.shape, low=float(min), high=float(max), dtype=x.dtype,
        seed=key, offset=offset,
    )  # fmt: skip
    return _filled("uniform_", x, values)


def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Every element becomes normally distributed."""
    key, offset = next_key(x.size)
    values = ops.gaussian(
        shape=x.shape, mean=float(mean), std=float(std), dtype=x.dtype,
        seed=key, offset=offset,
    )  # fmt: skip
    return _filled("normal_", x, values)


def put_along_axis_(
    arr: Tensor, indices: Tensor, values: ScalarLike, axis: int, reduce: str = "assign"
) -> Tensor:
    """`put_along_axis` in place."""
    if reduce != "assign":
        _check_leaf("put_along_axis_", arr)
        changed = search.put_along_axis(_before(arr), indices, values, axis, reduce)
        return arr._become(changed)
    given = cast_if(as_tensor(values, arr), arr.dtype)
    given = ops.broadcast_to(given, shape=indices.shape)
    return ops.put_along_axis_(
        arr, indices, given, axis=as_int("put_along_axis_", axis)
    )


def scatter_(
    x: Tensor,
    index: Tensor,
    updates: Tensor,
    overwrite: bool = True,
    name: str | None = None,
) -> Tensor:
    """`scatter` in place."""
    if overwrite:
        return ops.index_put_(x, ops.reshape(index, shape=[-1, 1]), updates)
    _check_leaf("scatter_", x)
    return x._become(search.scatter(_before(x), index, updates, False))
