"""Pruning on all of Fashion-MNIST, three seeds: the goals, measured."""

import copy
import os
from pathlib import Path

import numpy as np
import pytest
from fashion_network import SEEDS, fine_tune, trained

import proa
from proa.static import InputSpec
from proa_slim import L1NormFilterPruner, prune_channels
from proa_slim.analysis import median_latency

pytestmark = pytest.mark.full
SHAPE = [None, 1, 28, 28]
TIMED = [InputSpec([64, 1, 28, 28], "float32", "x")]
FLOPS = 0.5


@pytest.fixture
def networks(tmp_path):
    """The network trained with each seed."""
    folder = Path(os.environ.get("PROA_DATA_HOME") or tmp_path)
    return [trained(seed, folder) for seed in SEEDS]


def accuracy(fashion, network):
    return fashion.accuracy(lambda x: network(proa.to_tensor(x)).numpy())


def file_size(network, folder):
    path = folder / "net.proa"
    proa.jit.save(network, str(path), [InputSpec(SHAPE, "float32", "x")])
    return os.path.getsize(path)


def times(*nets):
    """The time of each, the median of runs that take turns."""
    runs = [[median_latency(n, TIMED, 10) for n in nets] for _ in range(5)]
    return np.median(runs, axis=0)


def pruned_half(fashion, criterion, folder):
    """Accuracy after half of the channels went, but for the first layer's, and an
    epoch; shares of parameters, file and time that are left.
    """
    net = copy.deepcopy(fashion.network)
    prune_channels(net, SHAPE, 0.5, criterion, skip=("0",))
    fine_tune(net, fashion.train_x, fashion.train_y)
    nets = net, fashion.network
    small, whole = (sum(p.size for p in n.parameters()) for n in nets)
    sizes = [file_size(n, folder) for n in nets]
    short, long = times(*nets)
    shares = small / whole, sizes[0] / sizes[1], short / long
    return [accuracy(fashion, net), *shares]


def by_torch(fashion, criterion):
    """Accuracy with the same weights, channels and schedule in PyTorch."""
    oracle = pytest.importorskip("torch_oracle")
    net = oracle.copied(fashion.network)
    masks = oracle.prune(net, criterion, 0.5)
    oracle.fine_tune(net, masks, fashion.train_x, fashion.train_y)
    return oracle.accuracy(net, np.split(fashion.test_x, 10), fashion.test_y)


def test_half_of_the_channels_cost_no_more_than_in_torch(
    networks, tmp_path, record_table
):
    rows = []
    for criterion in ("l1_norm", "fpgm", "bn_scale"):
        whole = np.array([f.float_accuracy() for f in networks])
        own = np.array([pruned_half(f, criterion, tmp_path) for f in networks])
        drops = whole - own[:, 0]
        peer = whole - [by_torch(f, criterion) for f in networks]
        left = own[:, 1:].mean(axis=0)
        rows.append([
            f"`{criterion}`", f"{drops.mean():.2f} ({drops.max():.2f})",
            f"{peer.mean():.2f} ({peer.max():.2f})", *(f"{x:.2f}" for x in left),
        ])  # fmt: skip
        assert drops.mean() <= peer.mean() + 0.5
        assert left[0] < 0.4 and left[1] < 0.7
    record_table(
        "pruning",
        ["half of the channels", "drop in points: mean (greatest)",
         "PyTorch, same weights", "parameters left", "of the file", "of the time"],
        rows,
    )  # fmt: skip


def sensitive_ratios(pruner, fashion):
    """Ratios by losses on training images, after norms saw twenty batches."""
    net, x, y = pruner.model, fashion.train_x, fashion.train_y

    def metric():
        net.train()
        with proa.no_grad():
            for batch in np.split(x[: 20 * 128], 20):
                net(proa.to_tensor(batch))
        net.eval()
        chunks = np.split(np.arange(50_000, 55_000), 5)
        found = [net(proa.to_tensor(x[c])).numpy().argmax(1) == y[c] for c in chunks]
        return float(np.mean(found))

    pruner.sensitive(metric, ratios=(0.25, 0.5, 0.75))
    return pruner.get_ratios_by_sensitivity(FLOPS)


def test_sensitivities_choose_better_ratios_than_one_for_all(networks, record_table):
    found = {"one ratio for all": [], "by sensitivities": []}
    for fashion in networks:
        for kind, results in found.items():
            net = copy.deepcopy(fashion.network)
            pruner = L1NormFilterPruner(net, SHAPE)
            if kind == "by sensitivities":
                ratios = sensitive_ratios(pruner, fashion)
            else:
                ratios = pruner.get_uniform_ratios(FLOPS)
            plan = pruner.prune_groups(ratios)
            assert plan.pruned_flops == pytest.approx(FLOPS, abs=0.02)
            fine_tune(net, fashion.train_x, fashion.train_y)
            drop = fashion.float_accuracy() - accuracy(fashion, net)
            results.append([drop, 1 - plan.pruned_flops, 1 - plan.pruned_size])
    rows = []
    for kind, results in found.items():
        drop, flops, size = np.mean(results, axis=0)
        worst = np.max(results, axis=0)[0]
        rows.append([kind, f"{drop:.2f} ({worst:.2f})", f"{flops:.2f}", f"{size:.2f}"])
    record_table(
        "sensitivity",
        ["half of the multiply-adds", "drop in points: mean (greatest)",
         "multiply-adds left", "parameters left"],
        rows,
    )  # fmt: skip
    uniform, sensitive = (np.mean(r, axis=0)[0] for r in found.values())
    assert sensitive <= uniform - 0.2
