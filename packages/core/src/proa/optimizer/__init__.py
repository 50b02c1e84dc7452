"""Optimizers and learning-rate schedules."""

from proa.base.public import publish as _publish
from proa.optimizer import lr
from proa.optimizer.adaptive import Adadelta, Adagrad, Adamax, Lamb, RMSProp
from proa.optimizer.optimizer import Optimizer
from proa.optimizer.rules import SGD, Adam, AdamW, Momentum

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "Momentum",
    "Optimizer", "RMSProp", "lr",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
