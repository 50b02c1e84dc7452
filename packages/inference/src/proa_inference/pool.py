"""Several predictors on one set of weights, one for each thread."""

from __future__ import annotations

from proa.errors import OutOfRangeError
from proa_inference.arguments import integer
from proa_inference.config import Config
from proa_inference.predictor import Predictor, create_predictor


class PredictorPool:
    """`size` predictors that share weights.

    Args:
        config: As for `create_predictor`.
        size: Number of predictors, at least 1.

    Raises:
        InvalidArgumentError: If size is less than 1.
    """

    def __init__(self, config: Config, size: int = 1) -> None:
        size = integer("PredictorPool", "size", size, 1)
        first = create_predictor(config)
        self._predictors = [first, *(first.clone() for _ in range(size - 1))]

    def __len__(self) -> int:
        return len(self._predictors)

    def retrive(self, index: int) -> Predictor:
        """`retrieve`, as Paddle Inference spells it."""
        return self.retrieve(index)

    def retrieve(self, index: int) -> Predictor:
        """The predictor of that index; let one thread at a time use it.

        Raises:
            OutOfRangeError: If there is none of that index.
        """
        if not 0 <= index < len(self._predictors):
            raise OutOfRangeError(
                f"[PredictorPool] index must be in [0, {len(self._predictors)}), "
                f"got {index}"
            )
        return self._predictors[index]
