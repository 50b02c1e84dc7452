"""Measures of how well a network does."""

from __future__ import annotations

from proa.base.public import publish as _publish
from proa.metric.metrics import Accuracy, Auc, Metric, Precision, Recall, accuracy

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]

_publish(__name__)
