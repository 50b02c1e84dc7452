"""Single weights set to zero, files that shrink by it, and pruned model files."""

import os

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import (
    InvalidArgumentError,
    NotFoundError,
    PreconditionNotMetError,
)
from proa.ir import file
from proa.ir.verify import verify
from proa.static import InputSpec
from proa_slim.prune import (
    GMPUnstructuredPruner,
    UnstructuredPruner,
    prune_file,
    prune_program,
    save_sparse,
    two_of_four,
)

SPEC = [InputSpec([None, 64], "float32", "x")]


def perceptron():
    proa.seed(3)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))


def train_step(net, optimizer):
    rng = np.random.default_rng(0)
    x = proa.to_tensor(rng.normal(size=(16, 64)).astype("float32"))
    (net(x) - x).square().mean().backward()
    optimizer.step()
    optimizer.clear_grad()


@pytest.mark.parametrize("mode", ["ratio", "threshold", "2:4"])
def test_weights_that_are_not_finite_are_named(mode):
    net = perceptron()
    weight = net[2].weight.numpy()
    weight[1, 2:4] = np.nan, -np.inf
    net[2].weight.set_value(weight)
    with pytest.raises(InvalidArgumentError, match=r"got 2 NaN .* in '2\.weight'"):
        UnstructuredPruner(net, mode).step()


@pytest.mark.parametrize("local", [False, True])
def test_a_share_of_the_smallest_weights_is_zero_and_stays_so(local):
    net = perceptron()
    weights = [net[0].weight.numpy(), net[2].weight.numpy() * 3]
    net[2].weight.set_value(weights[1])
    pruner = UnstructuredPruner(net, "ratio", ratio=0.75, local_sparsity=local)
    pruner.step()
    flat = [np.abs(w).ravel() for w in weights]
    groups = flat if local else [np.concatenate(flat)] * 2
    for layer, weight, group in zip((net[0], net[2]), weights, groups, strict=True):
        limit = np.sort(group)[int(0.75 * group.size)]
        want = np.where(np.abs(weight) >= limit, weight, 0)
        np.testing.assert_array_equal(layer.weight.numpy(), want)
    pruner.set_static_masks()
    masks = {name: mask.copy() for name, mask in pruner.masks.items()}
    adam = proa.optimizer.Adam(0.01, parameters=net.parameters())
    for _ in range(3):
        train_step(net, adam)
        pruner.step()
    for name, mask in masks.items():
        weight = dict(net.named_parameters())[name]
        np.testing.assert_array_equal(weight.numpy() != 0, mask)
    assert UnstructuredPruner.total_sparse(net) == pytest.approx(0.741, abs=0.01)
    by_layer = UnstructuredPruner.sparse_by_layer(net)
    for layer in (0, 2):
        zeros = (net[layer].weight.numpy() == 0).mean()
        assert by_layer[f"{layer}.weight"] == pytest.approx(zeros)


def test_a_threshold_and_blocks():
    net = perceptron()
    weight = net[0].weight.numpy()
    UnstructuredPruner(net, "threshold", threshold=0.05).step()
    want = np.where(np.abs(weight) >= 0.05, weight, 0)
    np.testing.assert_array_equal(net[0].weight.numpy(), want)
    net = perceptron()
    UnstructuredPruner(net, "ratio", ratio=0.5, sparse_block=(8, 4)).step()
    blocks = net[0].weight.numpy().reshape(8, 8, 32, 4) != 0
    whole = blocks.all(axis=(1, 3))
    np.testing.assert_array_equal(whole, blocks.any(axis=(1, 3)))


def test_two_of_each_four_inputs_stay():
    net = nn.Sequential(
        nn.Conv2D(3, 8, 1), nn.Conv2D(8, 8, 3), nn.Flatten(), nn.Linear(128, 4)
    )
    pruner = UnstructuredPruner(net, "2:4")
    pruner.step()
    assert pruner.skipped == {"0.weight": "its 3 inputs are no multiple of 4"}
    fours = (net[3].weight.numpy().T.reshape(-1, 4) != 0).sum(1)
    assert (fours == 2).all()
    conv = np.moveaxis(net[1].weight.numpy(), 1, -1).reshape(-1, 4)
    assert ((conv != 0).sum(1) == 2).all()
    row = np.array([[1.0], [-3.0], [2.0], [0.5]])
    assert two_of_four(row)[:, 0].tolist() == [False, True, True, False]


def test_gradual_pruning_follows_the_cubic_curve():
    net = perceptron()
    configs = {
        "stable_iterations": 2,
        "pruning_iterations": 8,
        "pruning_steps": 4,
        "initial_ratio": 0.2,
    }
    pruner = GMPUnstructuredPruner(net, ratio=0.8, configs=configs)
    adam = proa.optimizer.Adam(0.01, parameters=net.parameters())
    seen = []
    for _ in range(12):
        train_step(net, adam)
        pruner.step()
        weights = np.concatenate([net[i].weight.numpy().ravel() for i in (0, 2)])
        seen.append(float((weights == 0).mean()))
    want = [0.8 - 0.6 * (1 - k / 4) ** 3 for k in range(5)]
    ratios = [0.0, 0.0, want[0], *np.repeat(want[1:4], 2), *[want[4]] * 3]
    np.testing.assert_allclose(seen, ratios, atol=1e-3)


@pytest.mark.parametrize(("kind", "limit"), [("2:4", 0.58), (0.9, 0.2)])
def test_sparse_files_are_smaller_and_compute_the_same_bits(kind, limit, tmp_path):
    proa.seed(1)
    net = nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 203), nn.Linear(203, 64)
    )
    if kind == "2:4":
        UnstructuredPruner(net, "2:4", skip_params_func=lambda _: ["2.bias"]).step()
    else:
        UnstructuredPruner(net, "ratio", ratio=kind, local_sparsity=True).step()
    proa.jit.save(net, str(tmp_path / "dense.proa"), SPEC)
    found = save_sparse(net, tmp_path / "sparse.proa", SPEC)
    sizes = [os.path.getsize(tmp_path / f"{n}.proa") for n in ("sparse", "dense")]
    dense_rest = 0 if kind != "2:4" else 203 * 64 * 2
    assert sizes[0] <= limit * sizes[1] + dense_rest
    assert len(found) == (2 if kind == "2:4" else 3)
    verify(file.read(tmp_path / "sparse.proa"))
    x = proa.randn([5, 64])
    results = [
        proa.jit.load(str(tmp_path / f"{name}.proa"))(x).numpy()
        for name in ("dense", "sparse")
    ]
    np.testing.assert_array_equal(*results)


def test_model_files_lose_channels(tmp_path):
    net = nn.Sequential(
        nn.Conv2D(3, 16, 3, padding=1),
        nn.BatchNorm2D(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 16, 4),
    ).eval()
    spec = [InputSpec([None, 3, 4, 4], "float32", "x")]
    proa.jit.save(net, str(tmp_path / "whole.proa"), spec)
    plan = prune_file(tmp_path / "whole.proa", tmp_path / "half.proa", 0.5)
    assert plan.parameters[1] < 0.55 * plan.parameters[0]
    verify(file.read(tmp_path / "half.proa"))
    x = proa.randn([2, 3, 4, 4])
    got = proa.jit.load(str(tmp_path / "half.proa"))(x).numpy()
    mask = plan.masks["0.weight"][0]
    for parameter in (net[0].weight, net[0].bias, net[1].weight, net[1].bias):
        along = mask.reshape([-1] + [1] * (parameter.ndim - 1))
        parameter.set_value(parameter.numpy() * along)
    np.testing.assert_allclose(got, net(x).numpy(), rtol=1e-4, atol=1e-5)
    program = file.read(tmp_path / "whole.proa")
    with pytest.raises(NotFoundError, match=r"0\.weight"):
        prune_program(program, {"conv": 0.5})
    with pytest.raises(InvalidArgumentError, match="output of the network"):
        prune_program(program, {"4.weight": 0.5})
    alone = nn.Sequential(nn.Linear(64, 64))
    proa.jit.save(alone, str(tmp_path / "alone.proa"), SPEC)
    with pytest.raises(PreconditionNotMetError):
        prune_program(file.read(tmp_path / "alone.proa"), 0.5)


def test_wrong_arguments_of_unstructured_pruning_are_refused():
    net = perceptron()
    for kwargs in (
        {"mode": "best"},
        {"mode": "ratio", "ratio": 1.0},
        {"mode": "threshold", "threshold": -1},
        {"mode": "ratio", "prune_params_type": "fc"},
        {"mode": "ratio", "sparse_block": (0, 1)},
    ):
        with pytest.raises(InvalidArgumentError, match=r"\[UnstructuredPruner\]"):
            UnstructuredPruner(net, **kwargs)
    with pytest.raises(PreconditionNotMetError, match="1 x 1"):
        UnstructuredPruner(net, "ratio", prune_params_type="conv1x1_only")
    with pytest.raises(InvalidArgumentError, match="pruning_steps"):
        GMPUnstructuredPruner(net, configs={"pruning_steps": 5})
    with pytest.raises(InvalidArgumentError, match="min_saving"):
        save_sparse(net, "x", SPEC, min_saving=1.5)
