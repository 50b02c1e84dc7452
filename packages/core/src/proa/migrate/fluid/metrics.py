"""`paddle.fluid.metrics`: means over batches on the host, read by `eval`."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa.base.public import publish as _publish
from proa.errors import InvalidArgumentError
from proa.migrate.fluid.chunks import rates

__all__ = [
    "Accuracy", "Auc", "ChunkEvaluator", "CompositeMetric", "EditDistance",
    "MetricBase", "Precision", "Recall",
]  # fmt: skip


def _number(value: Any) -> float:
    return float(np.asarray(value).reshape(-1)[0])


class MetricBase:
    """What metrics have: `reset`, `update`, `eval`."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name or type(self).__name__
        self.reset()

    def __str__(self) -> str:
        return self._name

    def reset(self) -> None:
        """Begin with nothing."""

    def update(self, *given: Any, **named: Any) -> None:
        """Count a batch."""
        raise NotImplementedError(f"[{type(self).__name__}] has no update")

    def eval(self) -> Any:
        """The metric of what was counted."""
        raise NotImplementedError(f"[{type(self).__name__}] has no eval")


class Accuracy(MetricBase):
    """The mean of batches' accuracies, by their weights."""

    def reset(self) -> None:
        self.value = self.weight = 0.0

    def update(self, value: Any, weight: Any) -> None:
        """Count the accuracy of a batch of that weight, its size."""
        self.value += _number(value) * _number(weight)
        self.weight += _number(weight)

    def eval(self) -> float:
        """The mean.

        Raises:
            InvalidArgumentError: If nothing was counted.
        """
        if not self.weight:
            raise InvalidArgumentError("[Accuracy.eval] expected an update first")
        return self.value / self.weight


class _Wrapped(MetricBase):
    """A metric of 2.x."""

    _metric: Any

    def reset(self) -> None:
        self._metric.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch."""
        self._metric.update(preds, labels)

    def eval(self) -> float:
        """The metric of what was counted."""
        return float(self._metric.accumulate())


class Auc(_Wrapped):
    """The area under the ROC curve, by so many bins."""

    def __init__(
        self, name: str | None = None, curve: str = "ROC", num_thresholds: int = 4095
    ) -> None:
        self._metric = proa.metric.Auc(curve, num_thresholds)
        super().__init__(name)


class Precision(_Wrapped):
    """The share of positive predictions that are right."""

    def __init__(self, name: str | None = None) -> None:
        self._metric = proa.metric.Precision()
        super().__init__(name)


class Recall(_Wrapped):
    """The share of positive samples that are found."""

    def __init__(self, name: str | None = None) -> None:
        self._metric = proa.metric.Recall()
        super().__init__(name)


class CompositeMetric(MetricBase):
    """Several metrics of the same predictions."""

    def __init__(self, name: str | None = None) -> None:
        self._metrics: list[Any] = []
        super().__init__(name)

    def add_metric(self, metric: MetricBase) -> None:
        """Count by this one, too."""
        self._metrics.append(metric)

    def reset(self) -> None:
        for metric in self._metrics:
            metric.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch by each."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[Any]:
        """What each gives."""
        return [metric.eval() for metric in self._metrics]


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 of chunks, as `layers.chunk_eval` counts them."""

    def reset(self) -> None:
        self._counts = [0, 0, 0]

    def update(
        self, num_infer_chunks: Any, num_label_chunks: Any, num_correct_chunks: Any
    ) -> None:
        """Count a batch's inferred, labelled and right chunks."""
        given = (num_infer_chunks, num_label_chunks, num_correct_chunks)
        for k, count in enumerate(given):
            self._counts[k] += int(_number(count))

    def eval(self) -> tuple[float, float, float]:
        """(precision, recall, F1)."""
        return rates(*self._counts)


class EditDistance(MetricBase):
    """The mean distance of sequences, and the share of those that differ."""

    def reset(self) -> None:
        self._total, self._count, self._wrong = 0.0, 0, 0

    def update(self, distances: Any, seq_num: Any) -> None:
        """Count a batch's distances, of so many sequences."""
        given, count = np.asarray(distances), int(_number(seq_num))
        self._total += float(given.sum())
        self._count += count
        self._wrong += count - int((given == 0).sum())

    def eval(self) -> tuple[float, float]:
        """(mean distance, share of sequences that differ).

        Raises:
            InvalidArgumentError: If nothing was counted.
        """
        if not self._count:
            raise InvalidArgumentError("[EditDistance.eval] expected an update first")
        return self._total / self._count, self._wrong / self._count


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
