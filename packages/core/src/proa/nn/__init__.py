"""Networks: layers, the functions they call, initializers and gradient clipping."""

from __future__ import annotations

from proa.nn import functional, initializer, utils
from proa.nn.attr import ParamAttr
from proa.nn.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from proa.nn.layer import Layer
from proa.nn.layers import (
    activation,
    container,
    conv,
    decoding,
    distance,
    dropout,
    embedding,
    linear,
    loss,
    norm,
    padding,
    pooling,
    rearranging,
    resizing,
    rnn,
    rnn_cells,
    spectral_norm,
    transformer,
)
from proa.nn.layers.activation import *  # noqa: F403
from proa.nn.layers.container import *  # noqa: F403
from proa.nn.layers.conv import *  # noqa: F403
from proa.nn.layers.decoding import *  # noqa: F403
from proa.nn.layers.distance import *  # noqa: F403
from proa.nn.layers.dropout import *  # noqa: F403
from proa.nn.layers.embedding import *  # noqa: F403
from proa.nn.layers.linear import *  # noqa: F403
from proa.nn.layers.loss import *  # noqa: F403
from proa.nn.layers.norm import *  # noqa: F403
from proa.nn.layers.padding import *  # noqa: F403
from proa.nn.layers.pooling import *  # noqa: F403
from proa.nn.layers.rearranging import *  # noqa: F403
from proa.nn.layers.resizing import *  # noqa: F403
from proa.nn.layers.rnn import *  # noqa: F403
from proa.nn.layers.rnn_cells import *  # noqa: F403
from proa.nn.layers.spectral_norm import *  # noqa: F403
from proa.nn.layers.transformer import *  # noqa: F403

__all__ = [
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "Layer",
    "ParamAttr",
    "functional",
    "initializer",
    "utils",
    *(
        name
        for family in (
            activation,
            container,
            conv,
            decoding,
            distance,
            dropout,
            embedding,
            linear,
            loss,
            norm,
            padding,
            pooling,
            rearranging,
            resizing,
            rnn,
            rnn_cells,
            spectral_norm,
            transformer,
        )
        for name in family.__all__
    ),
]
