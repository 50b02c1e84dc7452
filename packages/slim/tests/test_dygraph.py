"""PaddleSlim's namespaces of networks that run at once."""

import importlib
import json
import subprocess
import sys

import numpy as np
import pytest

import proa
import proa_slim
from proa import nn
from proa.errors import InvalidArgumentError
from proa_slim.prune import load_sensitivities

SHAPE = [None, 3, 8, 8]
# PaddleSlim 2.6.0
NAMES = {
    "": "QAT PTQ L1NormFilterPruner L2NormFilterPruner FPGMFilterPruner Pruner "
    "UnstructuredPruner GMPUnstructuredPruner Distill",
    ".prune": "L1NormFilterPruner L2NormFilterPruner FPGMFilterPruner Pruner "
    "UnstructuredPruner GMPUnstructuredPruner",
    ".quant": "QAT PTQ",
    ".dist": "Distill",
}


@pytest.mark.parametrize("part", NAMES)
def test_a_namespace_has_the_classes_of_the_top_level(part):
    module = importlib.import_module(f"proa_slim.dygraph{part}")
    for name in NAMES[part].split():
        assert name in module.__all__
        assert getattr(module, name) is getattr(proa_slim, name)
    assert dir(module) == sorted(module.__all__)


def test_the_namespaces_come_with_the_package():
    program = (
        "import proa_slim as paddleslim\n"
        "paddleslim.dygraph.L1NormFilterPruner, paddleslim.dygraph.prune.Pruner\n"
        "paddleslim.dygraph.quant.QAT, paddleslim.dygraph.dist.Distill\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def small_net():
    proa.seed(0)
    return nn.Sequential(
        nn.Conv2D(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2D(8, 12, 3, padding=1),
        nn.ReLU(), nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(12, 4),
    )  # fmt: skip


def test_a_pruner_of_the_namespace_removes_the_filters_of_the_smallest_norm():
    from proa_slim.dygraph.prune import L2NormFilterPruner

    net = small_net()
    before = net[0].weight.numpy()
    L2NormFilterPruner(net, SHAPE).prune_vars({"0.weight": 0.25}, axis=0)
    remaining = np.sort(np.argsort(np.sqrt((before**2).sum((1, 2, 3))))[2:])
    np.testing.assert_array_equal(net[0].weight.numpy(), before[remaining])


def images():
    """Images, and labels that nothing reads."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 96)
    return rng.standard_normal((96, 3, 8, 8)).astype("float32"), y


def without(net, weight, order, ratio, x):
    """What the network gives when the first of `order` are set to zero, which is what
    their removal computes.
    """
    other = small_net()
    other.set_state_dict(net.state_dict())
    layer = other[int(weight.split(".")[0])]
    for tensor in (layer.weight, layer.bias):
        array = tensor.numpy()
        array[order[: int(len(order) * ratio)]] = 0
        tensor.set_value(array)
    return other(proa.to_tensor(x)).numpy()


def test_status_measures_how_often_the_network_still_agrees(tmp_path):
    net, path = small_net(), tmp_path / "status.json"
    x, y = images()
    whole = net(proa.to_tensor(x)).numpy().argmax(1)
    pruner = proa_slim.dygraph.Pruner(net, SHAPE)
    batches = [(x[:64], y[:64]), (x[64:], y[64:])]  # labels are ignored
    found = pruner.status(batches, status_file=path)
    assert sorted(found) == ["0.weight", "2.weight"]
    for weight, losses in found.items():
        array = net[int(weight[0])].weight.numpy()
        order = np.argsort(np.abs(array).sum((1, 2, 3)))  # the smallest first
        assert sorted(losses) == [n / 10 for n in range(1, 10)]
        for ratio, loss in losses.items():
            scores = without(net, weight, order, ratio, x)
            expected = 1 - (scores.argmax(1) == whole).mean()
            assert loss == pytest.approx(expected, abs=1.01 / 96)
    assert max(loss for losses in found.values() for loss in losses.values()) > 0.1
    assert load_sensitivities(path) == found
    assert proa_slim.Pruner(net, SHAPE).status(status_file=path) == found


def test_status_goes_on_after_an_interruption(tmp_path):
    net, path, calls = small_net(), tmp_path / "status.json", []
    x, _ = images()
    want = net(proa.to_tensor(x)).numpy()

    def metric(given):
        calls.append(given)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return 1 / (1 + np.abs(net(proa.to_tensor(given[0])).numpy() - want).mean())

    before = {name: value.numpy() for name, value in net.state_dict().items()}
    with pytest.raises(KeyboardInterrupt):
        proa_slim.Pruner(net, SHAPE).status([x], metric, path)
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    stored = json.loads(path.read_text())["sensitivities"]
    assert sum(len(losses) for losses in stored.values()) == 3
    found = proa_slim.Pruner(net, SHAPE).status([x], metric, path)
    assert len(calls) == 5 + 18 - 3 and all(given[0] is x for given in calls)
    assert proa_slim.Pruner(net, SHAPE).status([x], metric) == found


def test_a_filter_pruner_prunes_by_its_status():
    net = small_net()
    pruner = proa_slim.dygraph.FPGMFilterPruner(net, SHAPE)
    pruner.status([images()[0]])
    assert pruner.sensitive_prune(pruned_flops=0.3).pruned_flops >= 0.3


def test_status_refuses_what_it_cannot_measure(tmp_path):
    net = small_net()
    x, _ = images()
    pruner = proa_slim.Pruner(net, SHAPE)
    with pytest.raises(InvalidArgumentError, match="an eval_func or a file"):
        pruner.status()
    with pytest.raises(InvalidArgumentError, match=r"more than once.*got generator"):
        pruner.status(batch for batch in [x])
    with pytest.raises(InvalidArgumentError, match="batches of data, got none"):
        pruner.status([])
    with pytest.raises(InvalidArgumentError, match="1 arrays in each batch, got 0"):
        pruner.status([()])
    with pytest.raises(InvalidArgumentError, match="other than 0, got nan"):
        pruner.status([x], lambda given: np.nan)
    segments = nn.Sequential(nn.Conv2D(3, 8, 3), nn.Conv2D(8, 1, 3))
    with pytest.raises(InvalidArgumentError, match=r"along axis 1, got shape \(96, 1"):
        proa_slim.Pruner(segments, SHAPE).status([x])
