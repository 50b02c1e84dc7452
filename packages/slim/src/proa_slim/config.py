"""What to quantize and how: one plain object, shared by calibration and training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal, get_args

from proa.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from proa.nn import Layer

ActivationObserver = Literal[
    "abs_max", "moving_average", "avg", "hist", "mse", "kl", "emd"
]
WeightObserver = Literal["abs_max", "channel_abs_max", "mse", "channel_mse"]
RoundType = Literal["round", "adaround"]
QuantizableOp = Literal[
    "conv2d", "linear", "embedding", "recurrent", "matmul", "attention"
]

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
            ``moving_average``, ``avg`` and ``hist``.
        between: Whether what is between quantized convolutions is rounded, too,
            where that keeps images int8: residuals, squeeze-and-excitation and global
            averages read the integers of the convolution before them. For symmetric
            ranges; `QAT` rounds inputs of layers alone.
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
        learn_steps: Whether `QAT` trains the steps of weights and activations too
            (LSQ), from where `weight` and the moving average of the first 20 batches
            put them.
        learn_ranges: Whether `QAT` trains the range of each activation instead (PACT):
            what is beyond it is clipped, and its gradient is that of what is clipped.
            It begins with the moving average of the first 20 batches.
        step_learning_rate: What optimizers multiply the learning rate of these steps
            by. Steps of Adam do not shrink with the gradient, and a step of an int8
            grid is about a hundredth of a weight.
        freeze_bn_delay: Training steps after which `QAT` normalises by the running
            statistics, as the exported model does; None for never. It counts for norms
            that are folded into the product before them.
        skip: Layers that stay in float32, with all that is in them: full names
            (``Layer.full_name()``), paths in the network (``features.3``), patterns of
            paths (``features.*.1``), or classes of layers; ``path:attention`` and
            ``path:matmul`` are the products of activations of the layer of that path
            alone, as reports name them. A layer with an attribute ``skip_quant`` that
            is true is skipped, too.
        half: Layers that are skipped as well, named likewise, and whose weights are
            stored in float16.
        ops: Kinds of operator to quantize: ``conv2d``, transposed ones too, ``linear``;
            and, by `quant_post_static`, ``embedding`` and ``recurrent`` (LSTM, GRU and
            plain cells), whose weights alone are stored in 8 bits unless
            `recurrent_states` says more; and ``matmul`` and
            ``attention``, products of two activations that are both rounded: `QAT`
            finds them in `MatMul` and `nn.MultiHeadAttention`, `quant_aware` in the
            operators of a static program.
        recurrent_states: Whether `quant_post_static` also rounds the states of LSTM,
            GRU and tanh cells, by 1/127, and multiplies them as integers. `ops` must
            have ``recurrent``.
        operators: Operators without weights, by their names in graphs (``softmax``,
            ``add``, ``concat``): `quant_post_static` rounds what they read in float32.
            They stay in float32 themselves, but where integers just pass through.
        only_faster: Whether layers that int8 does not make faster stay in float32, by
            times that `slow_in_int8` measures on this machine with one thread; the
            model's `unquantized` tells them. `QAT` needs an input_spec then.
        activations: Classes of layers without weights, such as `nn.ReLU` and `nn.Tanh`,
            whose input `QAT` rounds, too.

    Raises:
        InvalidArgumentError: If a field is none of the above.
    """

    activation: ActivationObserver = "mse"
    weight: WeightObserver = "channel_abs_max"
    symmetric: bool = True
    between: bool = True
    moving_rate: float = 0.9
    bins: int = 2048
    hist_percent: float = 0.9999
    equalize: bool = False
    smooth_alpha: float | None = None
    round_type: RoundType = "round"
    bias_correction: bool = False
    learn_steps: bool = False
    learn_ranges: bool = False
    step_learning_rate: float = 0.01
    freeze_bn_delay: int | None = None
    skip: tuple[str | type[Layer], ...] = ()
    half: tuple[str | type[Layer], ...] = ()
    ops: tuple[QuantizableOp, ...] = ("conv2d", "linear")
    recurrent_states: bool = False
    operators: tuple[str, ...] = ()
    only_faster: bool = False
    activations: tuple[type[Layer], ...] = ()

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
        self._require_ops()
        if not 0 <= self.moving_rate < 1:
            raise InvalidArgumentError(
                f"[QuantConfig] moving_rate must be in [0, 1), got {self.moving_rate}"
            )
        if self.bins < 256:
            raise InvalidArgumentError(
                f"[QuantConfig] bins must be at least 256, got {self.bins}"
            )

        if self.step_learning_rate <= 0:
            raise InvalidArgumentError(
                "[QuantConfig] step_learning_rate must be positive, got "
                f"{self.step_learning_rate}"
            )
        if self.freeze_bn_delay is not None and self.freeze_bn_delay < 0:
            raise InvalidArgumentError(
                "[QuantConfig] freeze_bn_delay must be at least 0, got "
                f"{self.freeze_bn_delay}"
            )
        if self.learn_steps and self.learn_ranges:
            raise InvalidArgumentError(
                "[QuantConfig] expected learn_steps or learn_ranges, got both"
            )
        for field in ("learn_steps", "learn_ranges"):
            if getattr(self, field) and not self.symmetric:
                raise UnimplementedError(
                    f"[QuantConfig] {field} needs symmetric=True, got False"
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
                "[QuantConfig] symmetric=False needs an activation among "
                f"{', '.join(_ASYMMETRIC)}, got {self.activation!r}"
            )

    def _require_ops(self) -> None:
        unknown = [op for op in self.ops if op not in get_args(QuantizableOp)]
        if unknown or not (self.ops or self.operators):
            raise InvalidArgumentError(
                "[QuantConfig] ops must be among "
                f"{', '.join(get_args(QuantizableOp))}, got {list(self.ops)}"
            )
        if self.recurrent_states and "recurrent" not in self.ops:
            raise InvalidArgumentError(
                "[QuantConfig] expected recurrent among ops for recurrent_states, got "
                f"{list(self.ops)}"
            )

    def skipped(self, network: Layer) -> frozenset[str]:
        """Paths of the layers of `network` that `skip` or `half` name, and of those in
        them.

        Raises:
            NotFoundError: If a name, pattern or class is none of the network's.
        """
        layers = network.named_sublayers()
        marked = {p for p, layer in layers if getattr(layer, "skip_quant", False)}
        named = _chosen(network, "skip", self.skip) | self.halved(network)
        return _with_inner(network, marked | named)

    def halved(self, network: Layer) -> frozenset[str]:
        """Paths of the layers of `network` that `half` names, and of those in them.

        Raises:
            NotFoundError: If a name, pattern or class is none of the network's.
        """
        return _with_inner(network, _chosen(network, "half", self.half))

    def by_path(self, network: Layer) -> QuantConfig:
        """The same with paths in `skip` and `half`, as parameters of a graph have them.

        Raises:
            NotFoundError: If a name, pattern or class is none of the network's.
        """
        skip, half = self.skipped(network), self.halved(network)
        return replace(self, skip=tuple(skip), half=tuple(half))


def _chosen(
    network: Layer, field: str, entries: tuple[str | type[Layer], ...]
) -> frozenset[str]:
    layers = dict(network.named_sublayers())
    found: set[str] = set()
    unknown = []
    for entry in entries:
        chosen = {p for p, layer in layers.items() if _matches(entry, p, layer)}
        chosen |= _products_of_activations(entry, layers)
        if not chosen:
            unknown.append(entry if isinstance(entry, str) else entry.__name__)
        found |= chosen
    if unknown:
        raise NotFoundError(
            f"[QuantConfig] {field} must name layers of the network, got "
            f"{', '.join(sorted(unknown))}; it has {', '.join(layers)}"
        )
    return frozenset(found)


def _products_of_activations(
    entry: str | type[Layer], layers: dict[str, Layer]
) -> set[str]:
    """Keys of products of activations: ``path:attention``, ``path:matmul``."""
    path, _, op = entry.rpartition(":") if isinstance(entry, str) else ("", "", "")
    if op not in ("matmul", "attention"):
        return set()
    if not path:  # of the network itself
        return {f":{op}"}
    return {f"{p}:{op}" for p, layer in layers.items() if _matches(path, p, layer)}


def _with_inner(network: Layer, found: frozenset[str] | set[str]) -> frozenset[str]:
    paths = [path for path, _ in network.named_sublayers()]
    inside = {p for p in paths if any(p.startswith(f"{f}.") for f in found)}
    return frozenset(found | inside)


def _matches(entry: str | type[Layer], path: str, layer: Layer) -> bool:
    if not isinstance(entry, str):
        return isinstance(layer, entry)
    if any(sign in entry for sign in "*?["):
        return fnmatchcase(path, entry)
    return entry in (path, layer.full_name())
