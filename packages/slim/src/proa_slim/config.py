"""What to quantize and how: one plain object, shared by calibration and training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from proa.errors import InvalidArgumentError

ActivationObserver = Literal["abs_max", "moving_average", "kl"]
WeightObserver = Literal["abs_max", "channel_abs_max"]


@dataclass(frozen=True)
class QuantConfig:
    """Symmetric int8 quantization, q = clamp(round(x / scale), -127, 127).

    Args:
        activation: How the range of an activation is found. ``abs_max`` takes the
            greatest magnitude seen, ``moving_average`` an exponential average over
            batches, ``kl`` the threshold whose int8 histogram diverges least from the
            true one.
        weight: One scale for a weight (``abs_max``) or one per output channel.
        moving_rate: Share of the old value in the moving average, in [0, 1).
        bins: Histogram bins of ``kl``; at least 256.
        skip: Full names of layers (``Layer.full_name()``) that stay in float32.

    Raises:
        InvalidArgumentError: If a field is none of the above.
    """

    activation: ActivationObserver = "kl"
    weight: WeightObserver = "channel_abs_max"
    moving_rate: float = 0.9
    bins: int = 2048
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field, kind in (
            ("activation", ActivationObserver),
            ("weight", WeightObserver),
        ):
            if getattr(self, field) not in get_args(kind):
                raise InvalidArgumentError(
                    f"[QuantConfig] {field} must be one of "
                    f"{', '.join(get_args(kind))}, got {getattr(self, field)!r}"
                )
        if not 0 <= self.moving_rate < 1:
            raise InvalidArgumentError(
                f"[QuantConfig] moving_rate must be in [0, 1), got {self.moving_rate}"
            )
        if self.bins < 256:
            raise InvalidArgumentError(
                f"[QuantConfig] bins must be at least 256, got {self.bins}"
            )
