"""What fills new parameters."""

from proa.base.public import publish as _publish
from proa.nn.schemes import *  # noqa: F403
from proa.nn.schemes import __all__ as __all__


def __dir__() -> list[str]:
    return __all__


_publish("proa.nn.schemes", __name__)
