"""PaddleSlim's namespaces of networks that run at once."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import proa
import proa_slim
from proa import nn

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
    kept = np.sort(np.argsort(np.sqrt((before**2).sum((1, 2, 3))))[2:])
    np.testing.assert_array_equal(net[0].weight.numpy(), before[kept])
