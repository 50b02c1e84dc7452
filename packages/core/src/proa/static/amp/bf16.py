"""Mixed precision of recorded programs with bfloat16."""

from proa.static.amp.bfloat16 import *  # noqa: F403
from proa.static.amp.bfloat16 import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
