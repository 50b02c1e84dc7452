"""What vertices send along edges, and what becomes of it where edges end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, OutOfRangeError, ShapeError
from proa.tensor.arguments import cast_if
from proa.tensor.associative_scan import associative_scan
from proa.tensor.creation import zeros
from proa.tensor.search import argsort

_MESSAGES: dict[str, Callable[[Any, Any], Tensor]] = {
    "add": ops.add, "sub": ops.sub, "mul": ops.mul, "div": ops.div,
}  # fmt: skip
_REDUCTIONS = ("sum", "mean", "max", "min")


def send_u_recv(
    x: Tensor,
    src_index: Tensor,
    dst_index: Tensor,
    reduce_op: str = "sum",
    out_size: int | Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """y[v] = the sum (mean, max, min) of x[u] over the edges from u to v.

    Args:
        x: (vertices, …), floating.
        src_index: (edges,), int32 or int64: where edges begin.
        dst_index: (edges,): where they end.
        reduce_op: "sum", "mean", "max" or "min".
        out_size: The number of vertices that receive, an integer or a Tensor of one;
            None or 0 takes that of x.
        name: Ignored.

    Returns:
        (out_size, …) in the dtype of x; 0 for vertices where no edge ends.

    Raises:
        ShapeError: If the indices are not vectors of equal length.
        InvalidArgumentError: If reduce_op is another, or an index is no integer.
        OutOfRangeError: If an index is no vertex.
    """
    _check("send_u_recv", src_index, dst_index, reduce_op=reduce_op)
    sent = ops.gather(x, src_index, axis=0)
    return _received(sent, dst_index, reduce_op, _size(out_size, x))


def send_ue_recv(
    x: Tensor,
    y: Tensor,
    src_index: Tensor,
    dst_index: Tensor,
    message_op: str = "add",
    reduce_op: str = "sum",
    out_size: int | Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """The same of messages x[u] + y[e] over the edges e from u to v.

    Args:
        x: (vertices, …), floating.
        y: (edges, …), which broadcasts with x but for the first axis.
        src_index: As of `send_u_recv`, like the next.
        dst_index: See there.
        message_op: "add", "sub", "mul" or "div".
        reduce_op: As of `send_u_recv`, like the next.
        out_size: See there.
        name: Ignored.
    """
    where = "send_ue_recv"
    _check(where, src_index, dst_index, message_op=message_op, reduce_op=reduce_op)
    sent = _MESSAGES[message_op](*_aligned(ops.gather(x, src_index, axis=0), y))
    return _received(sent, dst_index, reduce_op, _size(out_size, x))


def send_uv(
    x: Tensor,
    y: Tensor,
    src_index: Tensor,
    dst_index: Tensor,
    message_op: str = "add",
    name: str | None = None,
) -> Tensor:
    """z[e] = x[u] + y[v] for the edges e from u to v.

    Args:
        x: (vertices, …), floating.
        y: (vertices, …), which broadcasts with x but for the first axis.
        src_index: As of `send_u_recv`, like the next.
        dst_index: See there.
        message_op: "add", "sub", "mul" or "div".
        name: Ignored.

    Returns:
        (edges, …).
    """
    _check("send_uv", src_index, dst_index, message_op=message_op)
    ends = ops.gather(x, src_index, axis=0), ops.gather(y, dst_index, axis=0)
    return _MESSAGES[message_op](*_aligned(*ends))


def _check(
    where: str,
    source: Tensor,
    target: Tensor,
    message_op: str = "add",
    reduce_op: str = "sum",
) -> None:
    if source.ndim != 1 or list(source.shape) != list(target.shape):
        raise ShapeError(
            where,
            "src_index and dst_index must be vectors of one length",
            (tuple(source.shape), tuple(target.shape)),
        )
    for what, index in (("src_index", source), ("dst_index", target)):
        if index.dtype.name not in ("int32", "int64"):
            raise InvalidArgumentError(
                f"[{where}] {what} must be int32 or int64, got {index.dtype.name}"
            )
        if not index._is_symbolic and index.numpy().min(initial=0) < 0:
            raise OutOfRangeError(
                f"[{where}] {what} must be at least 0, got {index.numpy().min()}"
            )
    for what, given, known in (
        ("message_op", message_op, tuple(_MESSAGES)),
        ("reduce_op", reduce_op, _REDUCTIONS),
    ):
        if given not in known:
            raise InvalidArgumentError(
                f"[{where}] {what} must be one of {', '.join(known)}, got {given!r}"
            )


def _aligned(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both with as many axes, the fewer's put in after the first."""
    rank = max(x.ndim, y.ndim)
    return tuple(  # type: ignore[return-value]  # there are two
        ops.unsqueeze(t, axis=list(range(1, 1 + rank - t.ndim))) if t.ndim < rank else t
        for t in (x, y)
    )


def _size(out_size: Any, x: Tensor) -> Any:
    if isinstance(out_size, Tensor):
        out_size = out_size.item()
    return out_size if out_size is not None and out_size > 0 else x.shape[0]


def _received(sent: Tensor, target: Tensor, how: str, count: Any) -> Tensor:
    rows = ops.reshape(target, shape=[-1, 1])
    if how in ("max", "min"):
        return _extreme(sent, target, how, count)
    # A float32 sum of many messages loses digits.
    wide = cast_if(sent, as_dtype("float64")) if sent.dtype.is_floating else sent
    blank = zeros([count, *sent.shape[1:]], wide.dtype)
    total = ops.scatter_nd_like(wide, rows, blank)
    if how == "mean":
        ones = ops.full_like(target, value=1, dtype=wide.dtype)
        counts = ops.scatter_nd_like(ones, rows, zeros([count], wide.dtype))
        share = ops.maximum(counts, ops.full_like(counts, value=1, dtype=wide.dtype))
        shape = [0, *[1] * (sent.ndim - 1)]
        total = ops.div(total, ops.reshape(share, shape=shape))
    return cast_if(total, sent.dtype)


def _extreme(sent: Tensor, target: Tensor, how: str, count: Any) -> Tensor:
    """Messages in the order of their targets, a running extreme of each target, and of
    that its last row.
    """
    blank = zeros([count + 1, *sent.shape[1:]], sent.dtype)
    if sent.shape[0] == 0:
        return blank[1:]
    better = ops.maximum if how == "max" else ops.minimum

    def join(
        earlier: tuple[Tensor, ...], later: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        same = ops.equal(earlier[1], later[1])
        return ops.where(same, better(earlier[0], later[0]), later[0]), later[1]

    order = argsort(target)
    sent = ops.gather(sent, order, axis=0)
    target = ops.gather(target, order, axis=0)
    marks = ops.reshape(target, shape=[0, *[1] * (sent.ndim - 1)])
    running, _ = associative_scan((sent, marks), 0, join)
    # What is no last row goes to a row before all others, which is cut off.
    last = ops.full_like(target[:1], value=-1, dtype=target.dtype)
    goes_on = ops.equal(target, ops.concat(target[1:], last, axis=0))
    place = ops.where(goes_on, 0, ops.add(target, 1))
    placed = ops.index_put(blank, ops.reshape(place, shape=[-1, 1]), running)
    return placed[1:]
