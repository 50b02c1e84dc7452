"""Measures of how well a network does."""

from proa.base.public import publish as _publish
from proa.metric.metrics import Accuracy, Auc, Metric, Precision, Recall, accuracy

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
