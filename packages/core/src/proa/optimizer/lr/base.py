"""The base of learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from proa.errors import InvalidArgumentError, NotFoundError


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


class LRScheduler:
    """The base: subclasses define `get_lr` by ``self.last_epoch`` and ``self.base_lr``.

    Args:
        learning_rate: The rate to begin with.
        last_epoch: The epoch to begin after; -1 starts from the beginning.
        verbose: Whether to print each new rate.
    """

    def __init__(
        self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not _is_number(learning_rate) or learning_rate < 0:
            raise InvalidArgumentError(
                f"[{type(self).__name__}] learning_rate must be a number >= 0, "
                f"got {learning_rate!r}"
            )
        self.base_lr = float(learning_rate)
        self.last_lr = self.base_lr
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    def __call__(self) -> float:
        return self.last_lr

    def get_lr(self) -> float:
        """The rate at ``self.last_epoch``."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Move on to the next epoch, or to ``epoch``."""
        epoch = self.last_epoch + 1 if epoch is None else epoch
        if not math.isfinite(epoch):
            raise InvalidArgumentError(
                f"[{type(self).__name__}.step] expected epoch to be finite, got {epoch}"
            )
        self.last_epoch = epoch
        self.last_lr = self.get_lr()
        if self.verbose:
            print(
                f"Epoch {self.last_epoch}: {type(self).__name__} sets the rate "
                f"to {self.last_lr}."
            )

    def state_keys(self) -> list[str]:
        """Attributes that are saved."""
        return ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """The state of the schedule."""
        return {key: getattr(self, key) for key in self.state_keys()}

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from where `state_dict` was taken."""
        for key in self.state_keys():
            if key not in state_dict:
                raise NotFoundError(
                    f"[{type(self).__name__}.set_state_dict] the state must have "
                    f"{key!r}, got {list(state_dict)}"
                )
            setattr(self, key, state_dict[key])

    set_dict = set_state_dict
