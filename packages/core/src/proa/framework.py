"""Names that programs for Paddle look for in its ``framework`` package."""

from proa.base.device import CPUPlace, CUDAPinnedPlace, CUDAPlace
from proa.base.dtype import get_default_dtype, set_default_dtype
from proa.base.public import publish as _publish
from proa.base.random import get_rng_state, seed, set_rng_state
from proa.interop.saving import load, save
from proa.nn.attr import ParamAttr
from proa.nn.create import create_parameter

__all__ = [
    "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "ParamAttr", "create_parameter",
    "get_default_dtype", "get_rng_state", "load", "save", "seed", "set_default_dtype",
    "set_rng_state",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
