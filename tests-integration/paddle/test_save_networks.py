"""Whole networks written as Paddle models: what each version of paddlepaddle computes.

Weights are random, also the statistics of batch normalisation, so that they matter.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.static import InputSpec
from proa.vision import models

from . import wheel

pytestmark = pytest.mark.full

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
#: The functions of `proa.vision.models` that make a network.
VISION = [name for name in models.__all__ if name.islower()]
#: The smallest images of those that do not take 64 x 64.
SIDES = {"googlenet": 224, "inception_v3": 96, "alexnet": 224}


def with_statistics(network: nn.Layer) -> nn.Layer:
    """The network, with random statistics in its batch normalisation."""
    rng = np.random.default_rng(0)
    for name, buffer in network.named_buffers():
        if name.endswith("_mean"):
            value = rng.normal(0, 0.1, buffer.shape)
        elif name.endswith("_variance"):
            value = rng.uniform(0.5, 1.5, buffer.shape)
        else:
            continue
        buffer.set_value(value.astype(np.float32))
    return network


def image(name: str) -> tuple[Callable[[], nn.Layer], list[Any], list[InputSpec]]:
    side = SIDES.get(name, 64)
    x = np.random.default_rng(0).standard_normal((2, 3, side, side)).astype("f")
    return getattr(models, name), [x], [InputSpec([None, 3, side, side])]


def compare(found: list[Any], expected: list[Any], name: str) -> None:
    """Each output to 1e-4 of its greatest element."""
    for theirs, ours in zip(found, expected, strict=True):
        assert theirs.shape == ours.shape and theirs.dtype == ours.dtype, name
        assert np.abs(theirs - ours).max() <= 1e-4 * np.abs(ours).max(), name


def check(
    network: nn.Layer, arrays: list[Any], specs: list[InputSpec], folder: Path
) -> None:
    """Write a network, read it again, write what was read, and run all three."""
    network.eval()
    tensors = [proa.to_tensor(a) for a in arrays]
    with proa.no_grad():
        found = network(*tensors)
        expected = [t.numpy() for t in (found if isinstance(found, tuple) else [found])]
        assert all(np.ptp(e) > 0 and np.isfinite(e).all() for e in expected)
        first, second = folder / "first", folder / "second"
        proa.jit.save(network, first, specs, format="paddle")
        read = proa.jit.load(first)
        proa.jit.save(read, second, read.input_spec, format="paddle")
        for layer in (read, proa.jit.load(second)):
            got = layer(*tensors)
            got = list(got) if isinstance(got, tuple) else [got]
            compare([t.numpy() for t in got], expected, "proa")
    for python in wheel.interpreters():
        compare(wheel.outputs_of(first, arrays, folder, python), expected, python)
    compare(wheel.outputs_of(second, arrays, folder), expected, "written again")
    for path in (first, second):
        path.with_suffix(".pdiparams").unlink()  # up to 0.5 GB each


@pytest.mark.parametrize("name", VISION)
def test_a_network_of_the_library(name: str, tmp_path: Path) -> None:
    proa.seed(1)
    make, arrays, specs = image(name)
    check(with_statistics(make()), arrays, specs, tmp_path)


@pytest.mark.parametrize(
    "name", ["encoder", "bert_base", "lstm_model", "resnet50", "mobilenet_v1"]
)
def test_a_network_of_the_benchmarks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    networks, dialects = (importlib.import_module(m) for m in ("networks", "dialects"))
    proa.seed(1)
    network = getattr(networks, name)(dialects.layers_dialect("proa", proa))
    rng, size = np.random.default_rng(0), (2, 12)
    arrays = {
        "encoder": lambda: [rng.standard_normal((2, 12, 256)).astype("f")],
        "bert_base": lambda: [rng.integers(0, 2, size) for _ in range(3)],
        "lstm_model": lambda: [rng.integers(0, 10000, size)],
    }.get(name, lambda: [rng.standard_normal((2, 3, 64, 64)).astype("f")])()
    open_axes = 1 if arrays[0].ndim == 4 else 2
    specs = [
        InputSpec([None] * open_axes + list(a.shape[open_axes:]), str(a.dtype), f"x{i}")
        for i, a in enumerate(arrays)
    ]
    check(with_statistics(network), arrays, specs, tmp_path)
