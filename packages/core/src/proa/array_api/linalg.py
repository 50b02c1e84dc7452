"""The extension `linalg` of the array API standard: linear algebra.

Matrices are the last two axes; those before them are batches.
"""

from proa.array_api.matrices import *  # noqa: F403
from proa.array_api.matrices import __all__ as __all__
from proa.base.public import publish as _publish


def __dir__() -> list[str]:
    return __all__


_publish("proa.array_api.matrices", "proa.array_api.products", __name__)
