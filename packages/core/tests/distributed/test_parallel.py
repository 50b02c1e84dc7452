"""Programs written for many processes run in one."""

from __future__ import annotations

import numpy as np
import pytest

import proa
from proa import distributed as dist
from proa import nn
from proa.errors import InvalidTypeError, UnimplementedError

X = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)


def test_one_process_is_the_first_and_the_only_one() -> None:
    dist.init_parallel_env()
    assert dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    place = dist.ParallelEnv()
    assert (place.local_rank, place.nranks, place.dev_id) == (0, 1, 0)
    assert (place.device_type, place.trainer_endpoints) == ("cpu", [])


def test_more_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    with pytest.raises(UnimplementedError, match="PADDLE_TRAINERS_NUM=2"):
        dist.init_parallel_env()


def test_a_wrapped_layer_trains_as_it_would_alone() -> None:
    layer = nn.Linear(4, 3)
    whole = proa.DataParallel(layer, find_unused_parameters=True)
    whole.init_reducer()
    x = proa.to_tensor(X)
    with whole.no_sync():
        loss = whole.scale_loss((whole(x) ** 2).sum())
    loss.backward()
    whole.apply_collective_grads()
    y = X @ layer.weight.numpy() + layer.bias.numpy()
    assert layer.weight.grad is not None
    np.testing.assert_allclose(layer.weight.grad.numpy(), X.T @ (2 * y), rtol=1e-4)
    pairs = zip(whole.parameters(), layer.parameters(), strict=True)
    assert all(p is q for p, q in pairs)


def test_its_state_has_the_names_of_the_layer() -> None:
    layer, other = nn.Linear(4, 3), nn.Linear(4, 3)
    state = proa.DataParallel(layer).state_dict()
    assert set(state) == {"weight", "bias"}
    proa.DataParallel(other).set_state_dict(state)
    np.testing.assert_array_equal(other.weight.numpy(), layer.weight.numpy())


def test_only_layers_are_wrapped() -> None:
    with pytest.raises(InvalidTypeError, match="must be a Layer, got function"):
        proa.DataParallel(lambda x: x)  # type: ignore[arg-type]


def test_norms_become_synchronous() -> None:
    network = nn.Sequential(
        nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4, epsilon=1e-3), nn.Sequential(nn.ReLU())
    )
    images = proa.randn([2, 3, 6, 6])
    network(images)
    network.eval()
    want = network(images).numpy()
    before = {k: v.numpy() for k, v in network.state_dict().items()}
    network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
    assert type(network[1]) is nn.SyncBatchNorm
    assert network[1]._epsilon == 1e-3
    np.testing.assert_array_equal(network(images).numpy(), want)
    after = network.state_dict()
    assert set(after) == set(before)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name].numpy(), value)
    norm = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1D(5))
    assert type(norm) is nn.SyncBatchNorm


def test_statistics_are_those_of_the_batch() -> None:
    x = np.random.default_rng(1).standard_normal((5, 2, 3)).astype(np.float32)
    norm = nn.SyncBatchNorm(2)
    y = norm(proa.to_tensor(x)).numpy()
    mean, var = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(var + 1e-5), atol=1e-5)
    np.testing.assert_allclose(norm._mean.numpy(), 0.1 * mean.ravel(), rtol=1e-5)
