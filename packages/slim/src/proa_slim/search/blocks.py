"""Blocks that architectures are made of: what one is, and the layer that it is.

A block is a plain record, so that architectures which have the same one share its
measured time and, in a supernet, its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import proa
from proa import nn
from proa.errors import InvalidArgumentError


@dataclass(frozen=True)
class Block:
    """One block of an architecture.

    Args:
        kind: One of `BLOCKS`: ``conv``, ``separable`` (MobileNetV1), ``inverted``
            (MobileNetV2), ``basic`` and ``bottleneck`` (ResNet), ``blaze`` and
            ``double_blaze`` (BlazeFace), ``pool`` (the greatest of each window),
            ``head`` (pooling and a linear layer), ``identity``.
        in_channels: Number of channels of its input.
        channels: Number of channels of its result; classes of a head.
        kernel: Kernel size of the spatial convolution.
        stride: Stride of the block.
        expansion: For ``inverted``: channels in the middle, as a multiple of those of
            the input; of ``bottleneck`` and ``double_blaze``: as a share of those of
            the result.
    """

    kind: str
    in_channels: int
    channels: int
    kernel: int = 3
    stride: int = 1
    expansion: float = 1.0

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.in_channels}>{self.channels} k{self.kernel} "
            f"s{self.stride} e{self.expansion:g}"
        )

    def layer(self) -> nn.Layer:
        """A new layer of the block.

        Raises:
            InvalidArgumentError: If there is no such kind of block, or a size is none.
        """
        if self.kind not in BLOCKS:
            raise InvalidArgumentError(
                f"[Block] kind must be one of {', '.join(BLOCKS)}, got {self.kind!r}"
            )
        sizes = (self.in_channels, self.channels, self.kernel, self.stride)
        if min(sizes) < 1 or self.expansion <= 0:
            raise InvalidArgumentError(f"[Block] expected positive sizes, got {self}")
        return BLOCKS[self.kind](self)


class Network(nn.Layer):
    """The layers of blocks, one after the other.

    Args:
        plan: The blocks; ``None`` and ``identity`` are left out.

    Attributes:
        plan: The blocks that there are.
    """

    def __init__(self, plan: Sequence[Block | None]) -> None:
        super().__init__()
        self.plan = tuple(b for b in plan if b is not None and b.kind != "identity")
        self.blocks = nn.LayerList([block.layer() for block in self.plan])

    def forward(self, x: Any) -> Any:
        """The result of the last block."""
        for block in self.blocks:
            x = block(x)
        return x


def sized(plan: Sequence[Block], size: int) -> Iterator[tuple[Block, int]]:
    """Each block and the height of its input, that of the first being `size`."""
    for block in plan:
        yield block, size
        size = -(-size // block.stride)


# --- the layers


def _conv_norm(
    i: int, o: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: Any = None
) -> list[nn.Layer]:
    layers: list[nn.Layer] = [
        nn.Conv2D(i, o, kernel, stride, kernel // 2, groups=groups, bias_attr=False),
        nn.BatchNorm2D(o),
    ]
    return layers if act is None else [*layers, act()]


class _Residual(nn.Layer):
    """activation(body(x) + shortcut(x)).

    The shortcut pools where the stride is 2, and projects or pads channels with zeros
    where there are more.
    """

    def __init__(
        self,
        body: Sequence[nn.Layer],
        shortcut: nn.Layer | None = None,
        activation: nn.Layer | None = None,
        padded: int = 0,
    ) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)
        self.shortcut, self.activation, self.padded = shortcut, activation, padded

    def forward(self, x: Any) -> Any:
        y = self.body(x)
        if self.shortcut is not None:
            x = self.shortcut(x)
        if self.padded:
            x = nn.functional.pad(x, [0, 0, 0, self.padded, 0, 0, 0, 0])
        y = y + x
        return y if self.activation is None else self.activation(y)


def _conv(block: Block) -> nn.Layer:
    return nn.Sequential(
        *_conv_norm(
            block.in_channels, block.channels, block.kernel, block.stride, act=nn.ReLU
        )
    )


def _separable(block: Block) -> nn.Layer:
    i = block.in_channels
    return nn.Sequential(
        *_conv_norm(i, i, block.kernel, block.stride, i, nn.ReLU),
        *_conv_norm(i, block.channels, act=nn.ReLU),
    )


def _inverted(block: Block) -> nn.Layer:
    i, o = block.in_channels, block.channels
    wide = max(1, round(i * block.expansion))
    expand = _conv_norm(i, wide, act=nn.ReLU6) if block.expansion != 1 else []
    body = [
        *expand,
        *_conv_norm(wide, wide, block.kernel, block.stride, wide, nn.ReLU6),
        *_conv_norm(wide, o),
    ]
    if i == o and block.stride == 1:
        return _Residual(body)
    return nn.Sequential(*body)


def _projection(block: Block) -> nn.Layer | None:
    i, o = block.in_channels, block.channels
    if i == o and block.stride == 1:
        return None
    return nn.Sequential(*_conv_norm(i, o, 1, block.stride))


def _basic(block: Block) -> nn.Layer:
    i, o, k = block.in_channels, block.channels, block.kernel
    body = [*_conv_norm(i, o, k, block.stride, act=nn.ReLU), *_conv_norm(o, o, k)]
    return _Residual(body, _projection(block), nn.ReLU())


def _bottleneck(block: Block) -> nn.Layer:
    i, o = block.in_channels, block.channels
    narrow = max(1, round(o * block.expansion))
    body = [
        *_conv_norm(i, narrow, act=nn.ReLU),
        *_conv_norm(narrow, narrow, block.kernel, block.stride, act=nn.ReLU),
        *_conv_norm(narrow, o),
    ]
    return _Residual(body, _projection(block), nn.ReLU())


def _blaze(block: Block) -> nn.Layer:
    i, o = block.in_channels, block.channels
    body = [
        *_conv_norm(i, i, block.kernel, block.stride, i),
        *_conv_norm(i, o),
    ]
    return _blaze_residual(block, body)


def _double_blaze(block: Block) -> nn.Layer:
    i, o = block.in_channels, block.channels
    narrow = max(1, round(o * block.expansion))
    body = [
        *_conv_norm(i, i, block.kernel, block.stride, i),
        *_conv_norm(i, narrow, act=nn.ReLU),
        *_conv_norm(narrow, narrow, block.kernel, 1, narrow),
        *_conv_norm(narrow, o),
    ]
    return _blaze_residual(block, body)


def _blaze_residual(block: Block, body: list[nn.Layer]) -> nn.Layer:
    extra = block.channels - block.in_channels
    if extra < 0:
        raise InvalidArgumentError(
            f"[Block] expected a {block.kind} block with at least as many channels "
            f"as its input, got {block}"
        )
    pool = nn.MaxPool2D(block.stride, ceil_mode=True) if block.stride > 1 else None
    return _Residual(body, pool, nn.ReLU(), extra)


def _head(block: Block) -> nn.Layer:
    return nn.Sequential(
        nn.AdaptiveAvgPool2D(1),
        nn.Flatten(),
        nn.Linear(block.in_channels, block.channels),
    )


def _pool(block: Block) -> nn.Layer:
    return nn.MaxPool2D(block.kernel, block.stride, block.kernel // 2)


def _identity(block: Block) -> nn.Layer:
    return nn.Identity()


#: The layer of each kind of block. Further kinds are added by assignment.
BLOCKS: dict[str, Callable[[Block], proa.nn.Layer]] = {
    "conv": _conv,
    "separable": _separable,
    "inverted": _inverted,
    "basic": _basic,
    "bottleneck": _bottleneck,
    "blaze": _blaze,
    "double_blaze": _double_blaze,
    "pool": _pool,
    "head": _head,
    "identity": _identity,
}
