"""Networks: layers, the functions they call, initializers and gradient clipping."""

from proa.base.public import publish as _publish
from proa.nn import decode as _decode
from proa.nn import functional, initializer, utils
from proa.nn import layer as _layer
from proa.nn.attr import ParamAttr
from proa.nn.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from proa.nn.decode import *  # noqa: F403
from proa.nn.layer import Layer
from proa.nn.layer.activation import *  # noqa: F403
from proa.nn.layer.container import *  # noqa: F403
from proa.nn.layer.conv import *  # noqa: F403
from proa.nn.layer.distance import *  # noqa: F403
from proa.nn.layer.dropout import *  # noqa: F403
from proa.nn.layer.embedding import *  # noqa: F403
from proa.nn.layer.fold import *  # noqa: F403
from proa.nn.layer.linear import *  # noqa: F403
from proa.nn.layer.loss import *  # noqa: F403
from proa.nn.layer.norm import *  # noqa: F403
from proa.nn.layer.padding import *  # noqa: F403
from proa.nn.layer.pixel_shuffle import *  # noqa: F403
from proa.nn.layer.pooling import *  # noqa: F403
from proa.nn.layer.resizing import *  # noqa: F403
from proa.nn.layer.rnn import *  # noqa: F403
from proa.nn.layer.rnn_cells import *  # noqa: F403
from proa.nn.layer.spectral_norm import *  # noqa: F403
from proa.nn.layer.transformer import *  # noqa: F403

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
            _layer.activation,
            _layer.container,
            _layer.conv,
            _decode,
            _layer.distance,
            _layer.dropout,
            _layer.embedding,
            _layer.fold,
            _layer.linear,
            _layer.loss,
            _layer.norm,
            _layer.padding,
            _layer.pooling,
            _layer.pixel_shuffle,
            _layer.resizing,
            _layer.rnn,
            _layer.rnn_cells,
            _layer.spectral_norm,
            _layer.transformer,
        )
        for name in family.__all__
    ),
]


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
