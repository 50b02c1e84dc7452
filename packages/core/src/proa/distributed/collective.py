"""Exchanges between processes that train together, as they are with one.

Each function leaves what it would leave with any number of processes: a sum over one
is the tensor itself. What needs another process is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from proa._core import Tensor, ops
from proa.distributed.parallel import check_alone
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    UnimplementedError,
)
from proa.tensor.methods import set_value

__all__ = [
    "Group", "ReduceOp", "all_gather", "all_gather_object", "all_reduce", "alltoall",
    "alltoall_single", "barrier", "broadcast", "broadcast_object_list",
    "destroy_process_group", "gather", "get_group", "is_available", "new_group", "recv",
    "reduce", "reduce_scatter", "scatter", "scatter_object_list", "send", "spawn",
    "wait",
]  # fmt: skip


class ReduceOp:
    """How tensors of several processes become one."""

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3
    AVG = 4


@dataclass
class Group:
    """Processes that exchange tensors: the one there is."""

    id: int = 0
    ranks: list[int] = field(default_factory=lambda: [0])
    rank: int = 0
    nranks: int = 1

    @property
    def world_size(self) -> int:
        return self.nranks

    @property
    def name(self) -> str:
        return f"_default_pg{self.id}"

    def is_member(self) -> bool:
        """Whether this process belongs to it."""
        return True

    def get_group_rank(self, rank: int) -> int:
        """Number within the group of a process; -1 of one outside."""
        return self.ranks.index(rank) if rank in self.ranks else -1


class _Done:
    """An exchange that is over."""

    def wait(self) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


T = TypeVar("T")

_numbers = itertools.count(1)
_groups: dict[int, Group] = {0: Group()}


def new_group(
    ranks: Sequence[int] | None = None,
    backend: str | None = None,
    timeout: object = None,
) -> Group:
    """A group of processes: None, or [0], as there is one.

    Raises:
        UnimplementedError: If others are named.
    """
    if ranks is not None and list(ranks) not in ([], [0]):
        raise UnimplementedError(
            f"[new_group] ranks must be [0], as one process trains, got {list(ranks)}"
        )
    group = Group(next(_numbers))
    _groups[group.id] = group
    return group


def get_group(id: int = 0) -> Group:
    """The group of that number, 0 being that of all processes.

    Raises:
        NotFoundError: If there is none.
    """
    if id not in _groups:
        raise NotFoundError(
            f"[get_group] id must be one of {list(_groups)}, got {id!r}"
        )
    return _groups[id]


def destroy_process_group(group: Group | None = None) -> None:
    """Forget a group; None forgets all but that of all processes."""
    for number in [n for n in _groups if n]:
        if group is None or number == group.id:
            del _groups[number]


def is_available() -> bool:
    """Whether there are collective functions: there are."""
    return True


def _checked(where: str, group: Any, *tensors: Any, **peers: Any) -> None:
    """Raise unless there are tensors, a group, and processes of these numbers."""
    check_alone(where)
    for t in tensors:
        if not isinstance(t, Tensor):
            raise InvalidTypeError(
                f"[{where}] expected Tensors, got {type(t).__name__}"
            )
    if not (group is None or isinstance(group, Group) or group == 0):
        raise InvalidTypeError(
            f"[{where}] group must be a Group or None, got {group!r}"
        )
    for name, rank in peers.items():
        if rank != 0 or isinstance(rank, bool):
            raise InvalidArgumentError(
                f"[{where}] {name} must be 0, the only process, got {rank!r}"
            )


def _reducing(where: str, op: Any) -> None:
    if op not in range(5):
        raise InvalidArgumentError(
            f"[{where}] op must be a member of ReduceOp, got {op!r}"
        )


def _done(sync_op: bool) -> _Done | None:
    return None if sync_op else _Done()


def _one(where: str, name: str, given: Any) -> Any:
    """The one thing of a list that has one for each process."""
    if not isinstance(given, (list, tuple)) or len(given) != 1:
        count = len(given) if isinstance(given, (list, tuple)) else given
        raise InvalidArgumentError(
            f"[{where}] {name} must have one entry for each process, 1, got {count}"
        )
    return given[0]


def _fill(held: list[Any], *found: Tensor) -> None:
    held[:] = [ops.assign(t.detach()) for t in found]


def all_reduce(
    tensor: Tensor,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = True,
) -> _Done | None:
    """Replace the tensor by the sum (…) of all processes' tensors: itself.

    Args:
        tensor: What is exchanged.
        op: One of `ReduceOp`.
        group: The processes; None means all.
        sync_op: False returns what can be waited for.
        use_calc_stream: Has no meaning here.

    Raises:
        InvalidTypeError: If there is no Tensor or Group.
        InvalidArgumentError: If op is none of `ReduceOp`.
    """
    _checked("all_reduce", group, tensor)
    _reducing("all_reduce", op)
    return _done(sync_op)


def reduce(
    tensor: Tensor,
    dst: int,
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = True,
) -> _Done | None:
    """`all_reduce` for the process dst alone."""
    _checked("reduce", group, tensor, dst=dst)
    _reducing("reduce", op)
    return _done(sync_op)


def broadcast(
    tensor: Tensor,
    src: int,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = True,
) -> _Done | None:
    """Replace the tensor by that of the process src: itself."""
    _checked("broadcast", group, tensor, src=src)
    return _done(sync_op)


def all_gather(
    tensor_list: list[Tensor],
    tensor: Tensor,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = True,
) -> _Done | None:
    """Fill a list with all processes' tensors: copies."""
    _checked("all_gather", group, tensor)
    _fill(tensor_list, tensor)
    return _done(sync_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
) -> _Done | None:
    """`all_gather` for the process dst alone."""
    _checked("gather", group, tensor, dst=dst)
    if gather_list is not None:
        _fill(gather_list, tensor)
    return _done(sync_op)


def scatter(
    tensor: Tensor,
    tensor_list: Sequence[Tensor] | None = None,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = True,
) -> _Done | None:
    """Copy into each process's tensor its own of a list that the process src has."""
    given = _one("scatter", "tensor_list", tensor_list)
    _checked("scatter", group, tensor, given, src=src)
    set_value(tensor, given)
    return _done(sync_op)


def reduce_scatter(
    tensor: Tensor,
    tensor_list: Sequence[Tensor],
    op: int = ReduceOp.SUM,
    group: Group | None = None,
    sync_op: bool = True,
) -> _Done | None:
    """Copy into each process's tensor the sum (…) of its own of all lists."""
    given = _one("reduce_scatter", "tensor_list", tensor_list)
    _checked("reduce_scatter", group, tensor, given)
    _reducing("reduce_scatter", op)
    set_value(tensor, given)
    return _done(sync_op)


def alltoall(
    in_tensor_list: Sequence[Tensor],
    out_tensor_list: list[Tensor],
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = True,
) -> _Done | None:
    """Fill a list with this process's own of all processes' lists: copies."""
    given = _one("alltoall", "in_tensor_list", in_tensor_list)
    _checked("alltoall", group, given)
    _fill(out_tensor_list, given)
    return _done(sync_op)


def alltoall_single(
    in_tensor: Tensor,
    out_tensor: Tensor,
    in_split_sizes: Sequence[int] | None = None,
    out_split_sizes: Sequence[int] | None = None,
    group: Group | None = None,
    sync_op: bool = True,
) -> _Done | None:
    """The same of rows of tensors: a copy."""
    _checked("alltoall_single", group, in_tensor, out_tensor)
    for name, sizes in (("in", in_split_sizes), ("out", out_split_sizes)):
        if sizes and list(sizes) != [in_tensor.shape[0]]:
            raise InvalidArgumentError(
                f"[alltoall_single] {name}_split_sizes must be "
                f"[{in_tensor.shape[0]}], got {list(sizes)}"
            )
    set_value(out_tensor, in_tensor)
    return _done(sync_op)


def all_gather_object(object_list: list[T], obj: T, group: Group | None = None) -> None:
    """Fill a list with all processes' objects."""
    _checked("all_gather_object", group)
    object_list[:] = [obj]


def broadcast_object_list(
    object_list: list[T], src: int, group: Group | None = None
) -> None:
    """Replace a list's objects by those of the process src: themselves."""
    _checked("broadcast_object_list", group, src=src)


def scatter_object_list(
    out_object_list: list[T],
    in_object_list: Sequence[T] | None = None,
    src: int = 0,
    group: Group | None = None,
) -> None:
    """Fill a list with this process's own of a list that the process src has."""
    _checked("scatter_object_list", group, src=src)
    out_object_list[:] = [_one("scatter_object_list", "in_object_list", in_object_list)]


def _alone(where: str, name: str, rank: Any) -> UnimplementedError:
    return UnimplementedError(
        f"[{where}] expected {name} to be the rank of another process, of which there "
        f"is none, got {rank!r}"
    )


def send(
    tensor: Tensor,
    dst: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = True,
) -> None:
    """Send a tensor to another process.

    Raises:
        UnimplementedError: Always: there is none.
    """
    raise _alone("send", "dst", dst)


def recv(
    tensor: Tensor,
    src: int = 0,
    group: Group | None = None,
    sync_op: bool = True,
    use_calc_stream: bool = True,
) -> None:
    """Receive a tensor from another process.

    Raises:
        UnimplementedError: Always: there is none.
    """
    raise _alone("recv", "src", src)


def barrier(group: Group | None = None) -> None:
    """Wait for all processes: for none."""
    _checked("barrier", group)


def wait(
    tensor: Tensor, group: Group | None = None, use_calc_stream: bool = True
) -> None:
    """Wait until a tensor was exchanged: it was."""
    _checked("wait", group, tensor)


def spawn(
    func: Callable[..., object],
    args: Sequence[object] = (),
    nprocs: int = -1,
    join: bool = True,
    daemon: bool = False,
    **options: object,
) -> None:
    """Run ``func(*args)`` in as many processes as are to train: in this one.

    Args:
        func: What trains.
        args: Its arguments.
        nprocs: How many: 1, or -1 for as many as there are devices.
        join: Has no meaning here, as the next.
        daemon: See there.
        options: See there.

    Raises:
        UnimplementedError: If more are requested.
    """
    if nprocs not in (-1, 1):
        raise UnimplementedError(
            f"[spawn] nprocs must be 1, as one process trains, got {nprocs}"
        )
    func(*args)
