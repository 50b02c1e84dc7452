"""Settings and statistics of convolutions and batch norms.

For packages that change layers in place: quantization folds a norm into a convolution,
a search tries other kernels and calibrates norms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from proa._core import Tensor
from proa.nn.layer.base import Layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proa.base.typing import PaddingLike

__all__ = [
    "Kernel", "RunningStatistics", "kernel_of", "set_kernel", "set_momentum",
    "statistics_of",
]  # fmt: skip


class Kernel(NamedTuple):
    """The window of a convolution: a size and a dilation for each spatial axis, and the
    padding as the layer was given it.
    """

    size: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: PaddingLike


class RunningStatistics(NamedTuple):
    """What a batch norm takes in evaluation, with the settings that go with it.

    Attributes:
        mean, variance: A number for each channel; buffers of the layer.
        momentum: Share of the old statistics at each step.
        epsilon: Added to the variance.
        always_used: Whether training takes them too.
    """

    mean: Tensor
    variance: Tensor
    momentum: float
    epsilon: float
    always_used: bool


def kernel_of(convolution: Layer) -> Kernel:
    """The kernel of a convolution."""
    found: Any = convolution
    return Kernel(tuple(found._kernel_size), tuple(found._dilation), found._padding)


def set_kernel(convolution: Layer, size: Sequence[int], padding: PaddingLike) -> None:
    """Set the size of a convolution's kernel, which its weight must have, and the
    padding.
    """
    found: Any = convolution
    found._kernel_size = type(found._kernel_size)(size)
    found._padding = padding


def statistics_of(norm: Layer) -> RunningStatistics:
    """The running statistics of a batch norm; the tensors are the layer's own."""
    found: Any = norm
    return RunningStatistics(
        found._mean,
        found._variance,
        found._momentum,
        found._epsilon,
        found._use_global_stats is True,
    )


def set_momentum(norm: Layer, momentum: float) -> None:
    """Set the share of the old statistics that a batch norm keeps at each step."""
    found: Any = norm
    found._momentum = momentum
