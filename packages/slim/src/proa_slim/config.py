"""What to quantize and how: one plain object, shared by calibration and training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from proa.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from proa.nn import Layer

ActivationObserver = Literal[
    "abs_max", "moving_average", "avg", "hist", "mse", "kl", "emd"
]
WeightObserver = Literal["abs_max", "channel_abs_max", "mse", "channel_mse"]
RoundType = Literal["round", "adaround"]
QuantizableOp = Literal["conv2d", "linear"]

#: Their thresholds do not depend on how many steps the other sign has.
_ASYMMETRIC = ("abs_max", "moving_average", "avg", "hist")


@dataclass(frozen=True)
class QuantConfig:
    """int8 quantization, q = clamp(round((x - offset) / scale), -127, 127).

    Args:
        activation: How the range of an activation is found. ``abs_max`` takes the
            greatest magnitude seen, ``moving_average`` an exponential average over
            batches, ``avg`` the mean over samples of the greatest magnitude, ``hist``
            a percentile of the magnitudes, ``mse`` the threshold of the least square
            error, ``emd`` that of the least earth mover's distance, ``kl`` that whose
            int8 histogram diverges least from the true one.
        weight: One scale for a weight (``abs_max``, ``mse``) or one per output channel
            (``channel_abs_max``, ``channel_mse``), by the greatest magnitude or the
            least square error.
        symmetric: Whether the range of an activation is that of its magnitudes. If not,
            it reaches from the least to the greatest value, which gives a result of
            ReLU twice the steps, and costs a subtraction in float32 before the product
            (and a copy before a padded convolution). For ``abs_max``,
            ``moving_average``, ``avg`` and ``hist``. `QAT` trains symmetric ranges.
        moving_rate: Share of the old value in the moving average, in [0, 1).
        bins: Histogram bins; at least 256.
        hist_percent: The percentile of ``hist`` as a share, in (0, 1].
        equalize: Whether weights of successive products are rescaled first (cross-layer
            equalization).
        smooth_alpha: If given, in [0, 1]: how much of the range of the inputs of linear
            layers is moved into their weights first (SmoothQuant; 0.5 is usual).
        round_type: ``round`` takes the nearest integer of a weight, ``adaround`` learns
            from calibration data whether to round up or down.
        bias_correction: Whether biases make up for what rounding takes from the mean of
            each output channel. `QAT` uses none of these four.
        skip: Layers that stay in float32: full names (``Layer.full_name()``) or paths
            in the network (``features.3``).
        ops: Kinds of product to quantize: ``conv2d``, ``linear``.

    Raises:
        InvalidArgumentError: If a field is none of the above.
    """

    activation: ActivationObserver = "kl"
    weight: WeightObserver = "channel_abs_max"
    symmetric: bool = True
    moving_rate: float = 0.9
    bins: int = 2048
    hist_percent: float = 0.9999
    equalize: bool = False
    smooth_alpha: float | None = None
    round_type: RoundType = "round"
    bias_correction: bool = False
    skip: tuple[str, ...] = ()
    ops: tuple[QuantizableOp, ...] = get_args(QuantizableOp)

    def __post_init__(self) -> None:
        for field, kind in (
            ("activation", ActivationObserver),
            ("weight", WeightObserver),
            ("round_type", RoundType),
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

        if not 0 < self.hist_percent <= 1:
            raise InvalidArgumentError(
                f"[QuantConfig] hist_percent must be in (0, 1], got {self.hist_percent}"
            )
        if self.smooth_alpha is not None and not 0 <= self.smooth_alpha <= 1:
            raise InvalidArgumentError(
                f"[QuantConfig] smooth_alpha must be in [0, 1], got {self.smooth_alpha}"
            )
        if not self.symmetric and self.activation not in _ASYMMETRIC:
            raise UnimplementedError(
                "[QuantConfig] symmetric=False goes with activation "
                f"{', '.join(_ASYMMETRIC)}, got {self.activation!r}"
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
