"""Paddle's functions of tensors, by family, over the operators of `proa._core.ops`."""

from __future__ import annotations

from proa.ops import functions as _operators
from proa.ops.functions import *  # noqa: F403
from proa.tensor import methods
from proa.tensor.array import *  # noqa: F403
from proa.tensor.complex_parts import *  # noqa: F403
from proa.tensor.contraction import *  # noqa: F403
from proa.tensor.creation import *  # noqa: F403
from proa.tensor.cumulative import *  # noqa: F403
from proa.tensor.histograms import *  # noqa: F403
from proa.tensor.inplace import *  # noqa: F403
from proa.tensor.linalg import *  # noqa: F403
from proa.tensor.logic import *  # noqa: F403
from proa.tensor.manipulation import *  # noqa: F403
from proa.tensor.math import *  # noqa: F403
from proa.tensor.quantiles import *  # noqa: F403
from proa.tensor.random import *  # noqa: F403
from proa.tensor.reduction import *  # noqa: F403
from proa.tensor.search import *  # noqa: F403

methods.attach()

#: The public functions, which `proa` exports too.
FUNCTIONS: tuple[str, ...] = tuple(
    name for family in (_operators, *methods.FAMILIES) for name in family.__all__
)
