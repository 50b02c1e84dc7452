"""Pruning on all of Fashion-MNIST, three seeds: the goals, measured."""

import copy
import os

import numpy as np
import pytest
from fashion_network import GENTLE, STEEP, retrain, retraining_rates

import proa
from proa.static import InputSpec
from proa_slim import L1NormFilterPruner, prune_channels
from proa_slim.analysis import median_latency

pytestmark = pytest.mark.full
SHAPE = [None, 1, 28, 28]
TIMED = [InputSpec([64, 1, 28, 28], "float32", "x")]
#: Shares of the multiply-adds to remove, the highest learning rate of the epoch after
#: it, and how many points sensitivities must gain. With steep rates the epoch makes up
#: for either choice where half is left.
SETTINGS = ((0.5, GENTLE, 0.2), (0.5, STEEP, -0.1), (0.7, STEEP, 0.2))


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
    retrain(net, fashion.train_x, fashion.train_y)
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
    schedule = retraining_rates(fashion.train_x)
    rates = []
    for _ in range(len(fashion.train_x) // 128):
        rates.append(schedule.get_lr())
        schedule.step()
    oracle.retrain(net, masks, fashion.train_x, fashion.train_y, rates)
    return oracle.accuracy(net, np.split(fashion.test_x, 10), fashion.test_y)


@pytest.mark.parametrize("criterion", ["l1_norm", "fpgm", "bn_scale"])
def test_half_of_the_channels_cost_no_more_than_in_torch(
    networks, tmp_path, record_table, criterion
):
    whole = np.array([f.float_accuracy() for f in networks])
    own = np.array([pruned_half(f, criterion, tmp_path) for f in networks])
    drops = whole - own[:, 0]
    peer = whole - [by_torch(f, criterion) for f in networks]
    left = own[:, 1:].mean(axis=0)
    record_table(
        "pruning",
        ["half of the channels", "drop in points: mean (greatest)",
         "PyTorch, same weights", "parameters left", "of the file", "of the time"],
        [[
            f"`{criterion}`", f"{drops.mean():.2f} ({drops.max():.2f})",
            f"{peer.mean():.2f} ({peer.max():.2f})", *(f"{x:.2f}" for x in left),
        ]],
    )  # fmt: skip
    assert drops.mean() <= peer.mean() + 0.5
    assert left[0] < 0.4 and left[1] < 0.7 and left[2] <= 0.65


def measure_sensitivities(fashion, path):
    """Write losses on training images, after norms saw twenty batches."""
    net, x, y = copy.deepcopy(fashion.network), fashion.train_x, fashion.train_y

    def metric():
        net.train()
        with proa.no_grad():
            for batch in np.split(x[: 20 * 128], 20):
                net(proa.to_tensor(batch))
        net.eval()
        chunks = np.split(np.arange(50_000, 55_000), 5)
        found = [net(proa.to_tensor(x[c])).numpy().argmax(1) == y[c] for c in chunks]
        return float(np.mean(found))

    pruner = L1NormFilterPruner(net, SHAPE, sen_file=path)
    pruner.sensitive(metric, ratios=np.arange(1, 8) / 8)
    return path


KINDS = ("one ratio for all", "by sensitivities")


def pruned_by(kind, fashion, path, share, highest):
    """Drop after an epoch, and what is left of multiply-adds and parameters."""
    net = copy.deepcopy(fashion.network)
    pruner = L1NormFilterPruner(net, SHAPE, sen_file=path)
    if kind == KINDS[0]:
        ratios = pruner.get_uniform_ratios(share)
    else:
        pruner.sensitive()
        ratios = pruner.get_ratios_by_sensitivity(share)
    plan = pruner.prune_groups(ratios)
    assert plan.pruned_flops == pytest.approx(share, abs=0.02)
    retrain(net, fashion.train_x, fashion.train_y, highest)
    drop = fashion.float_accuracy() - accuracy(fashion, net)
    return drop, 1 - plan.pruned_flops, 1 - plan.pruned_size


def test_sensitivities_choose_better_ratios_than_one_for_all(
    networks, tmp_path, record_table
):
    paths = [
        measure_sensitivities(fashion, tmp_path / f"{number}.json")
        for number, fashion in enumerate(networks)
    ]
    gains = []
    for share, highest, _ in SETTINGS:
        found = {}
        for kind in KINDS:
            pairs = zip(networks, paths, strict=True)
            results = [pruned_by(kind, f, p, share, highest) for f, p in pairs]
            found[kind] = np.array(results)
        rows = []
        for kind, results in found.items():
            drop, flops, size = results.mean(axis=0)
            worst = results[:, 0].max()
            rows.append([
                f"{share:.0%}, {kind}, rates up to {highest:g}",
                f"{drop:.2f} ({worst:.2f})", f"{flops:.2f}", f"{size:.2f}",
            ])  # fmt: skip
        record_table(
            "sensitivity",
            ["multiply-adds removed", "drop in points: mean (greatest)",
             "multiply-adds left", "parameters left"],
            rows,
        )  # fmt: skip
        uniform, sensitive = (found[kind][:, 0].mean() for kind in KINDS)
        gains.append(uniform - sensitive)
    wanted = [gain for _, _, gain in SETTINGS]
    assert all(np.array(gains) >= wanted), gains
