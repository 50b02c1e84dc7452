"""The networks of the training workloads, written once for every framework.

A `Dialect` (see dialects.py) gives the names in which frameworks differ; a network is a
class made from it, so that all run the same layers in the same order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from dialects import Dialect

Array = Any


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


def tiny(f: Dialect) -> Any:
    """Three linear layers of 8."""
    return f.sequential(*(f.linear(8, 8) for _ in range(3)))


def mlp(f: Dialect) -> Any:
    """784-512-512-10 with ReLU."""
    return f.sequential(
        *(f.linear(784, 512), f.relu(), f.linear(512, 512), f.relu()),
        f.linear(512, 10),
    )


def _residual(f: Dialect, body: list[Any], i: int, o: int, stride: int) -> Any:
    """relu(body(x) + x), with a 1 x 1 convolution of x where the shape changes."""

    class Block(f.module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.body = f.sequential(*body)
            self.last = f.relu()
            self.short = None
            if stride != 1 or i != o:
                self.short = f.sequential(f.conv(i, o, 1, stride), f.batch_norm(o))

        def forward(self, x: Array) -> Array:
            short = x if self.short is None else self.short(x)
            return self.last(self.body(x) + short)

    return Block()


def resnet18(f: Dialect) -> Any:
    """ResNet-18 (He et al., 2016) with the stem for 32 x 32 images, ten classes."""

    def block(i: int, o: int, stride: int) -> Any:
        body = [f.conv(i, o, 3, stride, 1), f.batch_norm(o), f.relu()]
        body += [f.conv(o, o, 3, 1, 1), f.batch_norm(o)]
        return _residual(f, body, i, o, stride)

    layers = [f.conv(3, 64, 3, 1, 1), f.batch_norm(64), f.relu()]
    width = 64
    for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [block(width, out, stride), block(out, out, 1)]
        width = out
    return _pooled(f, layers, 512, 10)


def resnet50(f: Dialect) -> Any:
    """ResNet-50 (He et al., 2016) with the stride in the 3 x 3, 1,000 classes."""

    def block(i: int, o: int, stride: int) -> Any:
        inner = o // 4
        body = [f.conv(i, inner, 1), f.batch_norm(inner), f.relu()]
        body += [f.conv(inner, inner, 3, stride, 1), f.batch_norm(inner), f.relu()]
        body += [f.conv(inner, o, 1), f.batch_norm(o)]
        return _residual(f, body, i, o, stride)

    layers = [f.conv(3, 64, 7, 2, 3), f.batch_norm(64), f.relu(), f.max_pool(3, 2, 1)]
    width = 64
    for out, count, stride in ((256, 3, 1), (512, 4, 2), (1024, 6, 2), (2048, 3, 2)):
        for k in range(count):
            layers.append(block(width, out, stride if k == 0 else 1))
            width = out
    return _pooled(f, layers, 2048, 1000)


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
            layers = (f.encoder_layer(256, 4, 1024, "relu") for _ in range(4))
            self.body = f.sequential(*layers)
            self.head = f.linear(256, 10)

        def forward(self, x: Array) -> Array:
            return self.head(self.body(x)[:, 0])

    return Network()


def bert_base(f: Dialect) -> Any:
    """BERT-base (Devlin et al., 2019): its first token in two classes."""

    class Network(f.module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = f.embedding(30522, 768)
            self.places = f.embedding(512, 768)
            self.kinds = f.embedding(2, 768)
            self.norm, self.drop = f.layer_norm(768), f.dropout(0.1)
            layers = (f.encoder_layer(768, 12, 3072, "gelu") for _ in range(12))
            self.body = f.sequential(*layers)
            self.pool, self.head = f.linear(768, 768), f.linear(768, 2)

        def forward(self, words: Array, places: Array, kinds: Array) -> Array:
            x = self.words(words) + self.places(places) + self.kinds(kinds)
            x = self.body(self.drop(self.norm(x)))
            return self.head(f.tanh(self.pool(x[:, 0])))

    return Network()


def lstm_model(f: Dialect) -> Any:
    """The language model of medium size of Zaremba et al. (2014): 2 x 650, 10,000
    words.
    """

    class Network(f.module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = f.embedding(10000, 650)
            self.body = f.lstm(650, 650, 2, 0.5)
            self.drop = f.dropout(0.5)
            self.head = f.linear(650, 10000)

        def forward(self, words: Array) -> Array:
            out = self.body(self.drop(self.words(words)))[0]
            return self.head(self.drop(out)).reshape([-1, 10000])

    return Network()


def wide_deep(f: Dialect) -> Any:
    """Wide & Deep (Cheng et al., 2016): 26 features of a million values, 13 numbers."""

    class Network(f.module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.wide = f.sparse_embedding(1_000_000, 1)
            self.deep = f.sparse_embedding(1_000_000, 16)
            sizes = (429, 400, 400, 400)
            layers: list[Any] = []
            for i, o in pairwise(sizes):
                layers += [f.linear(i, o), f.relu()]
            self.body = f.sequential(*layers, f.linear(400, 2))

        def forward(self, values: Array, numbers: Array) -> Array:
            rows = self.deep(values).reshape([-1, 416])
            return self.body(f.concat([rows, numbers])) + self.wide(values).sum(1)

    return Network()
