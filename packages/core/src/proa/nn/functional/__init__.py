"""Functions that networks are made of; layers hold parameters and call these."""

from __future__ import annotations

from proa.nn.functional import activation, basic, conv, loss, norm, pooling
from proa.nn.functional.activation import *  # noqa: F403
from proa.nn.functional.basic import *  # noqa: F403
from proa.nn.functional.conv import *  # noqa: F403
from proa.nn.functional.loss import *  # noqa: F403
from proa.nn.functional.norm import *  # noqa: F403
from proa.nn.functional.pooling import *  # noqa: F403

__all__ = [
    name
    for family in (activation, basic, conv, loss, norm, pooling)
    for name in family.__all__
]
