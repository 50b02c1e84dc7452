"""Calls and the types that a checker must find for their results; checked, never run.

`nox -s types` does so. What a flag adds to a result, what a decorator keeps of a
signature and what a loader yields are lost without an error when they become `Any`.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from typing_extensions import assert_type

import proa
from proa import Tensor, nn
from proa.io import ChainDataset, DataLoader, Dataset, IterableDataset
from proa.jit import StaticFunction, not_to_static, to_static
from proa.nn import functional as F
from proa.nn.layer.transformer import DecoderCache
from proa.text.datasets import WMT16


def results_by_flag(x: Tensor, flag: bool) -> None:
    assert_type(F.max_pool2d(x, 2), Tensor)
    assert_type(F.max_pool2d(x, 2, return_mask=True), tuple[Tensor, Tensor])
    assert_type(F.max_pool2d(x, 2, 2, 0, True), tuple[Tensor, Tensor])
    assert_type(F.max_pool1d(x, 2, return_mask=flag), Tensor | tuple[Tensor, Tensor])
    assert_type(F.adaptive_max_pool3d(x, 2), Tensor)
    assert_type(F.adaptive_max_pool3d(x, 2, True), tuple[Tensor, Tensor])
    assert_type(proa.unique(x), Tensor)
    assert_type(proa.unique(x, return_index=True), tuple[Tensor, ...])
    assert_type(x.unique(return_counts=True), tuple[Tensor, ...])
    assert_type(x.unique_consecutive(True), tuple[Tensor, ...])
    assert_type(proa.linalg.qr(x), tuple[Tensor, Tensor])
    assert_type(x.qr("r"), Tensor)
    assert_type(proa.median(x, 0), Tensor)
    assert_type(x.median(0, mode="min"), tuple[Tensor, Tensor])
    assert_type(x.nonzero(), Tensor)
    assert_type(
        F.softmax_with_cross_entropy(x, x, return_softmax=True), tuple[Tensor, Tensor]
    )


@to_static
def scaled(x: Tensor, by: float = 1.0) -> Tensor:
    return x * by


@not_to_static
def shifted(x: Tensor) -> tuple[Tensor, int]:
    return x + 1, 1


class Network(nn.Layer):
    @to_static
    def forward(self, x: Tensor) -> Tensor:
        return x

    @to_static(input_spec=[None])
    def encode(self, x: Tensor, level: int) -> list[Tensor]:
        return [x] * level


def static_functions(x: Tensor, network: Network) -> None:
    assert_type(scaled(x, by=2.0), Tensor)
    scaled(x, by="2")  # type: ignore[arg-type]
    assert_type(shifted(x), tuple[Tensor, int])
    assert_type(network.forward(x), Tensor)
    assert_type(network.encode(x, 2), list[Tensor])
    network.encode(x)  # type: ignore[call-arg]
    assert_type(network.encode.rollback()(x, 2), list[Tensor])
    assert_type(to_static(network), Network)
    assert_type(to_static(nn.Linear(2, 3)), nn.Linear)
    function: StaticFunction[..., Tensor] = to_static(F.relu)
    assert_type(function(x), Tensor)


def collated(samples: list[tuple[Tensor, int]]) -> Tensor:
    return samples[0][0]


def batches(pairs: Dataset[tuple[Tensor, int]], words: IterableDataset[str]) -> None:
    assert_type(pairs[0], tuple[Tensor, int])
    for batch in DataLoader(pairs, collate_fn=collated):
        assert_type(batch, Tensor)
    for anything in DataLoader(pairs):
        assert_type(anything, Any)
    for word in ChainDataset([words, words]):
        assert_type(word, str)
    assert_type(WMT16()[0], tuple[NDArray[Any], NDArray[Any], NDArray[Any]])
    assert_type(WMT16().get_dict("en"), dict[str, int])


def layers(x: Tensor, memory: Tensor) -> None:
    y, (h, c) = nn.LSTM(2, 3).forward(x)
    assert_type((y, h, c), tuple[Tensor, Tensor, Tensor])
    assert_type(nn.GRU(2, 3).forward(x), tuple[Tensor, Tensor])
    assert_type(nn.LSTMCell(2, 3).forward(x), tuple[Tensor, tuple[Tensor, Tensor]])
    attention = nn.MultiHeadAttention(8, 2)
    assert_type(attention.gen_cache(x), nn.MultiHeadAttention.Cache)
    static = attention.gen_cache(x, type=nn.MultiHeadAttention.StaticCache)
    assert_type(static, nn.MultiHeadAttention.StaticCache)
    assert_type(nn.TransformerDecoderLayer(8, 2, 8).gen_cache(memory), DecoderCache)
    assert_type(nn.Identity().forward(3), int)
    assert_type(nn.LayerList([nn.ReLU()])[0], nn.Layer)
    assert_type(nn.Sequential(nn.ReLU())[:1], nn.Sequential)
