"""Exchanges between processes, of which there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import distributed as dist
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    UnimplementedError,
)

A = np.arange(6, dtype=np.float32).reshape(2, 3)
OPS = ["SUM", "MAX", "MIN", "PROD", "AVG"]


def tensor() -> proa.Tensor:
    return proa.to_tensor(A)


@pytest.mark.parametrize("op", OPS)
def test_what_is_reduced_over_one_process_stays(op: str) -> None:
    x, how = tensor(), getattr(dist.ReduceOp, op)
    group = dist.new_group([0])
    for of in (None, 0, group):
        dist.all_reduce(x, how, of)
        dist.reduce(x, 0, op=how, group=of)
        dist.broadcast(x, src=0, group=of)
        dist.barrier(of)
        dist.wait(x, of)
        np.testing.assert_array_equal(x.numpy(), A)
    task = dist.all_reduce(x, op=how, sync_op=False)
    assert task is not None and task.wait() and task.is_completed()
    assert dist.all_reduce(x, use_calc_stream=True) is None


def test_lists_have_one_tensor_which_is_a_copy() -> None:
    x = tensor()
    x.stop_gradient = False
    found: list[Any] = []
    for call in (
        lambda: dist.all_gather(found, x),
        lambda: dist.gather(x, found, dst=0),
        lambda: dist.alltoall([x], found),
    ):
        call()
        call()  # fills it again
        assert len(found) == 1 and found[0].stop_gradient
        np.testing.assert_array_equal(found[0].numpy(), A)
        found[0].zero_()
        np.testing.assert_array_equal(x.numpy(), A)
    dist.gather(x)


def test_tensors_are_filled_with_the_own_part() -> None:
    for call in (
        lambda y: dist.scatter(y, [tensor()], src=0),
        lambda y: dist.reduce_scatter(y, [tensor()]),
        lambda y: dist.alltoall_single(tensor(), y),
        lambda y: dist.alltoall_single(tensor(), y, [2], [2]),
    ):
        y = proa.zeros([2, 3])
        call(y)
        np.testing.assert_array_equal(y.numpy(), A)


def test_objects_are_exchanged() -> None:
    found: list[Any] = [None]
    dist.all_gather_object(found, {"a": 1})
    assert found == [{"a": 1}]
    dist.broadcast_object_list(found, src=0)
    assert found == [{"a": 1}]
    dist.scatter_object_list(found, ["b"], src=0)
    assert found == ["b"]


def test_groups_have_this_process() -> None:
    assert dist.is_available()
    every, group = dist.get_group(), dist.new_group()
    assert (every.id, every.ranks, every.nranks, every.rank) == (0, [0], 1, 0)
    assert group.id != 0 and dist.get_group(group.id) is group
    assert group.is_member() and group.world_size == 1 and group.name != every.name
    assert (group.get_group_rank(0), group.get_group_rank(3)) == (0, -1)
    assert dist.get_world_size(group) == 1 and dist.get_rank(group) == 0
    dist.destroy_process_group(group)
    with pytest.raises(NotFoundError, match="id must be one of"):
        dist.get_group(group.id)
    dist.new_group()
    dist.destroy_process_group()
    assert dist.get_group().nranks == 1


def test_one_process_is_run_in_this_one() -> None:
    seen: list[int] = []
    dist.spawn(seen.append, args=(3,), nprocs=1)
    dist.spawn(seen.append, (4,))
    assert seen == [3, 4]
    with pytest.raises(UnimplementedError, match=r"nprocs must be 1, .*got 2"):
        dist.spawn(seen.append, args=(3,), nprocs=2)


def test_several_processes_are_not_taken_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "4")
    for call in (dist.all_reduce, lambda x: dist.all_gather([], x), dist.wait):
        with pytest.raises(UnimplementedError, match="got PADDLE_TRAINERS_NUM=4"):
            call(tensor())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: dist.all_reduce(A), InvalidTypeError, "all_reduce.*got ndarray"),
        (lambda: dist.all_reduce(tensor(), 9), InvalidArgumentError, "ReduceOp, got 9"),
        (lambda: dist.barrier("all"), InvalidTypeError, "Group or None, got 'all'"),
        (lambda: dist.broadcast(tensor(), 1), InvalidArgumentError, "src must be 0"),
        (lambda: dist.reduce(tensor(), 2), InvalidArgumentError, "dst must be 0"),
        (lambda: dist.scatter(tensor(), []), InvalidArgumentError, "1, got 0"),
        (lambda: dist.scatter(tensor()), InvalidArgumentError, "1, got None"),
        (
            lambda: dist.alltoall_single(tensor(), tensor(), [1, 1]),
            InvalidArgumentError,
            r"in_split_sizes must be \[2\], got \[1, 1\]",
        ),
        (lambda: dist.new_group([0, 1]), UnimplementedError, r"got \[0, 1\]"),
        (
            lambda: dist.send(tensor(), 1),
            UnimplementedError,
            "expected dst to be",
        ),
        (
            lambda: dist.recv(tensor(), 1),
            UnimplementedError,
            "expected src to be",
        ),
    ],
)
def test_what_needs_another_process_is_rejected(
    call: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
