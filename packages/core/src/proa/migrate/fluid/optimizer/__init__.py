"""`paddle.fluid.optimizer`: what has no equal in 2.x."""

from proa.base.public import publish as _publish
from proa.migrate.fluid.optimizer.rules import *  # noqa: F403
from proa.migrate.fluid.optimizer.rules import __all__ as _rules
from proa.migrate.fluid.optimizer.wrapped import *  # noqa: F403
from proa.migrate.fluid.optimizer.wrapped import __all__ as _wrapped

__all__ = [*_rules, *_wrapped]


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
