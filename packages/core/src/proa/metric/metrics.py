"""Measures that add up over batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from proa.tensor.arguments import check_rank

if TYPE_CHECKING:
    from proa.base.typing import TensorLike


def _array(value: Any) -> NDArray[Any]:
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


class Metric:
    """What `proa.Model` expects of a metric.

    ``compute(outputs…, labels…)`` works on tensors and gives what `update` takes as
    arrays; `accumulate` gives the value so far, `reset` starts over.
    """

    def reset(self) -> None:
        """Forget everything."""
        raise NotImplementedError

    def update(self, *args: Any) -> Any:
        """Take in a batch; may return the value of that batch."""
        raise NotImplementedError

    def accumulate(self) -> Any:
        """The value over all batches."""
        raise NotImplementedError

    def name(self) -> str | list[str]:
        """A name, or one for each value."""
        raise NotImplementedError

    def compute(self, *args: Any) -> Any:
        """What `update` takes; by default the outputs and labels themselves."""
        return args


class Accuracy(Metric):
    """The share of samples whose label is among the k likeliest classes, for each k.

    Args:
        topk: The values of k.
        name: What it is called; "acc" if None, with _topK where there are several k.
    """

    def __init__(
        self,
        topk: int | Sequence[int] = (1,),
        name: str | None = None,
        *args: object,
        **kwargs: object,
    ) -> None:
        self.topk = tuple(topk) if isinstance(topk, (list, tuple)) else (topk,)
        if not self.topk or min(self.topk) < 1:
            raise InvalidArgumentError(f"[Accuracy] topk must be positive, got {topk}")
        self.maxk = max(self.topk)
        base = name or "acc"
        self._name = [base]
        if len(self.topk) > 1:
            self._name = [f"{base}_top{k}" for k in self.topk]
        self.reset()

    def compute(self, pred: Tensor, label: Tensor, *args: object) -> Tensor:
        """Whether each of the likeliest classes is the label, (n, maxk)."""
        check_rank("Accuracy", "pred", pred, 1)
        k = min(self.maxk, pred.shape[-1])
        best = ops.topk(pred.detach(), k=k)[1]
        if label.ndim == pred.ndim and label.shape[-1] != 1:
            label = ops.argmax(label, axis=-1, keepdim=True)  # one-hot or soft
        elif label.ndim < pred.ndim:
            label = ops.unsqueeze(label, axis=[-1])
        if label.dtype != best.dtype:
            label = ops.cast(label, dtype=best.dtype)
        return ops.cast(ops.equal(best, label), dtype=pred.dtype)

    def update(self, correct: TensorLike, *args: object) -> float | list[float]:
        """Take in what `compute` gave; returns the batch's accuracy for each k."""
        hit = _array(correct)
        if hit.ndim < 1:
            raise ShapeError("[Accuracy] expected correct (n, maxk), got a number")
        samples = int(np.prod(hit.shape[:-1]))
        values = []
        for i, k in enumerate(self.topk):
            right = float(hit[..., :k].sum())
            values.append(right / samples if samples else 0.0)
            self.total[i] += right
            self.count[i] += samples
        return values[0] if len(values) == 1 else values

    def reset(self) -> None:
        self.total = [0.0] * len(self.topk)
        self.count = [0] * len(self.topk)

    def accumulate(self) -> float | list[float]:
        values = [
            t / c if c else 0.0 for t, c in zip(self.total, self.count, strict=True)
        ]
        return values[0] if len(values) == 1 else values

    def name(self) -> list[str]:
        return self._name


class _Binary(Metric):
    """Counts for predictions above one half against labels 0 and 1."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.reset()

    def reset(self) -> None:
        self.tp = self.fp = self.fn = 0

    def update(self, preds: TensorLike, labels: TensorLike) -> None:
        """Take in probabilities and labels."""
        said, true = _array(preds), _array(labels)
        for each, given in (("preds", said), ("labels", true)):
            if given.dtype.kind not in "biuf":
                raise InvalidTypeError(
                    f"[{type(self).__name__}] expected {each} of numbers, got an array "
                    f"of {given.dtype}"
                )
        said = np.floor(said + 0.5).astype(np.int64).ravel()
        true = true.astype(np.int64).ravel()
        if said.shape != true.shape:
            raise InvalidArgumentError(
                f"[{type(self).__name__}] expected one label for each prediction, got "
                f"{said.size} predictions and {true.size} labels"
            )
        self.tp += int(((said == 1) & (true == 1)).sum())
        self.fp += int(((said == 1) & (true != 1)).sum())
        self.fn += int(((said != 1) & (true == 1)).sum())

    def name(self) -> str:
        return self._name


class Precision(_Binary):
    """The share of positive predictions that are true: tp / (tp + fp)."""

    def __init__(
        self, name: str = "precision", *args: object, **kwargs: object
    ) -> None:
        super().__init__(name)

    def accumulate(self) -> float:
        said = self.tp + self.fp
        return self.tp / said if said else 0.0


class Recall(_Binary):
    """The share of positive labels that were predicted: tp / (tp + fn)."""

    def __init__(self, name: str = "recall", *args: object, **kwargs: object) -> None:
        super().__init__(name)

    def accumulate(self) -> float:
        there = self.tp + self.fn
        return self.tp / there if there else 0.0


class Auc(Metric):
    """Area under the ROC curve, by counting scores in num_thresholds + 1 bins."""

    def __init__(
        self,
        curve: str = "ROC",
        num_thresholds: int = 4095,
        name: str = "auc",
        *args: object,
        **kwargs: object,
    ) -> None:
        if curve != "ROC":
            raise InvalidArgumentError(f"[Auc] curve must be ROC, got {curve!r}")
        if num_thresholds < 1:
            raise InvalidArgumentError(
                f"[Auc] expected num_thresholds of at least 1, got {num_thresholds}"
            )
        self._thresholds, self._name = num_thresholds, name
        self.reset()

    def reset(self) -> None:
        self._positive = np.zeros(self._thresholds + 1, np.int64)
        self._negative = np.zeros(self._thresholds + 1, np.int64)

    def update(self, preds: TensorLike, labels: TensorLike) -> None:
        """Take in probabilities, (n,), (n, 1) or (n, 2) with the positive's last;
        labels.
        """
        scores = _array(preds)
        scores = scores[:, -1] if scores.ndim == 2 and scores.size else scores
        true = _array(labels).ravel().astype(bool)
        if scores.ndim != 1 or scores.shape != true.shape:
            raise ShapeError(
                "[Auc] expected preds (n,), (n, 1) or (n, 2) and n labels, got shapes "
                f"{_array(preds).shape} and {_array(labels).shape}"
            )
        bins = np.clip(
            (scores * self._thresholds).astype(np.int64), 0, self._thresholds
        )
        size = self._thresholds + 1
        self._positive += np.bincount(bins[true], minlength=size)
        self._negative += np.bincount(bins[~true], minlength=size)

    @staticmethod
    def trapezoid_area(x1: float, x2: float, y1: float, y2: float) -> float:
        """The area under a line from (x1, y1) to (x2, y2)."""
        return abs(x1 - x2) * (y1 + y2) / 2.0

    def accumulate(self) -> float:
        found = np.concatenate([[0], np.cumsum(self._positive[::-1])])
        false = np.concatenate([[0], np.cumsum(self._negative[::-1])])
        if not found[-1] or not false[-1]:
            return 0.0
        area = np.sum(np.diff(false) * (found[1:] + found[:-1]) / 2.0)
        return float(area / found[-1] / false[-1])

    def name(self) -> str:
        return self._name


def accuracy(
    input: Tensor,
    label: Tensor,
    k: int = 1,
    correct: Tensor | None = None,
    total: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """The share of rows whose label is among the k greatest, a 0-d tensor."""
    hit = Accuracy(topk=(k,)).compute(input, label)
    return ops.mean(ops.sum(hit, axis=[-1]))
