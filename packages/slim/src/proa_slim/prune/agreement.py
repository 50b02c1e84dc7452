"""How often a network agrees with what it was: the metric where there are no labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proa
from proa.errors import InvalidArgumentError


class Agreement:
    """The share of the samples at which a network has its greatest score where it had
    it when this was made.

    Args:
        network: Is called in evaluation mode.
        data: Batches: arrays, tensors, or sequences whose first items are the inputs.
        count: Number of inputs.

    Raises:
        InvalidArgumentError: If there is no batch, a batch has fewer arrays than the
            network has inputs, or the first output has no scores along axis 1.
    """

    def __init__(self, network: proa.nn.Layer, data: Iterable[Any], count: int) -> None:
        self._network = network
        self._batches = [_inputs(batch, count) for batch in data]
        if not self._batches:
            raise InvalidArgumentError("[status] expected batches of data, got none")
        self._wanted = self._classes()

    def __call__(self) -> float:
        return float((self._classes() == self._wanted).mean())

    def _classes(self) -> NDArray[np.int64]:
        was_training = self._network.training
        self._network.eval()
        try:
            with proa.no_grad():
                return np.concatenate([self._of_batch(b) for b in self._batches])
        finally:
            if was_training:
                self._network.train()

    def _of_batch(self, batch: list[proa.Tensor]) -> NDArray[np.int64]:
        result: Any = self._network(*batch)
        first = result[0] if isinstance(result, (list, tuple)) else result
        scores = np.asarray(first.numpy())
        if scores.ndim < 2 or scores.shape[1] < 2:
            raise InvalidArgumentError(
                "[status] expected an eval_func, or a network whose first output has "
                f"scores along axis 1, got shape {scores.shape}"
            )
        found: NDArray[np.int64] = scores.argmax(1).reshape(-1)
        return found


def _inputs(batch: Any, count: int) -> list[proa.Tensor]:
    items = list(batch) if isinstance(batch, (list, tuple)) else [batch]
    if len(items) < count:
        raise InvalidArgumentError(
            f"[status] expected {count} arrays in each batch, got {len(items)}"
        )
    return [proa.to_tensor(np.asarray(item)) for item in items[:count]]
