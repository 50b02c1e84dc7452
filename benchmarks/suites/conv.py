"""The convolutions and poolings of the training workloads, forward and both backwards.

Each distinct one once, channels-last as training has it, with the number of times a
step of its network runs it; the rate is that of the direct sum's products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import Case, Work

import proa
from proa.runtime import operators as ops

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Convolution:
    """One shape: channels in and out, edge of the image, kernel, step and padding."""

    times: int  # in a step
    channels: int
    outs: int
    size: int
    kernel: int
    stride: int = 1
    depthwise: bool = False
    padding: int | None = None  # None: half the kernel

    @property
    def pad(self) -> int:
        """The padding on each side."""
        return self.kernel // 2 if self.padding is None else self.padding

    @property
    def out(self) -> int:
        """The edge of the output."""
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def groups(self) -> int:
        """As many groups as channels where each has a kernel of its own."""
        return self.channels if self.depthwise else 1

    @property
    def name(self) -> str:
        """Kernel, step, channels and size."""
        step = f"/{self.stride}" if self.stride > 1 else ""
        kind = "dw" if self.depthwise else ""
        return (
            f"{kind}{self.kernel}x{self.kernel}{step} "
            f"{self.channels}-{self.outs}@{self.size}"
        )


def _resnet50() -> list[Convolution]:
    shapes = [Convolution(1, 3, 64, 224, 7, 2)]
    stages = ((64, 56, 3, 1), (128, 28, 4, 2), (256, 14, 6, 2), (512, 7, 3, 2))
    before = 64
    for width, size, blocks, step in stages:
        wide, large = 4 * width, size * step
        shapes += [
            Convolution(1, before, width, large, 1),
            Convolution(1, width, width, large, 3, step),
            Convolution(blocks, width, wide, size, 1),
            Convolution(1, before, wide, large, 1, step),
            Convolution(blocks - 1, wide, width, size, 1),
            Convolution(blocks - 1, width, width, size, 3),
        ]
        before = wide
    return shapes


def _mobilenet_v1() -> list[Convolution]:
    shapes = [Convolution(1, 3, 32, 224, 3, 2)]
    stages = [(1, 32, 64, 112, 1), (1, 64, 128, 112, 2), (1, 128, 128, 56, 1)]
    stages += [(1, 128, 256, 56, 2), (1, 256, 256, 28, 1), (1, 256, 512, 28, 2)]
    stages += [(5, 512, 512, 14, 1), (1, 512, 1024, 14, 2), (1, 1024, 1024, 7, 1)]
    for times, width, wide, size, step in stages:
        shapes.append(Convolution(times, width, width, size, 3, step, depthwise=True))
        shapes.append(Convolution(times, width, wide, size // step, 1))
    return shapes


def _resnet18() -> list[Convolution]:
    shapes = [Convolution(1, 3, 64, 32, 3), Convolution(4, 64, 64, 32, 3)]
    for width, size in ((64, 32), (128, 16), (256, 8)):
        wide = 2 * width
        shapes += [
            Convolution(1, width, wide, size, 3, 2),
            Convolution(1, width, wide, size, 1, 2),
            Convolution(3, wide, wide, size // 2, 3),
        ]
    return shapes


#: Network: batch and convolutions of a step.
NETWORKS: dict[str, tuple[int, list[Convolution]]] = {
    "resnet50": (8, _resnet50()),
    "mobilenet": (8, _mobilenet_v1()),
    "resnet18": (64, _resnet18()),
    "lenet": (
        64,
        [Convolution(1, 1, 6, 28, 3), Convolution(1, 6, 16, 14, 5, padding=0)],
    ),
}
#: Network, batch, channels, size, kernel, stride and padding of its poolings.
POOLINGS = [
    ("resnet50", 8, 64, 112, 3, 2, 1),
    ("lenet", 64, 6, 28, 2, 2, 0),
    ("lenet", 64, 16, 10, 2, 2, 0),
]


def cases(torch: Any) -> Iterator[Case]:
    """Every convolution of every network, then the poolings in both layouts."""
    for network, (batch, shapes) in NETWORKS.items():
        for shape in shapes:
            for what, work in convolution_works(torch, batch, shape).items():
                name = f"{network} {shape.times}* {shape.name} {what}"
                pixels = batch * shape.out**2 * shape.outs
                steps = shape.channels // shape.groups * shape.kernel**2
                amount = 2.0 * pixels * steps
                yield Case(name, work, bound="f32", amount=amount, **_SHORT)
    for network, *pool in POOLINGS:
        for layout in ("NHWC", "NCHW"):
            for what, work in _pooling_works(torch, layout, *pool).items():
                name = f"{network} {layout} {what} {pool[3]}/{pool[4]} @{pool[2]}"
                yield Case(name, work, **_SHORT)


_SHORT: dict[str, Any] = {"rounds": 9, "slice_seconds": 0.02}


def _image(
    torch: Any, n: int, c: int, size: int, layout: str = "NHWC"
) -> tuple[Any, Any]:
    """The same (n, c, size, size) array as our tensor and as PyTorch's."""
    shape = (n, size, size, c) if layout == "NHWC" else (n, c, size, size)
    array = RNG.standard_normal(shape, np.float32)
    ours, theirs = proa.to_tensor(array), torch and torch.from_numpy(array)
    if layout == "NHWC":
        ours = ours.transpose([0, 3, 1, 2])
        theirs = torch and theirs.permute(0, 3, 1, 2)
    return ours, theirs


def convolution_works(
    torch: Any, batch: int, s: Convolution
) -> dict[str, dict[str, Work]]:
    """Forward, gradient of the input and of the kernels, ours and PyTorch's."""
    x, tx = _image(torch, batch, s.channels, s.size)
    dy, ty = _image(torch, batch, s.outs, s.out)
    kernels = RNG.standard_normal(
        (s.outs, s.channels // s.groups, s.kernel, s.kernel), np.float32
    )
    w = proa.to_tensor(kernels)
    how = {
        "stride": [s.stride] * 2,
        "padding": [s.pad] * 4,
        "dilation": [1, 1],
        "groups": s.groups,
    }
    works: dict[str, dict[str, Work]] = {
        "forward": {"proa": lambda: ops.conv2d(x, w, **how)},
        "input": {"proa": lambda: ops.conv2d_grad_input(dy, w, x, **how)},
        "weight": {"proa": lambda: ops.conv2d_grad_weight(x, dy, w, **how)},
    }
    if torch is None:
        return works
    tw = torch.from_numpy(kernels).contiguous(memory_format=torch.channels_last)
    geometry = ([s.stride] * 2, [s.pad] * 2, [1, 1])

    def gradient(which: int) -> Work:
        back, mask = torch.ops.aten.convolution_backward, [which == 0, which == 1]
        return lambda: back(
            ty, tx, tw, None, *geometry, False, [0, 0], s.groups, [*mask, False]
        )

    conv = torch.nn.functional.conv2d
    works["forward"]["torch"] = lambda: conv(tx, tw, None, s.stride, s.pad, 1, s.groups)
    works["input"]["torch"] = gradient(0)
    works["weight"]["torch"] = gradient(1)
    return works


def _pooling_works(
    torch: Any, layout: str, n: int, c: int, size: int, kernel: int, step: int, pad: int
) -> dict[str, dict[str, Work]]:
    """Forward with gradient kept, and both passes: the backward is the difference."""
    x, tx = _image(torch, n, c, size, layout)
    x.stop_gradient = False
    out = (size + 2 * pad - kernel) // step + 1
    dy, ty = _image(torch, n, c, out, layout)
    f = proa.nn.functional
    works: dict[str, dict[str, Work]] = {
        "max forward": {"proa": lambda: f.max_pool2d(x, kernel, step, pad)},
        "avg forward": {"proa": lambda: f.avg_pool2d(x, kernel, step, pad)},
        "max both": {
            "proa": lambda: proa.grad(f.max_pool2d(x, kernel, step, pad), x, dy)
        },
        "avg both": {
            "proa": lambda: proa.grad(f.avg_pool2d(x, kernel, step, pad), x, dy)
        },
    }
    if torch is None:
        return works
    tx.requires_grad_()
    t = torch.nn.functional
    works["max forward"]["torch"] = lambda: t.max_pool2d(tx, kernel, step, pad)
    works["avg forward"]["torch"] = lambda: t.avg_pool2d(tx, kernel, step, pad)
    grad = torch.autograd.grad
    works["max both"]["torch"] = lambda: grad(
        t.max_pool2d(tx, kernel, step, pad), tx, ty
    )
    works["avg both"]["torch"] = lambda: grad(
        t.avg_pool2d(tx, kernel, step, pad), tx, ty
    )
    return works
