"""Functions that networks are made of; layers hold parameters and call these."""

import sys as _sys

from proa.base.public import publish as _publish
from proa.nn.functional.activation import *  # noqa: F403
from proa.nn.functional.attention import *  # noqa: F403
from proa.nn.functional.conv import *  # noqa: F403
from proa.nn.functional.cross_entropy import *  # noqa: F403
from proa.nn.functional.distance import *  # noqa: F403
from proa.nn.functional.dropout import *  # noqa: F403
from proa.nn.functional.embedding import *  # noqa: F403
from proa.nn.functional.fold import *  # noqa: F403
from proa.nn.functional.linear import *  # noqa: F403
from proa.nn.functional.loss import *  # noqa: F403
from proa.nn.functional.norm import *  # noqa: F403
from proa.nn.functional.padding import *  # noqa: F403
from proa.nn.functional.pixel_shuffle import *  # noqa: F403
from proa.nn.functional.pooling import *  # noqa: F403
from proa.nn.functional.resizing import *  # noqa: F403
from proa.nn.functional.sequence import *  # noqa: F403
from proa.nn.functional.sequence_loss import *  # noqa: F403
from proa.nn.functional.unpooling import *  # noqa: F403
from proa.nn.functional.vision import *  # noqa: F403
from proa.ops import functional as _operators
from proa.ops.functional import *  # noqa: F403
from proa.tensor.creation import diag_embed

# By name: the attribute `dropout` of this package is the function, not its module.
_FAMILIES = [
    _sys.modules[f"{__name__}.{family}"]
    for family in (
        "activation", "attention", "conv", "cross_entropy", "distance", "dropout",
        "embedding", "fold", "linear", "loss", "norm", "padding", "pixel_shuffle",
        "pooling", "resizing", "sequence", "sequence_loss", "unpooling", "vision",
    )
]  # fmt: skip

__all__ = [
    "diag_embed",
    *(name for family in (_operators, *_FAMILIES) for name in family.__all__),
]


def __dir__() -> list[str]:
    return __all__


_publish(*(family.__name__ for family in _FAMILIES), __name__)
