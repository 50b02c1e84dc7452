"""The networks of the training workloads, written once for every framework.

A `Dialect` gives the few names in which `proa` and `torch` differ; a network is a class
made from it, so that both run the same layers in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Dialect:
    """One framework's way of saying what the networks need."""

    name: str
    module: type
    sequential: Callable[..., Any]
    linear: Callable[[int, int], Any]
    conv: Callable[..., Any]  # (in, out, kernel, stride, padding, groups), no bias
    batch_norm: Callable[[int], Any]
    relu: Callable[[], Any]
    max_pool: Callable[[int, int, int], Any]
    encoder_layer: Callable[[int, int, int], Any]
    mean_of_plane: Callable[[Any], Any]
    cross_entropy: Callable[[Any, Any], Any]
    tensor: Callable[[np.ndarray], Any]
    adam: Callable[[Any], Any]
    zero: Callable[[Any], None]


def proa_dialect() -> Dialect:
    import proa

    nn = proa.nn
    return Dialect(
        "proa",
        nn.Layer,
        nn.Sequential,
        nn.Linear,
        lambda i, o, k, s=1, p=0, g=1: nn.Conv2D(
            i, o, k, stride=s, padding=p, groups=g, bias_attr=False
        ),
        nn.BatchNorm2D,
        nn.ReLU,
        nn.MaxPool2D,
        lambda d, h, f: nn.TransformerEncoderLayer(d, h, f, dropout=0.1),
        lambda x: x.mean([2, 3]),
        nn.functional.cross_entropy,
        proa.to_tensor,
        lambda p: proa.optimizer.Adam(learning_rate=1e-3, parameters=p),
        lambda optimizer: optimizer.clear_grad(),
    )


def torch_dialect(torch: ModuleType) -> Dialect:
    nn = torch.nn
    return Dialect(
        "torch",
        nn.Module,
        nn.Sequential,
        nn.Linear,
        lambda i, o, k, s=1, p=0, g=1: nn.Conv2d(i, o, k, s, p, groups=g, bias=False),
        nn.BatchNorm2d,
        nn.ReLU,
        nn.MaxPool2d,
        lambda d, h, f: nn.TransformerEncoderLayer(
            d, h, f, dropout=0.1, batch_first=True
        ),
        lambda x: x.mean((2, 3)),
        nn.functional.cross_entropy,
        torch.from_numpy,
        lambda p: torch.optim.Adam(p, lr=1e-3),
        lambda optimizer: optimizer.zero_grad(),
    )


def resnet18(f: Dialect) -> Any:
    """ResNet-18 (He et al., 2016) with the stem for 32 x 32 images, ten classes."""

    class Block(f.module):  # type: ignore[misc, name-defined]
        def __init__(self, i: int, o: int, stride: int) -> None:
            super().__init__()
            self.body = f.sequential(
                f.conv(i, o, 3, stride, 1),
                f.batch_norm(o),
                f.relu(),
                f.conv(o, o, 3, 1, 1),
                f.batch_norm(o),
            )
            self.last = f.relu()
            self.short = None
            if stride != 1 or i != o:
                self.short = f.sequential(f.conv(i, o, 1, stride), f.batch_norm(o))

        def forward(self, x: Array) -> Array:
            return self.last(
                self.body(x) + (x if self.short is None else self.short(x))
            )

    layers = [f.conv(3, 64, 3, 1, 1), f.batch_norm(64), f.relu()]
    width = 64
    for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(width, out, stride), Block(out, out, 1)]
        width = out
    return _pooled(f, layers, 512, 10)


def mobilenet_v1(f: Dialect) -> Any:
    """MobileNet (Howard et al., 2017), 1,000 classes."""
    steps = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    steps += [(512, 1)] * 5 + [(1024, 2), (1024, 1)]
    layers = [f.conv(3, 32, 3, 2, 1), f.batch_norm(32), f.relu()]
    width = 32
    for out, stride in steps:
        layers += [f.conv(width, width, 3, stride, 1, width), f.batch_norm(width)]
        layers += [f.relu(), f.conv(width, out, 1), f.batch_norm(out), f.relu()]
        width = out
    return _pooled(f, layers, 1024, 1000)


def _pooled(f: Dialect, layers: list[Any], width: int, classes: int) -> Any:
    class Network(f.module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.body = f.sequential(*layers)
            self.head = f.linear(width, classes)

        def forward(self, x: Array) -> Array:
            return self.head(f.mean_of_plane(self.body(x)))

    return Network()


def encoder(f: Dialect) -> Any:
    """Four encoder layers (Vaswani et al., 2017), width 256, four heads."""

    class Network(f.module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.body = f.sequential(*(f.encoder_layer(256, 4, 1024) for _ in range(4)))
            self.head = f.linear(256, 10)

        def forward(self, x: Array) -> Array:
            return self.head(self.body(x)[:, 0])

    return Network()


def lenet(f: Dialect) -> Any:
    """LeNet as `proa.vision.models.LeNet` has it, without biases of convolutions."""

    class Network(f.module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.body = f.sequential(
                *(f.conv(1, 6, 3, 1, 1), f.relu(), f.max_pool(2, 2, 0)),
                *(f.conv(6, 16, 5), f.relu(), f.max_pool(2, 2, 0)),
            )
            self.head = f.sequential(
                f.linear(400, 120), f.linear(120, 84), f.linear(84, 10)
            )

        def forward(self, x: Array) -> Array:
            return self.head(self.body(x).reshape([-1, 400]))

    return Network()
