"""Every public layer is exported and gives what it gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import UnimplementedError
from proa.jit import InputSpec

pytest.importorskip("onnx")
from .exported import check_layer

RNG = np.random.default_rng(0)


class _Second(nn.Layer):
    """Calls a layer with what is given and constants."""

    def __init__(self, layer: Any, *constants: Any) -> None:
        super().__init__()
        self.layer = layer
        self.constants = [proa.to_tensor(c) for c in constants]

    def forward(self, *xs: Any) -> Any:
        return self.layer(*xs, *self.constants)


class _Normed(nn.Layer):
    """A product with a weight of spectral norm 1."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.SpectralNorm([3, 4], power_iters=2)
        self.weight = self.create_parameter([3, 4])

    def forward(self, x: Any) -> Any:
        return proa.matmul(x, self.norm(self.weight))


class _Unpooled(nn.Layer):
    """A max pooling and its inverse."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.pool = getattr(nn, f"MaxPool{rank}D")(2, return_mask=True)
        self.unpool = getattr(nn, f"MaxUnPool{rank}D")(2)

    def forward(self, x: Any) -> Any:
        return self.unpool(*self.pool(x))


def _labels(high: int, *shape: int) -> Any:
    return RNG.integers(0, high, shape)


def _unit(*shape: int) -> Any:
    return RNG.uniform(0.1, 0.9, shape).astype(np.float32)


def _signs(*shape: int) -> Any:
    return np.where(RNG.integers(0, 2, shape) > 0, 1.0, -1.0).astype(np.float32)


#: Activations, by the arguments of their classes.
ACTIVATIONS: dict[str, tuple[Any, ...]] = {
    "CELU": (1.3,), "ELU": (0.7,), "GELU": (), "GLU": (), "Hardshrink": (),
    "Hardsigmoid": (), "Hardswish": (), "Hardtanh": (), "LeakyReLU": (0.1,),
    "LogSigmoid": (), "LogSoftmax": (), "Maxout": (2,), "Mish": (), "PReLU": (4,),
    "RReLU": (), "ReLU": (), "ReLU6": (), "SELU": (), "Sigmoid": (), "Silu": (),
    "Softmax": (1,), "Softplus": (2.0, 3.0), "Softshrink": (), "Softsign": (),
    "Swish": (), "Tanh": (), "Tanhshrink": (), "ThresholdedReLU": (),
}  # fmt: skip

Given = tuple[Any, ...]
#: A layer and the arrays (or shapes) of a call; the first axis is a symbolic dimension.
LAYERS: dict[str, tuple[Callable[[], Any], Given]] = {
    "Conv1D": (lambda: nn.Conv1D(4, 6, 3, 2, 1), ((2, 4, 9),)),
    "Conv1DTranspose": (lambda: nn.Conv1DTranspose(4, 6, 3, 2, 1), ((2, 4, 9),)),
    "Conv2D": (lambda: nn.Conv2D(4, 6, 3, 2, [1, 2], 2, 2), ((2, 4, 9, 8),)),
    "Conv2DTranspose": (
        lambda: nn.Conv2DTranspose(4, 6, 3, 2, 1, 1, groups=2), ((2, 4, 5, 6),)
    ),
    "Conv3D": (lambda: nn.Conv3D(2, 3, 3, 1, 1), ((2, 2, 4, 5, 6),)),
    "Conv3DTranspose": (lambda: nn.Conv3DTranspose(2, 3, 2, 2), ((2, 2, 3, 4, 3),)),
    "CosineSimilarity": (lambda: nn.CosineSimilarity(1), ((2, 5), (2, 5))),
    "PairwiseDistance": (lambda: nn.PairwiseDistance(), ((3, 5), (3, 5))),
    "AlphaDropout": (lambda: nn.AlphaDropout(), ((2, 5),)),
    "Dropout": (lambda: nn.Dropout(), ((2, 5),)),
    "Dropout2D": (lambda: nn.Dropout2D(), ((2, 3, 4, 4),)),
    "Dropout3D": (lambda: nn.Dropout3D(), ((2, 3, 2, 4, 4),)),
    "Embedding": (lambda: nn.Embedding(7, 3, padding_idx=2), (_labels(7, 4, 5),)),
    "Fold": (lambda: nn.Fold([4, 5], 2), ((2, 12, 12),)),
    "Unfold": (lambda: nn.Unfold([2, 3], 1, 1, 1), ((2, 3, 6, 5),)),
    "Bilinear": (lambda: nn.Bilinear(3, 4, 5), ((2, 3), (2, 4))),
    "Flatten": (lambda: nn.Flatten(), ((2, 3, 4),)),
    "Identity": (lambda: nn.Identity(), ((2, 3),)),
    "Linear": (lambda: nn.Linear(4, 5), ((3, 2, 4),)),
    "BCELoss": (lambda: nn.BCELoss(), (_unit(3, 4), _unit(3, 4))),
    "BCEWithLogitsLoss": (lambda: nn.BCEWithLogitsLoss(), ((3, 4), _unit(3, 4))),
    "CosineEmbeddingLoss": (
        lambda: nn.CosineEmbeddingLoss(), ((3, 5), (3, 5), _signs(3))
    ),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(), ((3, 5), _labels(5, 3))),
    "HingeEmbeddingLoss": (lambda: nn.HingeEmbeddingLoss(), ((3, 5), _signs(3, 5))),
    "HSigmoidLoss": (lambda: nn.HSigmoidLoss(4, 5), ((3, 4), _labels(5, 3, 1))),
    "KLDivLoss": (lambda: nn.KLDivLoss(), ((3, 5), _unit(3, 5))),
    "CTCLoss": (
        lambda: _Second(
            nn.CTCLoss(), np.array([[1, 2], [3, 3]], np.int32), np.array([5, 4]),
            np.array([2, 2]),
        ),
        ((5, 2, 4),),
    ),
    "L1Loss": (lambda: nn.L1Loss(), ((3, 5), (3, 5))),
    "MSELoss": (lambda: nn.MSELoss(), ((3, 5), (3, 5))),
    "MarginRankingLoss": (
        lambda: nn.MarginRankingLoss(), ((3, 5), (3, 5), _signs(3, 5))
    ),
    "NLLLoss": (lambda: nn.NLLLoss(), ((3, 5), _labels(5, 3))),
    "SmoothL1Loss": (lambda: nn.SmoothL1Loss(), ((3, 5), (3, 5))),
    "BatchNorm": (lambda: nn.BatchNorm(3), ((2, 3, 4, 4),)),
    "BatchNorm1D": (lambda: nn.BatchNorm1D(3), ((2, 3, 4),)),
    "BatchNorm2D": (lambda: nn.BatchNorm2D(3), ((2, 3, 4, 4),)),
    "BatchNorm3D": (lambda: nn.BatchNorm3D(3), ((2, 3, 2, 4, 4),)),
    "SyncBatchNorm": (lambda: nn.SyncBatchNorm(3), ((2, 3, 4, 4),)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), ((2, 4, 3, 3),)),
    "InstanceNorm1D": (lambda: nn.InstanceNorm1D(3), ((2, 3, 4),)),
    "InstanceNorm2D": (lambda: nn.InstanceNorm2D(3), ((2, 3, 4, 4),)),
    "InstanceNorm3D": (lambda: nn.InstanceNorm3D(3), ((2, 3, 2, 4, 4),)),
    "LayerNorm": (lambda: nn.LayerNorm([3, 4]), ((2, 5, 3, 4),)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3), ((2, 5, 4, 4),)),
    "Pad1D": (lambda: nn.Pad1D([1, 2], "reflect"), ((2, 3, 4),)),
    "Pad2D": (lambda: nn.Pad2D([1, 2, 0, 1], "replicate"), ((2, 3, 4, 4),)),
    "Pad3D": (lambda: nn.Pad3D(1, "circular"), ((2, 3, 4, 4, 3),)),
    "ZeroPad2D": (lambda: nn.ZeroPad2D([1, 2, 0, 1]), ((2, 3, 4, 4),)),
    "AdaptiveAvgPool1D": (lambda: nn.AdaptiveAvgPool1D(3), ((2, 3, 7),)),
    "AdaptiveAvgPool2D": (lambda: nn.AdaptiveAvgPool2D([2, 3]), ((2, 3, 7, 6),)),
    "AdaptiveAvgPool3D": (lambda: nn.AdaptiveAvgPool3D(2), ((2, 3, 5, 4, 4),)),
    "AdaptiveMaxPool1D": (lambda: nn.AdaptiveMaxPool1D(3), ((2, 3, 7),)),
    "AdaptiveMaxPool2D": (
        lambda: nn.AdaptiveMaxPool2D(2, return_mask=True), ((2, 3, 7, 6),)
    ),
    "AdaptiveMaxPool3D": (lambda: nn.AdaptiveMaxPool3D(2), ((2, 3, 5, 4, 4),)),
    "AvgPool1D": (lambda: nn.AvgPool1D(3, 2, 1), ((2, 3, 8),)),
    "AvgPool2D": (
        lambda: nn.AvgPool2D(3, 2, 1, ceil_mode=True, exclusive=False), ((2, 3, 8, 7),)
    ),
    "AvgPool3D": (lambda: nn.AvgPool3D(2, 2), ((2, 3, 4, 4, 5),)),
    "MaxPool1D": (lambda: nn.MaxPool1D(3, 2, 1), ((2, 3, 8),)),
    "MaxPool2D": (lambda: nn.MaxPool2D(3, 2, 1, return_mask=True), ((2, 3, 8, 7),)),
    "MaxPool3D": (lambda: nn.MaxPool3D(2, 2), ((2, 3, 4, 4, 5),)),
    "MaxUnPool1D": (lambda: _Unpooled(1), ((2, 3, 6),)),
    "MaxUnPool2D": (lambda: _Unpooled(2), ((2, 3, 6, 4),)),
    "MaxUnPool3D": (lambda: _Unpooled(3), ((2, 3, 4, 4, 4),)),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), ((2, 4, 3, 3),)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), ((2, 8, 3, 3),)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), ((2, 2, 4, 6),)),
    "Upsample": (
        lambda: nn.Upsample([7, 9], mode="bicubic", align_corners=True), ((2, 3, 4, 5),)
    ),
    "UpsamplingBilinear2D": (
        lambda: nn.UpsamplingBilinear2D(scale_factor=2), ((2, 3, 4, 5),)
    ),
    "UpsamplingNearest2D": (
        lambda: nn.UpsamplingNearest2D(scale_factor=2), ((2, 3, 4, 5),)
    ),
    "GRU": (lambda: nn.GRU(4, 5, 2, direction="bidirect"), ((2, 6, 4),)),
    "LSTM": (lambda: nn.LSTM(4, 5, 2, direction="bidirect"), ((2, 6, 4),)),
    "SimpleRNN": (
        lambda: nn.SimpleRNN(4, 5, activation="relu"), ((2, 6, 4),)
    ),
    "RNN": (lambda: nn.RNN(nn.GRUCell(4, 5), is_reverse=True), ((2, 3, 4),)),
    "BiRNN": (lambda: nn.BiRNN(nn.LSTMCell(4, 5), nn.LSTMCell(4, 5)), ((2, 3, 4),)),
    "GRUCell": (lambda: nn.GRUCell(4, 5), ((2, 4),)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 5), ((2, 4),)),
    "SimpleRNNCell": (lambda: nn.SimpleRNNCell(4, 5), ((2, 4),)),
    "SpectralNorm": (lambda: _Normed(), ((2, 3),)),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(8, 2), ((2, 5, 8),)),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16), ((2, 5, 8),)
    ),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, activation="gelu"), 2
        ), ((2, 5, 8),)
    ),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(8, 2, 16), ((2, 3, 8), (2, 5, 8))
    ),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2),
        ((2, 3, 8), (2, 5, 8)),
    ),
    "Transformer": (
        lambda: nn.Transformer(8, 2, 1, 1, 16), ((2, 5, 8), (2, 3, 8))
    ),
}  # fmt: skip
LAYERS.update(
    {
        name: (lambda name=name, args=args: getattr(nn, name)(*args), ((2, 4, 6, 6),))
        for name, args in ACTIVATIONS.items()
    }
)
#: Layers that are recorded for known sizes alone.
FIXED = ("CTCLoss",)
#: Layers that are not exported, each with the reason.
NOT_EXPORTED = {
    "Layer": "has no forward of its own",
    "LayerDict": "a container",
    "LayerList": "a container",
    "ParameterList": "a container",
    "Sequential": "a container, of which the networks have many",
    "RNNCellBase": "has no forward of its own",
    "BeamSearchDecoder": "takes steps, which `dynamic_decode` calls",
}


def _arrays(given: Given) -> list[Any]:
    rng = np.random.default_rng(1)
    return [
        rng.standard_normal(g).astype(np.float32) if isinstance(g, tuple) else g
        for g in given
    ]


@pytest.mark.parametrize("opset", [9, 13, 17, 21])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_exported(name: str, opset: int, tmp_path: Path) -> None:
    make, given = LAYERS[name]
    proa.seed(3)
    arrays = _arrays(given)
    specs = [
        InputSpec(
            [len(a) if name in FIXED else None, *a.shape[1:]], str(a.dtype), f"x{i}"
        )
        for i, a in enumerate(arrays)
    ]
    layer = make()
    layer.eval()
    try:
        check_layer(tmp_path / "m.onnx", layer, specs, [arrays], opset)
    except UnimplementedError as error:
        assert opset < 17, str(error)
        assert "from opset" in str(error)
        pytest.skip(str(error))


def test_every_public_layer_is_here() -> None:
    classes = {
        name
        for name in nn.__all__
        if isinstance(getattr(nn, name), type)
        and issubclass(getattr(nn, name), nn.Layer)
    }
    assert classes | {"BeamSearchDecoder"} == {*LAYERS, *NOT_EXPORTED}
