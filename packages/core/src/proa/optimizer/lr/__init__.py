"""Learning-rate schedules. ``step()`` moves on by an epoch (or whatever the caller
counts).
"""

from proa.base.public import publish as _publish
from proa.optimizer.lr.base import LRScheduler
from proa.optimizer.lr.cycle import (
    CosineAnnealingWarmRestarts,
    CyclicLR,
    LinearLR,
    OneCycleLR,
)
from proa.optimizer.lr.decay import (
    CosineAnnealingDecay,
    ExponentialDecay,
    InverseTimeDecay,
    LambdaDecay,
    LinearWarmup,
    MultiplicativeDecay,
    MultiStepDecay,
    NaturalExpDecay,
    NoamDecay,
    PiecewiseDecay,
    PolynomialDecay,
    StepDecay,
)
from proa.optimizer.lr.plateau import ReduceOnPlateau

__all__ = [
    "CosineAnnealingDecay", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialDecay", "InverseTimeDecay", "LRScheduler", "LambdaDecay", "LinearLR",
    "LinearWarmup", "MultiStepDecay", "MultiplicativeDecay", "NaturalExpDecay",
    "NoamDecay", "OneCycleLR", "PiecewiseDecay", "PolynomialDecay", "ReduceOnPlateau",
    "StepDecay",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
