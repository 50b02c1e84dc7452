"""The profiler by the names that it had up to Paddle 2.1.

`proa.profiler` has more; both record the same events.
"""

from proa.profiler.legacy import *  # noqa: F403
from proa.profiler.legacy import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
