"""What to quantize and how: one plain object, shared by calibration and training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from proa.errors import InvalidArgumentError, NotFoundError
from proa.nn import Layer

ActivationObserver = Literal["abs_max", "moving_average", "kl"]
WeightObserver = Literal["abs_max", "channel_abs_max"]
QuantizableOp = Literal["conv2d", "linear"]


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
        skip: Layers that stay in float32: full names (``Layer.full_name()``) or paths
            in the network (``features.3``).
        ops: Kinds of product to quantize: ``conv2d``, ``linear``.

    Raises:
        InvalidArgumentError: If a field is none of the above.
    """

    activation: ActivationObserver = "kl"
    weight: WeightObserver = "channel_abs_max"
    moving_rate: float = 0.9
    bins: int = 2048
    skip: tuple[str, ...] = ()
    ops: tuple[QuantizableOp, ...] = get_args(QuantizableOp)

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
        unknown = [op for op in self.ops if op not in get_args(QuantizableOp)]
        if unknown or not self.ops:
            raise InvalidArgumentError(
                "[QuantConfig] ops must be among "
                f"{', '.join(get_args(QuantizableOp))}, got {list(self.ops)}"
            )
        if not 0 <= self.moving_rate < 1:
            raise InvalidArgumentError(
                f"[QuantConfig] moving_rate must be in [0, 1), got {self.moving_rate}"
            )
        if self.bins < 256:
            raise InvalidArgumentError(
                f"[QuantConfig] bins must be at least 256, got {self.bins}"
            )

    def skipped(self, network: Layer) -> frozenset[str]:
        """Paths of the layers of `network` that `skip` names.

        Raises:
            NotFoundError: If a name is none of the network's.
        """
        names = {path: layer.full_name() for path, layer in network.named_sublayers()}
        unknown = set(self.skip) - set(names) - set(names.values())
        if unknown:
            raise NotFoundError(
                "[QuantConfig] skip must name layers of the network, got "
                f"{', '.join(sorted(unknown))}; it has {', '.join(names)}"
            )
        return frozenset(
            path for path, full in names.items() if {path, full} & set(self.skip)
        )
