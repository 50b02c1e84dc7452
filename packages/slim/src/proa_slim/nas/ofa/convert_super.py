"""`Convert` and `supernet`: which widths and kernels a network may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

import proa
from proa import nn
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.ir.record import dtype_name, to_array, to_tensor
from proa.nn.layer.settings import kernel_of, set_kernel
from proa.nn.layer.sizes import group_count
from proa_slim.prune.network import hold

Network = TypeVar("Network", bound=nn.Layer)
#: Layers with channels of their own.
WEIGHT_LAYERS = (
    nn.Conv1D, nn.Conv2D, nn.Conv3D, nn.Conv1DTranspose, nn.Conv2DTranspose,
    nn.Conv3DTranspose, nn.Linear, nn.Embedding,
)  # fmt: skip
_ATTRIBUTE = "_ofa_options"


@dataclass
class Options:
    """What layers may have, by their paths: shares of their channels below 1, and
    kernels below their own.
    """

    widths: dict[str, tuple[float, ...]] = field(default_factory=dict)
    kernels: dict[str, tuple[int, ...]] = field(default_factory=dict)
    #: Whether options are numbers of channels in PaddleSlim's configurations.
    by_number: bool = False


class supernet:
    """The space of `Convert`; ``with supernet(..) as convert`` gives a `Convert`.

    Args:
        kernel_size: Odd sizes of kernels. Square kernels above 1 that pad by half of
            their size become the greatest of them, with zeros around what they had, so
            that the network computes what it did.
        expand_ratio: Shares of channels that layers may have, at most 1.
        channel: Numbers of channels instead, for each convolution, linear layer and
            embedding, the greatest of each being what the layer has.

    Raises:
        InvalidArgumentError: If an argument is none of these, or shares and numbers
            are given.
    """

    def __init__(
        self,
        *,
        kernel_size: Sequence[int] | None = None,
        expand_ratio: float | Sequence[float] | None = None,
        channel: Sequence[int | Sequence[int]] | None = None,
    ) -> None:
        if expand_ratio is not None and channel is not None:
            raise InvalidArgumentError(
                "[supernet] expected expand_ratio or channel, got both"
            )
        self.kernel_size = _sorted(kernel_size)
        self.expand_ratio = _sorted(expand_ratio)
        self.channel = None if channel is None else [_sorted(c) for c in channel]
        if not all(0 < share <= 1 for share in self.expand_ratio):
            raise InvalidArgumentError(
                "[supernet] expected expand_ratio in (0, 1], of a network as wide as "
                f"its widest, got {expand_ratio}"
            )
        if not all(size % 2 and size > 0 for size in self.kernel_size):
            raise InvalidArgumentError(
                f"[supernet] expected odd sizes of kernels, got {kernel_size}"
            )

    def __enter__(self) -> Convert:
        return Convert(self)

    def __exit__(self, *error: object) -> None:
        pass


def _sorted(given: Any) -> list[Any]:
    if given is None:
        return []
    return sorted({given} if isinstance(given, (int, float)) else set(given))


class Convert:
    """Notes what layers of a network may have.

    Args:
        context: The space.
    """

    def __init__(self, context: supernet) -> None:
        self.context = context

    def convert(self, network: Network) -> Network:
        """The network itself, for `OFA`; what it computes is the same.

        Raises:
            InvalidTypeError: If it is no Layer.
            InvalidArgumentError: If ``channel`` has not the greatest number of each
                layer, or no layer has options.
        """
        if not isinstance(network, nn.Layer):
            raise InvalidTypeError(
                f"[Convert] expected a Layer, got {type(network).__name__}"
            )
        layers = {
            path: layer
            for path, layer in network.named_sublayers()
            if isinstance(layer, WEIGHT_LAYERS)
        }
        options = Options(by_number=self.context.channel is not None)
        for path, layer in layers.items():
            own = _enlarged(layer, self.context.kernel_size)
            smaller = tuple(n for n in self.context.kernel_size if n < own)
            if smaller:
                options.kernels[path] = smaller
            shares = tuple(share for share in self.context.expand_ratio if share < 1)
            if shares:
                options.widths[path] = shares
        if self.context.channel is not None:
            options.widths = _shares(layers, self.context.channel)
        if not options.kernels and not options.widths:
            raise InvalidArgumentError(
                f"[Convert] expected layers with options, got none in {network}"
            )
        network.__dict__[_ATTRIBUTE] = options
        return network


def options_of(network: nn.Layer) -> Options:
    """What `Convert` noted.

    Raises:
        InvalidArgumentError: If it did not see the network.
    """
    found = network.__dict__.get(_ATTRIBUTE)
    if not isinstance(found, Options):
        raise InvalidArgumentError(
            "[OFA] expected a network that Convert returned, got "
            f"{type(network).__name__}"
        )
    return found


def channels(layer: Any) -> int:
    """The number of output channels of a layer with a weight."""
    if isinstance(layer, (nn.Linear, nn.Embedding)):
        return int(layer.weight.shape[1])
    if isinstance(layer, (nn.Conv1D, nn.Conv2D, nn.Conv3D)):
        return int(layer.weight.shape[0])
    return int(layer.weight.shape[1]) * group_count(layer)


def _shares(
    layers: dict[str, Any], numbers: Sequence[Sequence[int]]
) -> dict[str, tuple[float, ...]]:
    if len(numbers) != len(layers):
        raise InvalidArgumentError(
            f"[Convert] expected channel to have an entry for each of {len(layers)} "
            f"layers, got {len(numbers)}"
        )
    found = {}
    for (path, layer), given in zip(layers.items(), numbers, strict=True):
        own = channels(layer)
        if not given or given[-1] != own or given[0] < 1:
            raise InvalidArgumentError(
                f"[Convert] expected numbers of channels up to {own} for {path!r}, got "
                f"{list(given)}"
            )
        if len(given) > 1:
            found[path] = tuple(number / own for number in given[:-1])
    return found


def _enlarged(layer: Any, sizes: Sequence[int]) -> int:
    """Let a kernel be the greatest of sizes, if it is below; returns its size, 0 if it
    is not of those that may vary.
    """
    if not sizes or not isinstance(layer, nn.Conv2D):
        return 0
    own, other = (int(n) for n in layer.weight.shape[2:])
    kernel = kernel_of(layer)
    pads = bool(np.all(np.array(kernel.padding) == own // 2))
    if own != other or own < 3 or not own % 2 or kernel.dilation != (1, 1) or not pads:
        return 0
    more = (sizes[-1] - own) // 2
    if more > 0:
        around = [(0, 0), (0, 0), (more, more), (more, more)]
        weight = np.pad(np.asarray(to_array(layer.weight)), around)
        with proa.no_grad():
            hold(layer.weight, to_tensor(weight, dtype_name(layer.weight)))
        set_kernel(layer, [sizes[-1]] * 2, sizes[-1] // 2)
    return max(own, sizes[-1])
