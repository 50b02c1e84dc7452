"""Functions that networks are made of; layers hold parameters and call these."""

from __future__ import annotations

from proa.base.public import publish as _publish
from proa.nn.functional import (
    activation,
    attention,
    class_loss,
    conv,
    distance,
    dropping,
    linear_map,
    lookup,
    loss,
    norm,
    padding,
    pooling,
    rearranging,
    resizing,
    sequence,
    sequence_loss,
    unpooling,
    vision,
)
from proa.nn.functional.activation import *  # noqa: F403
from proa.nn.functional.attention import *  # noqa: F403
from proa.nn.functional.class_loss import *  # noqa: F403
from proa.nn.functional.conv import *  # noqa: F403
from proa.nn.functional.distance import *  # noqa: F403
from proa.nn.functional.dropping import *  # noqa: F403
from proa.nn.functional.linear_map import *  # noqa: F403
from proa.nn.functional.lookup import *  # noqa: F403
from proa.nn.functional.loss import *  # noqa: F403
from proa.nn.functional.norm import *  # noqa: F403
from proa.nn.functional.padding import *  # noqa: F403
from proa.nn.functional.pooling import *  # noqa: F403
from proa.nn.functional.rearranging import *  # noqa: F403
from proa.nn.functional.resizing import *  # noqa: F403
from proa.nn.functional.sequence import *  # noqa: F403
from proa.nn.functional.sequence_loss import *  # noqa: F403
from proa.nn.functional.unpooling import *  # noqa: F403
from proa.nn.functional.vision import *  # noqa: F403
from proa.tensor.creation import diag_embed

_FAMILIES = (
    activation, attention, class_loss, conv, distance, dropping, linear_map, lookup,
    loss, norm, padding, pooling, rearranging, resizing, sequence, sequence_loss,
    unpooling, vision,
)  # fmt: skip

__all__ = ["diag_embed", *(name for family in _FAMILIES for name in family.__all__)]

_publish(*(family.__name__ for family in _FAMILIES), __name__)
