"""What frameworks call the things that networks and training steps are made of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Dialect:
    """One framework's way of saying what networks and steps need."""

    name: str
    module: type
    sequential: Callable[..., Any]
    linear: Callable[[int, int], Any]
    conv: Callable[..., Any]  # (in, out, kernel, stride, padding, groups), no bias
    batch_norm: Callable[[int], Any]
    layer_norm: Callable[[int], Any]
    relu: Callable[[], Any]
    max_pool: Callable[[int, int, int], Any]
    dropout: Callable[[float], Any]
    embedding: Callable[[int, int], Any]
    sparse_embedding: Callable[[int, int], Any]  # its gradient is of the rows met
    encoder_layer: Callable[[int, int, int, str], Any]  # with dropout 0.1
    lstm: Callable[[int, int, int, float], Any]  # batch first
    mean_of_plane: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    concat: Callable[[list[Any]], Any]  # along the last of two axes
    cross_entropy: Callable[[Any, Any], Any]
    tensor: Callable[[np.ndarray], Any]
    optimizer: Callable[[str, Any], Any]  # "adam" or "sgd", of parameters
    zero: Callable[[Any], None]
    low_precision: Callable[[], AbstractContextManager[Any]]  # bfloat16 where it pays


def layers_dialect(name: str, api: ModuleType) -> Dialect:
    """The dialect of proa, and of PaddlePaddle, whose names proa has."""
    nn = api.nn

    def optimizer(kind: str, parameters: Any) -> Any:
        make = {"adam": api.optimizer.Adam, "sgd": api.optimizer.SGD}[kind]
        return make(learning_rate=1e-3, parameters=parameters)

    return Dialect(
        name=name,
        module=nn.Layer,
        sequential=nn.Sequential,
        linear=nn.Linear,
        conv=lambda i, o, k, s=1, p=0, g=1: nn.Conv2D(
            i, o, k, stride=s, padding=p, groups=g, bias_attr=False
        ),
        batch_norm=nn.BatchNorm2D,
        layer_norm=nn.LayerNorm,
        relu=nn.ReLU,
        max_pool=nn.MaxPool2D,
        dropout=nn.Dropout,
        embedding=nn.Embedding,
        sparse_embedding=lambda n, d: nn.Embedding(n, d, sparse=True),
        encoder_layer=lambda d, h, f, act: nn.TransformerEncoderLayer(
            d, h, f, dropout=0.1, activation=act
        ),
        lstm=lambda i, h, n, p: nn.LSTM(i, h, num_layers=n, dropout=p),
        mean_of_plane=lambda x: x.mean([2, 3]),
        tanh=api.tanh,
        concat=lambda xs: api.concat(xs, axis=1),
        cross_entropy=nn.functional.cross_entropy,
        tensor=api.to_tensor,
        optimizer=optimizer,
        zero=lambda optimizer: optimizer.clear_grad(),
        low_precision=lambda: api.amp.auto_cast(level="O1", dtype="bfloat16"),
    )


def torch_dialect(torch: ModuleType) -> Dialect:
    """The dialect of PyTorch."""
    nn = torch.nn

    def optimizer(kind: str, parameters: Any) -> Any:
        make = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind]
        return make(parameters, lr=1e-3)

    return Dialect(
        name="torch",
        module=nn.Module,
        sequential=nn.Sequential,
        linear=nn.Linear,
        conv=lambda i, o, k, s=1, p=0, g=1: nn.Conv2d(
            i, o, k, s, p, groups=g, bias=False
        ),
        batch_norm=nn.BatchNorm2d,
        layer_norm=nn.LayerNorm,
        relu=nn.ReLU,
        max_pool=nn.MaxPool2d,
        dropout=nn.Dropout,
        embedding=nn.Embedding,
        sparse_embedding=lambda n, d: nn.Embedding(n, d, sparse=True),
        encoder_layer=lambda d, h, f, act: nn.TransformerEncoderLayer(
            d, h, f, dropout=0.1, activation=act, batch_first=True
        ),
        lstm=lambda i, h, n, p: nn.LSTM(i, h, n, batch_first=True, dropout=p),
        mean_of_plane=lambda x: x.mean((2, 3)),
        tanh=torch.tanh,
        concat=lambda xs: torch.cat(xs, 1),
        cross_entropy=nn.functional.cross_entropy,
        tensor=torch.from_numpy,
        optimizer=optimizer,
        zero=lambda optimizer: optimizer.zero_grad(),
        low_precision=lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    )


def precision_of(f: Dialect, name: str) -> Callable[[], AbstractContextManager[Any]]:
    """Contexts in which a forward pass computes in "fp32" or "bf16"."""
    return f.low_precision if name == "bf16" else nullcontext
