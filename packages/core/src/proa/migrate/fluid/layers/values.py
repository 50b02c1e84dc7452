"""Functions of tensors whose arguments or results 2.x has changed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import proa
from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.migrate.fluid.layers.activation import activated
from proa.nn import functional as F

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "affine_channel", "argsort", "clip_by_norm", "create_tensor", "cumsum",
    "elementwise_add", "elementwise_div", "elementwise_floordiv", "elementwise_max",
    "elementwise_min", "elementwise_mod", "elementwise_mul", "elementwise_pow",
    "elementwise_sub", "embedding", "flatten", "fsp_matrix", "has_inf", "has_nan",
    "increment", "isfinite", "matmul", "mul", "one_hot", "sampling_id",
    "tensor_array_to_tensor", "unique", "unique_with_counts",
]  # fmt: skip

_Binary = Callable[[Any, Any], Tensor]


def _aligned(x: Tensor, y: Tensor, axis: int) -> Tensor:
    """y with axes of size 1 after its own, so that its first one is axis of x."""
    if axis == -1 or x.ndim <= y.ndim:
        return y
    after = x.ndim - axis - y.ndim
    if axis < 0 or after < 0:
        raise InvalidArgumentError(
            f"[elementwise] expected axis in [0, {x.ndim - y.ndim}] or -1, got {axis}"
        )
    return proa.reshape(y, [*y.shape, *[1] * after])


def _elementwise(
    function: _Binary, x: Tensor, y: Tensor, axis: int, act: str | None
) -> Tensor:
    return activated(function(x, _aligned(x, y, axis)), act)


def elementwise_add(
    x: Tensor, y: Tensor, axis: int = -1, act: str | None = None, name: Any = None
) -> Tensor:
    """x + y, whose first axis is that axis of x; then the activation."""
    return _elementwise(proa.add, x, y, axis, act)


def elementwise_sub(
    x: Tensor, y: Tensor, axis: int = -1, act: str | None = None, name: Any = None
) -> Tensor:
    """x - y, likewise."""
    return _elementwise(proa.subtract, x, y, axis, act)


def elementwise_mul(
    x: Tensor, y: Tensor, axis: int = -1, act: str | None = None, name: Any = None
) -> Tensor:
    """x * y, likewise."""
    return _elementwise(proa.multiply, x, y, axis, act)


def elementwise_div(
    x: Tensor, y: Tensor, axis: int = -1, act: str | None = None, name: Any = None
) -> Tensor:
    """x / y, likewise."""
    return _elementwise(proa.divide, x, y, axis, act)


def elementwise_floordiv(
    x: Tensor, y: Tensor, axis: int = -1, act: str | None = None, name: Any = None
) -> Tensor:
    """x // y, likewise."""
    return _elementwise(proa.floor_divide, x, y, axis, act)


def elementwise_mod(
    x: Tensor, y: Tensor, axis: int = -1, act: str | None = None, name: Any = None
) -> Tensor:
    """x % y, likewise."""
    return _elementwise(proa.mod, x, y, axis, act)


def elementwise_max(
    x: Tensor, y: Tensor, axis: int = -1, act: str | None = None, name: Any = None
) -> Tensor:
    """The greater of x and y, likewise."""
    return _elementwise(proa.maximum, x, y, axis, act)


def elementwise_min(
    x: Tensor, y: Tensor, axis: int = -1, act: str | None = None, name: Any = None
) -> Tensor:
    """The smaller of x and y, likewise."""
    return _elementwise(proa.minimum, x, y, axis, act)


def elementwise_pow(
    x: Tensor, y: Tensor, axis: int = -1, act: str | None = None, name: Any = None
) -> Tensor:
    """x ** y, likewise."""
    return _elementwise(proa.pow, x, y, axis, act)


def increment(x: Tensor, value: float = 1.0, in_place: bool = True) -> Tensor:
    """x + value, in x itself or in another tensor."""
    return proa.increment(x, value) if in_place else proa.scale(x, bias=value)


def _matrix(x: Tensor, axis: int) -> Tensor:
    """x as a matrix: axes before `axis` are rows, the others columns."""
    if axis == 0:
        return proa.reshape(x, [1, -1])
    flat = x if axis == x.ndim else proa.flatten(x, start_axis=axis)
    if axis == x.ndim:
        flat = proa.unsqueeze(x, -1)
    return proa.flatten(flat, stop_axis=axis - 1)


def flatten(x: Tensor, axis: int = 1, name: str | None = None) -> Tensor:
    """A matrix: axes before `axis` are its rows, the others its columns."""
    return _matrix(x, axis)


def mul(
    x: Tensor,
    y: Tensor,
    x_num_col_dims: int = 1,
    y_num_col_dims: int = 1,
    name: str | None = None,
) -> Tensor:
    """The product of x and y as matrices, with the first axes of x and the last of y.

    Args:
        x: Its first x_num_col_dims axes are rows.
        y: Its first y_num_col_dims axes are rows.
        x_num_col_dims: How many axes of x are rows.
        y_num_col_dims: How many axes of y are rows.
        name: Has no meaning here.
    """
    product = proa.matmul(_matrix(x, x_num_col_dims), _matrix(y, y_num_col_dims))
    if x_num_col_dims == 1 and y.ndim - y_num_col_dims == 1:
        return product
    sizes = [*x.shape[:x_num_col_dims], *y.shape[y_num_col_dims:]]
    return proa.reshape(product, sizes)


def matmul(
    x: Tensor,
    y: Tensor,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """alpha * x @ y."""
    return proa.scale(proa.matmul(x, y, transpose_x, transpose_y), alpha)


def embedding(
    input: Tensor,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: ParamAttrLike | None = None,
    dtype: DTypeLike = "float32",
) -> Tensor:
    """Rows of a table, in place of the last axis of the ids, which has size 1.

    Args:
        input: Row numbers (.., 1).
        size: (rows, width) of the table.
        is_sparse: As `static.nn.embedding` has it.
        is_distributed: Likewise.
        padding_idx: The row that gives zeros.
        param_attr: How the table is made.
        dtype: Its dtype.
    """
    return proa.static.nn.embedding(
        _without_last(input), size, is_sparse, is_distributed, padding_idx, param_attr,
        dtype,
    )  # fmt: skip


def one_hot(input: Tensor, depth: int, allow_out_of_range: bool = False) -> Tensor:
    """One at each number, in place of the last axis, which has size 1.

    Args:
        input: Numbers (.., 1).
        depth: How many there are.
        allow_out_of_range: Whether other numbers give zeros; else they are an error.
    """
    given = _without_last(input)
    if not allow_out_of_range:
        return F.one_hot(given, depth)
    classes = proa.arange(depth, dtype=given.dtype)
    return proa.cast(proa.equal(proa.unsqueeze(given, -1), classes), "float32")


def _without_last(x: Tensor) -> Tensor:
    return proa.squeeze(x, -1) if x.ndim > 1 and int(x.shape[-1]) == 1 else x


def argsort(
    input: Tensor, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The sorted values, and where they were."""
    index = proa.argsort(input, axis, descending)
    return proa.take_along_axis(input, index, axis), index


def affine_channel(
    x: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    act: str | None = None,
) -> Tensor:
    """x * scale + bias, for each channel."""
    axis = 1 if data_layout == "NCHW" else x.ndim - 1
    out = x if scale is None else elementwise_mul(x, scale, axis)
    return activated(out if bias is None else elementwise_add(out, bias, axis), act)


def clip_by_norm(x: Tensor, max_norm: float, name: str | None = None) -> Tensor:
    """x, scaled so that its norm is max_norm at most."""
    norm = proa.sqrt(proa.sum(proa.square(x)))
    limit = proa.full_like(norm, max_norm)
    return proa.multiply(x, proa.divide(limit, proa.maximum(norm, limit)))


def create_tensor(
    dtype: DTypeLike, name: str | None = None, persistable: bool = False
) -> Any:
    """A Variable that statements assign later; a global one if it is persistable."""
    if persistable:
        return proa.static.create_global_var([1], 0, dtype, True, name=name)
    block = proa.static.default_main_program().current_block()
    return block.create_var(name=name, dtype=dtype, shape=[-1])


def cumsum(
    x: Tensor,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    flatten: bool = False,
) -> Tensor:
    """Sums of the entries up to each, without the entry itself if exclusive, from the
    end if reverse; along the last axis unless one is given.
    """
    given = proa.reshape(x, [-1]) if flatten else x
    along = -1 if axis is None else axis
    ordered = proa.flip(given, along) if reverse else given
    found = proa.cumsum(ordered, along)
    if exclusive:
        found = proa.subtract(found, ordered)
    return proa.flip(found, along) if reverse else found


def fsp_matrix(x: Tensor, y: Tensor) -> Tensor:
    """(n, c1, c2): mean products of two maps' channels (n, c, h, w) over places."""
    places = operator.mul(int(x.shape[2]), int(x.shape[3]))
    a, b = (proa.flatten(t, start_axis=2) for t in (x, y))
    return proa.scale(proa.matmul(a, b, transpose_y=True), 1.0 / places)


def has_inf(x: Tensor) -> Tensor:
    """Whether an element is infinite, (1,)."""
    return proa.reshape(proa.any(proa.isinf(x)), [1])


def has_nan(x: Tensor) -> Tensor:
    """Whether an element is NaN, (1,)."""
    return proa.reshape(proa.any(proa.isnan(x)), [1])


def isfinite(x: Tensor) -> Tensor:
    """Whether all elements are finite, (1,)."""
    return proa.reshape(proa.all(proa.isfinite(x)), [1])


def sampling_id(
    x: Tensor,
    min: float = 0.0,
    max: float = 1.0,
    seed: int = 0,
    dtype: DTypeLike = "float32",
) -> Tensor:
    """A column drawn for each row by its probabilities, (n,) int64."""
    return proa.squeeze(proa.multinomial(x, 1), -1)


def tensor_array_to_tensor(
    input: Sequence[Tensor],
    axis: int = 1,
    name: str | None = None,
    use_stack: bool = False,
) -> tuple[Tensor, Tensor]:
    """The entries of a list as one tensor, and their sizes along the axis."""
    entries = list(input)
    sizes = [1 if use_stack else int(x.shape[axis]) for x in entries]
    joined = (proa.stack if use_stack else proa.concat)(entries, axis)
    return joined, proa.assign(proa.to_tensor(sizes, dtype="int32"))


def _in_order_of_appearance(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Values, the number of each element's value, and how often each occurs."""
    values, first, inverse, counts = proa.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    order = proa.argsort(first)
    numbers = proa.argsort(order)  # of the sorted values
    return (
        proa.gather(values, order),
        proa.gather(numbers, inverse),
        proa.gather(counts, order),
    )


def unique(x: Tensor, dtype: DTypeLike = "int32") -> tuple[Tensor, Tensor]:
    """The values in the order of their appearance, and the number of each element's."""
    values, index, _ = _in_order_of_appearance(x)
    return values, proa.cast(index, dtype)


def unique_with_counts(
    x: Tensor, dtype: DTypeLike = "int32"
) -> tuple[Tensor, Tensor, Tensor]:
    """`unique`, and how often each value occurs."""
    values, index, counts = _in_order_of_appearance(x)
    return values, proa.cast(index, dtype), proa.cast(counts, dtype)
