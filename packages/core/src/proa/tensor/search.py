"""Finding, ordering and picking elements by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from proa._core import Tensor, ops
from proa.base.dtype import DTypeLike, as_dtype
from proa.base.mode import static_builder
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import as_int, as_ints, cast_if, normal_axis, present_axis
from proa.tensor.creation import as_tensor
from proa.tensor.manipulation import broadcast_shape
from proa.tensor.symbolic_dims import number_of

if TYPE_CHECKING:
    from proa.base.typing import ScalarLike

__all__ = [
    "argmax", "argmin", "argsort", "bucketize", "gather", "gather_nd", "index_add",
    "index_sample", "index_select", "kthvalue", "masked_fill", "masked_select",
    "multiplex", "nonzero", "put_along_axis", "scatter", "scatter_nd",
    "scatter_nd_add", "searchsorted", "shard_index", "sort", "take_along_axis",
    "topk", "where",
]  # fmt: skip


def _arg(
    name: str, x: Tensor, axis: int | None, keepdim: bool, dtype: DTypeLike
) -> Tensor:
    op = getattr(ops, name)
    if axis is not None:
        return cast_if(op(x, axis=as_int(name, axis), keepdim=keepdim), dtype)
    found = cast_if(op(ops.reshape(x, shape=[-1]), axis=0), dtype)
    return ops.reshape(found, shape=[1] * x.ndim) if keepdim else found


def argmax(
    x: Tensor,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Tensor:
    """Index of the greatest element (the first of equals); in the flat x if no axis."""
    return _arg("argmax", x, axis, keepdim, dtype)


def argmin(
    x: Tensor,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Tensor:
    """Index of the least element (the first of equals); in the flat x if no axis."""
    return _arg("argmin", x, axis, keepdim, dtype)


def _sorted(x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    if x.ndim == 0:
        return ops.assign(x), ops.full_like(x, value=0, dtype=as_dtype("int64"))
    pair: tuple[Tensor, Tensor] = ops.sort(x, axis=axis, descending=descending)
    return pair


def sort(
    x: Tensor,
    axis: int = -1,
    descending: bool = False,
    name: str | None = None,
    *,
    stable: bool = True,
) -> Tensor:
    """Elements in order along an axis; equal ones keep their order, stable or not."""
    return _sorted(x, axis, descending)[0]


def argsort(
    x: Tensor,
    axis: int = -1,
    descending: bool = False,
    name: str | None = None,
    *,
    stable: bool = True,
) -> Tensor:
    """Where the elements of `sort` were; equal ones keep theirs, stable or not."""
    return _sorted(x, axis, descending)[1]


def topk(
    x: Tensor,
    k: int | Tensor,
    axis: int | None = None,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The k greatest (or least) elements in order, and where they were."""
    along = -1 if axis is None else as_int("topk", axis)
    count = as_int("topk", k)
    if count < 1:
        raise InvalidArgumentError(f"[topk] expected k of at least 1, got k={count}")
    pair: tuple[Tensor, Tensor] = ops.topk(x, k=count, axis=along, largest=largest)
    return pair


def kthvalue(
    x: Tensor,
    k: int,
    axis: int | None = None,
    keepdim: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The k-th least element along an axis, and where it was; k counts from 1."""
    along = normal_axis("kthvalue", -1 if axis is None else axis, x.ndim)
    values, index = topk(x, k, along, largest=False)
    parts = [ops.select(t, axis=along, index=k - 1) for t in (values, index)]
    if keepdim:
        parts = [ops.unsqueeze(t, axis=[along]) for t in parts]
    return parts[0], parts[1]


def gather(
    x: Tensor, index: Tensor, axis: int | Tensor | None = None, name: str | None = None
) -> Tensor:
    """Entries of x along an axis (0) at a vector of indices."""
    flat = ops.squeeze(index, axis=[1]) if index.ndim == 2 else index
    return ops.gather(x, flat, axis=0 if axis is None else as_int("gather", axis))


def index_select(
    x: Tensor, index: Tensor, axis: int = 0, name: str | None = None
) -> Tensor:
    """Entries of x along an axis at a vector of indices."""
    return ops.gather(x, index, axis=axis)


def gather_nd(x: Tensor, index: Tensor, name: str | None = None) -> Tensor:
    """x at the coordinates in the last axis of index."""
    return ops.gather_nd(x, index)


def index_sample(x: Tensor, index: Tensor) -> Tensor:
    """In each row of x (n, m) the elements that the row of index (n, k) names."""
    return ops.take_along_axis(x, index, axis=1)


def take_along_axis(
    arr: Tensor, indices: Tensor, axis: int, broadcast: bool = True
) -> Tensor:
    """y[i, j, ..] = arr[i, indices[i, j, ..], ..] along axis."""
    return ops.take_along_axis(arr, indices, axis=axis)


def put_along_axis(
    arr: Tensor,
    indices: Tensor,
    values: ScalarLike,
    axis: int,
    reduce: str = "assign",
    include_self: bool = True,
    broadcast: bool = True,
) -> Tensor:
    """arr with values written, added or multiplied in at indices along axis.

    Args:
        arr: What is changed in a copy.
        indices: Where, of the rank of `arr`; negative ones count from the end.
        values: What, broadcast to the shape of `indices`.
        axis: Along which axis.
        reduce: "assign", "add", or "mul" ("multiply").
        include_self: False leaves the old values out of sums and products.
        broadcast: Whether `indices` is stretched to `arr` along the other axes.
    """
    given = cast_if(as_tensor(values, arr), arr.dtype)
    size = list(arr.shape)
    along = present_axis("put_along_axis", axis, arr.ndim)
    if indices.ndim != arr.ndim:
        raise ShapeError(
            "put_along_axis", f"indices must have rank {arr.ndim}", indices.shape
        )
    size[along] = indices.shape[along]
    if broadcast:
        indices = ops.broadcast_to(indices, shape=size)
    given = ops.broadcast_to(given, shape=indices.shape)
    if reduce == "assign":
        return ops.put_along_axis(arr, indices, given, axis=along)
    if reduce not in ("add", "mul", "multiply"):
        raise InvalidArgumentError(
            f"[put_along_axis] reduce must be assign, add or multiply, got {reduce!r}"
        )
    if not include_self:
        neutral = ops.full_like(given, value=int(reduce != "add"), dtype=arr.dtype)
        arr = ops.put_along_axis(arr, indices, neutral, axis=along)
    if reduce == "add":
        return ops.scatter_add_axis(arr, indices, given, axis=along)
    return _multiplied(arr, indices, given, along)


def _multiplied(arr: Tensor, indices: Tensor, values: Tensor, axis: int) -> Tensor:
    """arr times the product of the values that go to each place."""
    reached: dict[str, Any] = {
        "axes": [i for i in range(arr.ndim) if i != axis],
        "starts": [0] * (arr.ndim - 1),
        "ends": [n for i, n in enumerate(indices.shape) if i != axis],
        "steps": [1] * (arr.ndim - 1),
    }
    region = ops.slice(arr, **reached)
    ops.put_along_axis(region, indices, values, axis=axis)  # checks the indices
    count, whole = arr.shape[axis], as_dtype("int64")
    places = ops.arange(start=0, step=1, count=count, dtype=whole)
    places = ops.reshape(
        places, shape=[count if i == axis else 1 for i in range(arr.ndim + 1)]
    )
    at = ops.cast(indices, dtype=whole)
    at = ops.where(ops.less_than(at, 0), ops.add(at, count), at)
    # (..., place, ..., value): one where the value goes elsewhere.
    here = ops.equal(ops.unsqueeze(_last(at, axis), axis=[axis]), places)
    factors = ops.where(here, ops.unsqueeze(_last(values, axis), axis=[axis]), 1)
    product = ops.prod(factors, axis=[arr.ndim], keepdim=False)
    return ops.slice_assign(arr, ops.mul(region, product), **reached)


def _last(x: Tensor, axis: int) -> Tensor:
    """x with that axis as the last one."""
    order = [i for i in range(x.ndim) if i != axis]
    return ops.transpose(x, perm=[*order, axis])


def scatter(
    x: Tensor,
    index: Tensor,
    updates: Tensor,
    overwrite: bool = True,
    name: str | None = None,
) -> Tensor:
    """x with rows replaced by updates, or (not overwrite) set to the sum of updates."""
    rows = ops.reshape(index, shape=[-1, 1])
    if overwrite:
        return ops.index_put(x, rows, updates)
    # Rows that are named start from zero, then all their updates add up.
    cleared = ops.index_put(x, rows, ops.full_like(updates, value=0, dtype=x.dtype))
    return scatter_nd_add(cleared, rows, updates)


def scatter_nd_add(
    x: Tensor, index: Tensor, updates: Tensor, name: str | None = None
) -> Tensor:
    """x with updates added at the coordinates in the last axis of index."""
    return ops.add(x, ops.scatter_nd_like(updates, index, x))


def scatter_nd(
    index: Tensor, updates: Tensor, shape: Sequence[int], name: str | None = None
) -> Tensor:
    """Zeros of ``shape`` with updates added at the coordinates in index."""
    size = as_ints("scatter_nd", shape)
    blank = ops.full(shape=size, value=0, dtype=updates.dtype)
    return ops.scatter_nd_like(updates, index, blank)


def index_add(
    x: Tensor, index: Tensor, axis: int, value: Tensor, name: str | None = None
) -> Tensor:
    """x with the entries of value added along axis at a vector of indices."""
    along = present_axis("index_add", axis, x.ndim)
    places = [1] * x.ndim
    places[along] = -1
    spread = ops.broadcast_like(ops.reshape(index, shape=places), value)
    return ops.scatter_add_axis(x, spread, value, axis=along)


def masked_select(x: Tensor, mask: Tensor, name: str | None = None) -> Tensor:
    """The elements of x where mask holds, in row-major order."""
    if x.shape != mask.shape:
        x = ops.broadcast_to(x, shape=broadcast_shape(x.shape, mask.shape))
        mask = ops.broadcast_like(mask, x)
    return entries_where(x, mask)


def entries_where(x: Tensor, mask: Tensor) -> Tensor:
    """The entries of x where mask, of the shape of x's leading axes, holds."""
    last = mask.ndim - 1
    flat = ops.flatten(mask, start_axis=0, stop_axis=last)
    places = ops.flatten(nonzero(flat), start_axis=0, stop_axis=1)
    entries = ops.flatten(x, start_axis=0, stop_axis=last)
    return ops.gather(entries, places, axis=0)


def masked_fill(
    x: Tensor, mask: Tensor, value: ScalarLike, name: str | None = None
) -> Tensor:
    """x with value where mask holds."""
    fill = cast_if(as_tensor(value, x), x.dtype)
    return ops.where(mask, fill, x)


@overload
def nonzero(x: Tensor, as_tuple: Literal[False] = False) -> Tensor: ...


@overload
def nonzero(x: Tensor, as_tuple: bool) -> Tensor | tuple[Tensor, ...]: ...


def nonzero(x: Tensor, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Coordinates of non-zero elements, (count, rank), or (count, 1) by axis.

    In a static program the count is a symbolic dimension.
    """
    builder = static_builder() if x._is_symbolic and x.ndim else None
    if builder is not None:
        flat = ops.flatten(ops.not_equal(x, 0), start_axis=0, stop_axis=x.ndim - 1)
        found = coordinates_of(builder.places(flat), x.shape)
    else:
        found = ops.nonzero(x, count=int(ops.count_nonzero(x).item()))
    if not as_tuple:
        return found
    return _by_axis(found)


def coordinates_of(places: Tensor, shape: Sequence[Any]) -> Tensor:
    """Places (count,) among the elements of a shape, as coordinates (count, rank)."""
    found: list[Tensor] = []
    for size in reversed(shape[1:]):
        length = ops.cast(number_of(size), dtype="int64")
        found.append(ops.mod(places, length))
        places = ops.floor_div(places, length)
    return ops.stack(places, *reversed(found), axis=1)


def _by_axis(places: Tensor) -> tuple[Tensor, ...]:
    """(count, rank) -> a tensor (count, 1) for each axis."""
    return tuple(
        ops.slice(places, axes=[1], starts=[i], ends=[i + 1], steps=[1])
        for i in range(places.shape[1])
    )


@overload
def where(
    condition: Tensor, x: None = None, y: None = None, name: str | None = None
) -> tuple[Tensor, ...]: ...


@overload
def where(
    condition: Tensor, x: ScalarLike, y: ScalarLike, name: str | None = None
) -> Tensor: ...


def where(
    condition: Tensor,
    x: ScalarLike | None = None,
    y: ScalarLike | None = None,
    name: str | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """x where condition holds, else y; the coordinates where it holds if neither is
    given.
    """
    if x is None and y is None:
        return _by_axis(nonzero(condition))
    if x is None or y is None:
        raise InvalidArgumentError("[where] expected both x and y or neither, got one")
    if condition.dtype != "bool":
        condition = ops.not_equal(condition, 0)
    a = as_tensor(x, y if isinstance(y, Tensor) else None)
    b = as_tensor(y, a)
    if a.dtype != b.dtype:
        from proa.schema.dtypes import promote

        common = promote(a.dtype.name, b.dtype.name)
        a, b = cast_if(a, common), cast_if(b, common)
    return ops.where(condition, a, b)


def searchsorted(
    sorted_sequence: Tensor,
    values: Tensor,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
) -> Tensor:
    """Where values would be put into a sorted last axis; by comparison with every
    entry.
    """
    row = ops.unsqueeze(sorted_sequence, axis=[sorted_sequence.ndim - 1])
    if sorted_sequence.ndim == 1:
        row = sorted_sequence
    elif sorted_sequence.shape[:-1] != values.shape[:-1]:
        raise ShapeError(
            "searchsorted",
            f"all axes but the last must be {sorted_sequence.shape[:-1]}",
            values.shape,
        )
    column = ops.unsqueeze(values, axis=[-1])
    before = ops.less_equal(row, column) if right else ops.less_than(row, column)
    found = ops.sum(before, axis=[-1])
    return cast_if(found, "int32" if out_int32 else "int64")


def bucketize(
    x: Tensor,
    sorted_sequence: Tensor,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
) -> Tensor:
    """`searchsorted` with one sequence for all of x."""
    return searchsorted(sorted_sequence, x, out_int32, right)


def multiplex(
    inputs: Sequence[Tensor], index: Tensor, name: str | None = None
) -> Tensor:
    """Row i of the tensor that index[i] names, for every i.

    Args:
        inputs: Tensors of one shape (n, ..).
        index: int32 or int64, (n,) or (n, 1).

    Returns:
        The shape and dtype of the inputs.
    """
    if not inputs:
        raise InvalidArgumentError("[multiplex] expected at least one tensor, got none")
    which = cast_if(ops.reshape(index, shape=[-1]), "int64")
    row = ops.cumsum(ops.full_like(which, value=1, dtype=which.dtype), axis=0)
    place = ops.stack(which, ops.sub(row, 1), axis=-1)
    return ops.gather_nd(ops.stack(*inputs, axis=0), place)


def shard_index(
    input: Tensor,
    index_num: int,
    nshards: int,
    shard_id: int,
    ignore_value: int = -1,
    name: str | None = None,
) -> Tensor:
    """Indices relative to the shard that holds them; elsewhere ``ignore_value``.

    Shard s holds ceil(index_num / nshards) indices from s times as many on.

    Args:
        input: Integers in [0, index_num).
        index_num: How many indices there are.
        nshards: How many shards.
        shard_id: Which one this is.
        ignore_value: Replaces indices of other shards.
    """
    if nshards < 1 or not 0 <= shard_id < nshards:
        raise InvalidArgumentError(
            f"[shard_index] shard_id must be in [0, {nshards}), got {shard_id}"
        )
    size = -(-index_num // nshards)
    here = ops.equal(ops.floor_div(input, size), shard_id)
    other = ops.full(shape=[], value=ignore_value, dtype=input.dtype)
    return ops.where(here, ops.mod(input, size), other)
