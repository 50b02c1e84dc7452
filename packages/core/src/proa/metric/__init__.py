"""Measures of how well a network does."""

from __future__ import annotations

import sys

from proa.base.public import publish
from proa.metric.metrics import Accuracy, Auc, Metric, Precision, Recall, accuracy

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]

publish(sys.modules[__name__])
