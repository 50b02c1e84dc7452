"""The extension `fft` of the array API standard: discrete Fourier transforms.

A norm says what is divided by: 'backward' the inverse by n, 'forward' the transform by
n, 'ortho' both by sqrt(n). A size cuts an axis or fills it with zeros.
"""

from proa.array_api.transforms import *  # noqa: F403
from proa.array_api.transforms import __all__ as __all__
from proa.base.public import publish as _publish


def __dir__() -> list[str]:
    return __all__


_publish("proa.array_api.transforms", __name__)
