"""Batches of generators, as static programs of Paddle 1.x and 2.0 are fed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import proa
from proa import io, static
from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
)


@pytest.fixture
def program() -> Iterator[tuple[static.Program, list[Any], Any]]:
    """A program, its data (features, label), and the sum of both for each row."""
    main = static.Program()
    proa.enable_static()
    try:
        with static.program_guard(main), proa.utils.unique_name.guard():
            x = static.data("x", [None, 2], "float32")
            label = static.data("label", [None, 1], "int64")
            total = x.sum(1, keepdim=True) + label.astype("float32")
        yield main, [x, label], total
    finally:
        proa.disable_static()


@contextmanager
def dynamic() -> Iterator[None]:
    proa.disable_static()
    try:
        yield
    finally:
        proa.enable_static()


def samples() -> Iterator[tuple[list[int], int]]:
    for i in range(5):
        yield [i, 10 * i], 100 * i


def run(program: Any, loader: Any) -> list[list[float]]:
    main, _, total = program
    executor = static.Executor()
    passes = [executor.run(main, batch, [total])[0] for batch in loader()]
    return [found[:, 0].tolist() for found in passes]


def test_samples_become_batches_of_the_data_s_dtypes_and_shapes(program: Any) -> None:
    loader = io.DataLoader.from_generator(program[1], capacity=4)
    loader.set_sample_generator(samples, batch_size=2, places=proa.CPUPlace())
    for _ in range(2):  # each pass begins again
        assert run(program, loader) == [[0, 111], [222, 333]]
    loader.set_sample_generator(samples, batch_size=2, drop_last=False)
    assert run(program, loader) == [[0, 111], [222, 333], [444]]


def test_lists_of_samples_are_batches(program: Any) -> None:
    loader = io.DataLoader.from_generator(program[1])
    loader.set_sample_list_generator(proa.batch(samples, 3), static.cpu_places())
    assert run(program, loader) == [[0, 111, 222], [333, 444]]


def test_batches_are_given_as_they_are(program: Any) -> None:
    def batches() -> Iterator[Any]:
        yield np.ones((3, 2), np.float32), np.array([[1], [2], [3]])

    loader = io.DataLoader.from_generator(program[1]).set_batch_generator(batches)
    assert run(program, loader) == [[3, 4, 5]]


def test_batches_may_be_lists_of_tensors() -> None:
    loader = io.DataLoader.from_generator(return_list=True)
    loader.set_sample_generator(samples, 5)
    ((x, label),) = loader
    np.testing.assert_array_equal(x.numpy()[:, 1], [0, 10, 20, 30, 40])
    np.testing.assert_array_equal(label.numpy(), [0, 100, 200, 300, 400])


def test_what_a_loader_cannot_do_is_refused(program: Any) -> None:
    with (
        dynamic(),
        pytest.raises(PreconditionNotMetError, match="static mode"),
    ):
        io.DataLoader.from_generator(program[1], iterable=False)
    with pytest.raises(InvalidArgumentError, match="feed_list"):
        io.DataLoader.from_generator()
    loader = io.DataLoader.from_generator(program[1])
    with pytest.raises(PreconditionNotMetError, match="set_batch_generator"):
        next(iter(loader))
    loader.set_batch_generator(lambda: [[np.ones((1, 2), np.float32)]])
    with pytest.raises(InvalidArgumentError, match="got 1"):
        next(iter(loader))
