"""Discrete Fourier transforms, over the row `fft` of complex numbers.

A norm says how the forward and inverse transforms are scaled: "backward" (the default)
divides the inverse by n, "forward" the forward by n, "ortho" both by sqrt(n). Lengths
may be any number; a length given cuts the axis or fills it with zeros. Real input is
taken as complex; integers become the default floating dtype first.
"""

from proa.base.public import publish as _publish
from proa.tensor.fourier import *  # noqa: F403
from proa.tensor.fourier import __all__ as __all__


def __dir__() -> list[str]:
    return __all__


_publish("proa.tensor.fourier", __name__)
