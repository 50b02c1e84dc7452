"""Datasets, samplers and collation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import proa
from proa import io
from proa.errors import InvalidArgumentError


class Squares(io.Dataset[Any]):
    def __init__(self, size: int = 10) -> None:
        self.size = size

    def __getitem__(self, idx: int) -> Any:
        if not 0 <= idx < self.size:
            raise IndexError(idx)
        return np.float32(idx), idx * idx

    def __len__(self) -> int:
        return self.size


def test_datasets_compose() -> None:
    both = io.ConcatDataset([Squares(3), Squares(2)])
    assert [both[i][1] for i in range(-1, 5)] == [1, 0, 1, 4, 0, 1]
    with pytest.raises(IndexError):
        both[5]
    assert io.Subset(Squares(), [7, 2])[1][1] == 4
    assert io.ComposeDataset([Squares(2), Squares(2)])[1] == (1, 1, 1, 1)
    rows = io.TensorDataset([proa.arange(6).reshape([3, 2]), np.arange(3)])
    assert rows[2][0].tolist() == [4, 5]
    assert len(rows) == 3
    with pytest.raises(InvalidArgumentError, match="the same number of rows"):
        io.TensorDataset([proa.ones([2]), proa.ones([3])])

    class Stream(io.IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter([1, 2])

    assert list(io.ChainDataset([Stream(), Stream()])) == [1, 2, 1, 2]
    with pytest.raises(TypeError):
        len(Stream())


@pytest.mark.feature("L233")
def test_random_split_covers_everything_once() -> None:
    proa.seed(0)
    for lengths in ([7, 3], [0.65, 0.35]):
        parts = io.random_split(Squares(10), lengths)
        assert all(isinstance(part, io.Subset) for part in parts)
        seen = sorted(part[i][1] for part in parts for i in range(len(part)))
        assert seen == [i * i for i in range(10)]
    assert list(io.Subset(Squares(10), [3, 1])) == [(3, 9), (1, 1)]
    with pytest.raises(InvalidArgumentError, match="add up to 10"):
        io.random_split(Squares(10), [7, 4])


def test_samplers_of_ones_own() -> None:
    class Reversed(io.Sampler):
        def __iter__(self) -> Any:
            return iter(range(len(self.data_source) - 1, -1, -1))

    data = io.TensorDataset([np.arange(5)])
    loader = io.DataLoader(
        data, batch_sampler=io.BatchSampler(sampler=Reversed(data), batch_size=2)
    )
    assert [b.tolist() for (b,) in loader] == [[4, 3], [2, 1], [0]]
    with pytest.raises(NotImplementedError):
        iter(io.Sampler(data))


def test_samplers() -> None:
    proa.seed(0)
    data = Squares(20)
    assert list(io.SequenceSampler(data)) == list(range(20))
    order = list(io.RandomSampler(data))
    assert sorted(order) == list(range(20)) != order
    assert order != list(io.RandomSampler(data))
    proa.seed(0)
    assert order == list(io.RandomSampler(data))
    drawn = list(io.RandomSampler(data, replacement=True, num_samples=50))
    assert len(drawn) == 50
    assert max(Counter(drawn).values()) > 1
    assert sorted(io.SubsetRandomSampler([3, 5, 8])) == [3, 5, 8]
    weighted = Counter(io.WeightedRandomSampler([0.0, 1.0, 3.0], 4000))
    assert weighted[0] == 0
    assert abs(weighted[2] / 4000 - 0.75) < 0.04
    assert sorted(io.WeightedRandomSampler([1, 2, 3], 3, replacement=False)) == [
        0,
        1,
        2,
    ]


def test_batch_sampler() -> None:
    assert list(io.BatchSampler(Squares(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    dropped = io.BatchSampler(Squares(5), batch_size=2, drop_last=True)
    assert list(dropped) == [[0, 1], [2, 3]]
    assert len(dropped) == 2
    own = io.BatchSampler(sampler=io.SubsetRandomSampler([1]), batch_size=3)
    assert list(own) == [[1]]
    with pytest.raises(InvalidArgumentError, match="either dataset or sampler"):
        io.BatchSampler()
    with pytest.raises(InvalidArgumentError, match="positive"):
        io.BatchSampler(Squares(5), batch_size=0)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [22, 24])
def test_distributed_sampler_divides_evenly(shuffle: bool, size: int) -> None:
    data = Squares(size)
    samplers = [
        io.DistributedBatchSampler(data, 4, num_replicas=3, rank=r, shuffle=shuffle)
        for r in range(3)
    ]
    batches = [list(s) for s in samplers]
    assert len({len(b) for b in batches}) == 1
    assert all(len(b) == len(s) for b, s in zip(batches, samplers, strict=True))
    seen = Counter(i for part in batches for batch in part for i in batch)
    assert set(seen) == set(range(size))
    assert sum(seen.values()) == 24
    if shuffle:
        again = list(samplers[0])
        assert again != batches[0]
        samplers[0].set_epoch(0)
        assert list(samplers[0]) == batches[0]


@pytest.mark.feature("L235")
def test_collation_keeps_the_structure() -> None:
    samples = [
        {"x": np.ones(2, np.float32) * i, "y": (i, float(i), "t"), "t": proa.ones([1])}
        for i in range(3)
    ]
    batch = io.default_collate_fn(samples)
    assert batch["x"].shape == (3, 2)
    assert batch["y"][0].dtype == np.int64
    assert batch["y"][1].dtype == np.float32
    assert batch["y"][2] == ["t", "t", "t"]
    assert batch["t"].shape == (3, 1)
    with pytest.raises(InvalidArgumentError, match="the same number of fields"):
        io.default_collate_fn([(1, 2), (1,)])
    with pytest.raises(InvalidArgumentError, match="must hold"):
        io.default_collate_fn([object()])
