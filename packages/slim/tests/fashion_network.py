"""The network of the accuracy goals: a small MobileNet trained on Fashion-MNIST."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proa
from proa import nn

ROOT = Path(__file__).parents[3]
SEEDS = (0, 1, 2)


def _conv_norm(
    i: int, o: int, stride: int = 1, groups: int = 1, kernel: int = 3
) -> Any:
    return nn.Sequential(
        nn.Conv2D(i, o, kernel, stride, kernel // 2, groups=groups, bias_attr=False),
        nn.BatchNorm2D(o),
        nn.ReLU6(),
    )


def mobile_net(divisor: int = 1) -> Any:
    """18,826 parameters: one convolution, four depthwise-separable ones, a Linear.

    Args:
        divisor: Divisor of the numbers of channels.
    """
    layers = [_conv_norm(1, 16 // divisor, 2)]
    for wide, wider, stride in ((16, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2)):
        i, o = wide // divisor, wider // divisor
        layers += [_conv_norm(i, i, stride, i), _conv_norm(i, o, kernel=1)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(128 // divisor, 10)
    )


def train(network: Any, x: NDArray[Any], y: NDArray[Any], epochs: int) -> None:
    """Adam with one cycle of learning rates up to 6e-3, batches of 128."""
    rate = proa.optimizer.lr.OneCycleLR(6e-3, epochs * (len(x) // 128))
    train_at(rate, network, x, y, epochs)


def fine_tune(
    network: Any, x: NDArray[Any], y: NDArray[Any], highest: float = 2e-3
) -> None:
    """One epoch of Adam with learning rates from `highest` to 0 by a cosine."""
    rate = proa.optimizer.lr.CosineAnnealingDecay(highest, len(x) // 128)
    train_at(rate, network, x, y, 1)


#: Highest learning rates after channels went: a quarter of the first training's, as
#: fine-tuning has, and twice it, for what remains is far from a minimum.
GENTLE, STEEP = 1.5e-3, 1.2e-2


def retrain(
    network: Any, x: NDArray[Any], y: NDArray[Any], highest: float = STEEP
) -> None:
    """One epoch of Adam after channels went, with one cycle of learning rates."""
    train_at(retraining_rates(x, highest), network, x, y, 1)


def retraining_rates(x: NDArray[Any], highest: float = STEEP) -> Any:
    """The schedule of `retrain`."""
    return proa.optimizer.lr.OneCycleLR(highest, len(x) // 128)


def train_at(
    rate: Any,
    network: Any,
    x: NDArray[Any],
    y: NDArray[Any],
    epochs: int,
    loss_of: Any = None,
) -> None:
    """Adam at learning rates of a schedule.

    Args:
        rate: The schedule.
        network: What has the parameters.
        x: Images.
        y: Labels.
        epochs: Passes.
        loss_of: Takes images and labels; the network's cross entropy if None.
    """
    steps = len(x) // 128
    adam = proa.optimizer.Adam(rate, parameters=network.parameters())
    entropy = nn.CrossEntropyLoss()
    order = np.random.default_rng(0)
    network.train()
    for _ in range(epochs):
        for batch in order.permutation(len(x))[: steps * 128].reshape(-1, 128):
            images, labels = proa.to_tensor(x[batch]), proa.to_tensor(y[batch])
            if loss_of is None:
                entropy(network(images), labels).backward()
            else:
                loss_of(images, labels).backward()
            adam.step()
            adam.clear_grad()
            rate.step()
    network.eval()


@dataclass
class Trained:
    """A trained network and the images it was trained and is tested on."""

    network: Any
    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]

    def accuracy(self, model: Any) -> float:
        """Percentage of the test images that `model`, of arrays, classifies right."""
        labels = [model(x).argmax(1) for x in np.split(self.test_x, 10)]
        return 100 * float((np.concatenate(labels) == self.test_y).mean())

    def float_accuracy(self) -> float:
        """That of the network itself."""
        return self.accuracy(lambda x: self.network(proa.to_tensor(x)).numpy())


def _images(cache: Path) -> Any:
    source = ROOT / "examples" / "quickstart" / "data.py"
    spec = importlib.util.spec_from_file_location("quickstart_data", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    images = module.load(cache)
    if images.name != "Fashion-MNIST":
        pytest.skip("Fashion-MNIST is not available")
    return images


def trained(seed: int, cache: Path, epochs: int = 3) -> Trained:
    """Train with `seed`, or read the parameters that `cache` has."""
    images = _images(cache)

    def normed(x: NDArray[np.float32]) -> NDArray[np.float32]:
        result: NDArray[np.float32] = ((x + 1) / 2 - 0.286) / 0.353
        return result.astype(np.float32)

    proa.seed(seed)
    network = mobile_net()
    path = cache / f"mobile_net.{seed}.pdparams"
    x = normed(images.train_x)
    if path.is_file():
        network.set_state_dict(proa.load(str(path)))
        network.eval()
    else:
        train(network, x, images.train_y, epochs)
        proa.save(network.state_dict(), str(path))
    return Trained(network, x, images.train_y, normed(images.test_x), images.test_y)
