"""The Python array API standard, version 2023.12, over Proa's Tensors.

`Tensor.__array_namespace__` returns this module, so that a library written for the
standard computes with Tensors, and gradients flow through what it computes::

    xp = x.__array_namespace__()
    y = xp.sum(xp.exp(x), axis=-1)

Source: https://data-apis.org/array-api/2023.12/. Unsigned integers wider than 8 bits
are missing, which an UnsupportedNameError says; sums of uint8 are int64.
"""

import importlib as _importlib
import math as _math
import typing as _typing

from proa.array_api.creation import *  # noqa: F403
from proa.array_api.creation import __all__ as _creation
from proa.array_api.data_types import *  # noqa: F403
from proa.array_api.data_types import __all__ as _data_types
from proa.array_api.elementwise import *  # noqa: F403
from proa.array_api.elementwise import __all__ as _elementwise
from proa.array_api.inspection import (
    __array_namespace_info__ as __array_namespace_info__,
)
from proa.array_api.manipulation import *  # noqa: F403
from proa.array_api.manipulation import __all__ as _manipulation
from proa.array_api.products import *  # noqa: F403
from proa.array_api.products import __all__ as _products
from proa.array_api.searching import *  # noqa: F403
from proa.array_api.searching import __all__ as _searching
from proa.array_api.statistics import *  # noqa: F403
from proa.array_api.statistics import __all__ as _statistics
from proa.base.dtype import bool_ as bool
from proa.base.dtype import (
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from proa.base.public import publish as _publish
from proa.errors import UnsupportedNameError as _UnsupportedNameError

if _typing.TYPE_CHECKING:
    from proa.array_api import fft as fft
    from proa.array_api import linalg as linalg

e = _math.e
inf = _math.inf
nan = _math.nan
newaxis = None
pi = _math.pi
__array_api_version__ = "2023.12"

__all__ = [
    "bool", "complex64", "complex128", "e", "fft", "float32", "float64", "inf",
    "int8", "int16", "int32", "int64", "linalg", "nan", "newaxis", "pi", "uint8",
    *_creation, *_data_types, *_elementwise, *_manipulation, *_products, *_searching,
    *_statistics,
]  # fmt: skip

_EXTENSIONS = ("fft", "linalg")
_MISSING = ("uint16", "uint32", "uint64")


def __getattr__(name: str) -> _typing.Any:
    if name in _EXTENSIONS:
        return _importlib.import_module(f"proa.array_api.{name}")
    if name in _MISSING:
        raise _UnsupportedNameError(
            f"[array_api.{name}] not supported: Tensors have uint8 and the signed "
            "integers"
        )
    raise AttributeError(f"module 'proa.array_api' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


_publish(*(f"proa.array_api.{family}" for family in (
    "creation", "data_types", "elementwise", "manipulation", "products", "searching",
    "statistics",
)), __name__)  # fmt: skip
