"""Inference on several places: each has a part of the batch, and no row is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import InvalidArgumentError, UnavailableError

Programs = tuple[static.Program, static.Program]


def compiled(program: static.Program, count: int) -> static.CompiledProgram:
    return static.CompiledProgram(program).with_data_parallel(
        places=static.cpu_places(count)
    )


def rows(n: int) -> Any:
    return np.random.default_rng(n).standard_normal((n, 3)).astype("float32")


class Rows(proa.io.Dataset[Any]):
    def __init__(self, data: Any) -> None:
        self.data = data

    def __getitem__(self, i: int) -> Any:
        return self.data[i]

    def __len__(self) -> int:
        return len(self.data)


def build() -> tuple[Any, Any, Any]:
    """Data, a layer of them, and how many rows a place has."""
    x = static.data("x", [None, 3])
    y = static.nn.fc(x, 2, activation="tanh")
    count = proa.ones_like(x[:, 0]).sum()
    static.Executor().run(static.default_startup_program())
    return x, y, count


@pytest.mark.feature("L178")
@pytest.mark.parametrize("total", [6, 7, 8])
def test_places_fetch_results_of_different_lengths(
    static_mode: Programs, total: int
) -> None:
    _, y, count = build()
    exe, data = static.Executor(), rows(total)
    (want,) = exe.run(feed={"x": data}, fetch_list=[y])
    program = compiled(static_mode[0], 3)
    found, counts = exe.run(program, feed={"x": data}, fetch_list=[y, count])
    np.testing.assert_array_equal(found, want)
    assert counts.shape == (3,) and counts.sum() == total
    parts, each = exe.run(
        program, feed={"x": data}, fetch_list=[y, count], return_merged=False
    )
    lengths = [len(part) for part in parts]
    assert lengths == [int(n) for n in each] and sum(lengths) == total
    assert max(lengths) - min(lengths) == (total % 3 > 0)
    np.testing.assert_array_equal(np.concatenate(parts), want)
    tensors = exe.run(program, {"x": data}, [y, count], return_numpy=False)
    np.testing.assert_array_equal(tensors[0].numpy(), want)
    assert tensors[1].shape == [3]


@pytest.mark.feature("L178")
def test_places_may_be_fed_batches_of_their_own(static_mode: Programs) -> None:
    x, y, _ = build()
    exe, program = static.Executor(), compiled(static_mode[0], 2)
    feed = [{"x": rows(4)}, {"x": rows(1)}]
    wide = proa.transpose(x, [1, 0])
    whole, lists = exe.run(program, feed, [y, wide], return_merged=False)
    assert [a.shape for a in whole] == [(4, 2), (1, 2)]
    assert [a.shape for a in lists] == [(3, 4), (3, 1)]
    (found,) = exe.run(program, feed, [y])
    assert found.shape == (5, 2)
    with pytest.raises(InvalidArgumentError, match=r"shapes \[\(3, 4\), \(3, 1\)\]"):
        exe.run(program, feed, [wide])
    with pytest.raises(InvalidArgumentError, match="at most 2 places, got 3"):
        exe.run(program, [*feed, *feed[:1]], [y])


@pytest.mark.feature("L179")
@pytest.mark.parametrize("count", [2, 4])
def test_no_row_of_a_smaller_last_batch_is_lost(
    static_mode: Programs, count: int
) -> None:
    x, y, _ = build()
    exe, data = static.Executor(), rows(9)
    (want,) = exe.run(feed={"x": data}, fetch_list=[y])
    program = compiled(static_mode[0].clone(for_test=True), count)
    loader = proa.io.DataLoader(
        Rows(data), feed_list=[x], batch_size=4, drop_last=False, return_list=False
    )
    sizes, found = [], []
    for batch in loader:
        fed = batch[0] if isinstance(batch, (list, tuple)) else batch
        sizes.append(len(np.asarray(fed["x"])))
        (result,) = exe.run(program, feed=fed, fetch_list=[y.name])
        found.append(result)
    assert sizes == [4, 4, 1]  # the last is smaller than the number of places
    np.testing.assert_array_equal(np.concatenate(found), want)


def test_data_of_known_sizes_are_given_to_each_place(static_mode: Programs) -> None:
    x, rate = static.data("x", [None, 3]), static.data("rate", [1])
    z = static.data("z", [None])
    out = x * rate + z.unsqueeze(1)
    program = compiled(static_mode[0], 2)
    feed = {"x": rows(5), "rate": np.full(1, 2.0, "float32"), "z": rows(5)[:, 0]}
    (found,) = static.Executor().run(program, feed, [out])
    np.testing.assert_array_equal(found, feed["x"] * 2 + feed["z"][:, None])
    with pytest.raises(InvalidArgumentError, match=r"{'x': 5, 'z': 4}"):
        static.Executor().run(program, {**feed, "z": feed["z"][:4]}, [out])
    with pytest.raises(UnavailableError, match="with_data_parallel"):
        static.CompiledProgram(static_mode[0]).with_data_parallel(places=["gpu:0"])


def test_a_step_of_training_takes_the_whole_batch(static_mode: Programs) -> None:
    x = static.data("x", [None, 3])
    loss = static.nn.fc(x, 1).mean()
    proa.optimizer.SGD(0.1).minimize(loss)
    exe = static.Executor()
    exe.run(static_mode[1])
    (found,) = exe.run(compiled(static_mode[0], 2), {"x": rows(3)}, [loss])
    assert found.shape == ()
