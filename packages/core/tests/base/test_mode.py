"""The mode switch, places of other devices, and what of 1.x programs is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import proa
from proa.errors import InvalidArgumentError, UnavailableError


@pytest.fixture(autouse=True)
def dynamic_again() -> Iterator[None]:
    yield
    proa.disable_static()


@pytest.mark.feature("L163")
def test_the_mode_is_dynamic_until_switched():
    assert proa.in_dynamic_mode()
    with pytest.raises(ZeroDivisionError):
        proa.enable_static()
        raise ZeroDivisionError
    assert not proa.in_dynamic_mode()
    proa.disable_static(proa.CPUPlace())
    assert proa.in_dynamic_mode() and proa.static.in_dynamic_mode()


def test_names_that_static_lacks():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        proa.static.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        (proa.CUDAPlace, [0]),
        (proa.CUDAPinnedPlace, []),
        (proa.XPUPlace, [1]),
        (proa.NPUPlace, [0]),
    ],
)
def test_places_of_absent_devices_are_refused(place: Any, arguments: list[int]):
    with pytest.raises(UnavailableError, match=rf"\[{place.__name__}\]"):
        place(*arguments)


def test_the_cpu_is_a_place():
    assert proa.CPUPlace() == proa.ones([1]).place
    assert repr(proa.CPUPlace()) == "Place(cpu)" and proa.CPUPlace().is_cpu_place()


def test_batch_groups_the_samples_of_a_reader():
    def reader() -> Iterator[int]:
        yield from range(5)

    batched = proa.batch(reader, batch_size=2)
    assert list(batched()) == [[0, 1], [2, 3], [4]] == list(batched())
    assert list(proa.batch(reader, 2, drop_last=True)()) == [[0, 1], [2, 3]]
    with pytest.raises(InvalidArgumentError, match="positive, got 0"):
        proa.batch(reader, 0)


def test_names_of_arguments():
    proa.set_default_dtype(d="float64")
    assert proa.ones([1]).dtype == "float64"
    proa.set_default_dtype("float32")
    assert proa.seed(seed=3).initial_seed() == 3
    x = proa.ones([2, 2])
    assert proa.tril(input=x).tolist() == proa.tril(x).tolist() == [[1, 0], [1, 1]]
    assert proa.triu(input=x, diagonal=1).tolist() == [[0, 1], [0, 0]]
    first, second = proa.broadcast_tensors(inputs=[x, proa.ones([1])])
    assert first.shape == second.shape == [2, 2]
    out = proa.zeros([2, 2])
    assert proa.mm(x, x, out=out) is out and out.tolist() == [[2, 2], [2, 2]]
    assert proa.kron(proa.ones([1]), proa.ones([3]), out=proa.zeros([3])).size == 3
