"""Matrix products and convolutions, as fractions of the roof.

Products are x (m, k) @ y (k, n); convolutions those of ResNet-50 and MobileNet, batch
4, channels-last as they come in a network. int8 has its weights packed in every call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Case, Work

import proa
from proa import _core

ops = _core.ops
RNG = np.random.default_rng(0)

SQUARES = (64, 128, 256, 512, 1024, 2048)
RECTANGLES = [
    (m, k, n)
    for m in (1, 16, 128)
    for k, n in ((768, 768), (768, 3072), (3072, 768), (4096, 4096))
]
#: Name, channels, outs, size, kernel, stride, padding, groups.
CONVOLUTIONS = [
    ("stem 7x7/2 3-64@224", 3, 64, 224, 7, 2, 3, 1),
    ("1x1 64-256@56", 64, 256, 56, 1, 1, 0, 1),
    ("3x3 64-64@56", 64, 64, 56, 3, 1, 1, 1),
    ("3x3/2 128-128@56", 128, 128, 56, 3, 2, 1, 1),
    ("3x3 128-128@28", 128, 128, 28, 3, 1, 1, 1),
    ("1x1 512-128@28", 512, 128, 28, 1, 1, 0, 1),
    ("3x3 256-256@14", 256, 256, 14, 3, 1, 1, 1),
    ("1x1 1024-256@14", 1024, 256, 14, 1, 1, 0, 1),
    ("3x3 512-512@7", 512, 512, 7, 3, 1, 1, 1),
    ("1x1 512-2048@7", 512, 2048, 7, 1, 1, 0, 1),
    ("stem 3x3/2 3-32@224", 3, 32, 224, 3, 2, 1, 1),
    ("dw3x3 32@112", 32, 32, 112, 3, 1, 1, 32),
    ("dw3x3/2 64@112", 64, 64, 112, 3, 2, 1, 64),
    ("dw3x3 512@14", 512, 512, 14, 3, 1, 1, 512),
    ("1x1 512-512@14", 512, 512, 14, 1, 1, 0, 1),
]
BATCH = 4


def _case(
    name: str, contenders: dict[str, Work], roof: str, amount: float, **options: Any
) -> Case:
    options = {"rounds": 9, "slice_seconds": 0.03, **options}
    return Case(name, contenders, roof=roof, amount=amount, **options)


def cases(torch: Any) -> Iterator[Case]:
    """Every kernel of the suite, one after the other."""
    for n in SQUARES:
        yield _matmul(torch, n, n, n, "float32")
    for shape in RECTANGLES:
        yield _matmul(torch, *shape, "float32")
    for m, k, n in [(n, n, n) for n in SQUARES[2:5]] + RECTANGLES:
        yield _matmul(torch, m, k, n, "bfloat16")
        yield _linear_int8(m, k, n)
    for name, *shape in CONVOLUTIONS:
        yield from _convolution(torch, name, *shape)


def _matmul(torch: Any, m: int, k: int, n: int, dtype: str) -> Case:
    a = RNG.standard_normal((m, k), np.float32)
    b = RNG.standard_normal((k, n), np.float32)
    x, y = proa.to_tensor(a).astype(dtype), proa.to_tensor(b).astype(dtype)
    contenders: dict[str, Work] = {"proa": lambda: proa.matmul(x, y)}
    if torch is not None:
        p = torch.from_numpy(a).to(getattr(torch, dtype))
        q = torch.from_numpy(b).to(getattr(torch, dtype))
        contenders["torch"] = lambda: p @ q
    if dtype == "float32":
        contenders["numpy"] = lambda: a @ b
    return _case(f"matmul {dtype} {m}x{k}x{n}", contenders, "f32", 2.0 * m * k * n)


def _linear_int8(m: int, k: int, n: int) -> Case:
    x = proa.to_tensor(RNG.integers(-127, 128, (m, k), dtype=np.int8))
    w = proa.to_tensor(RNG.integers(-127, 128, (k, n), dtype=np.int8))
    scale = proa.ones([n])

    def ours() -> object:
        return ops.linear_int8(x, w, scale, None, out_scale=1.0, dtype="int8")

    return _case(f"int8 {m}x{k}x{n}", {"proa": ours}, "int8", 2.0 * m * k * n)


def _channels_last(n: int, c: int, size: int) -> tuple[Any, Any]:
    """The same (n, c, size, size) array as NumPy memory and as our tensor."""
    array = RNG.standard_normal((n, size, size, c), np.float32)
    return array, proa.to_tensor(array).transpose([0, 3, 1, 2])


def _convolution(
    torch: Any, name: str, c: int, o: int, size: int, kernel: int, stride: int,
    padding: int, groups: int,
) -> Iterator[Case]:  # fmt: skip
    out = (size + 2 * padding - kernel) // stride + 1
    a, x = _channels_last(BATCH, c, size)
    b, dy = _channels_last(BATCH, o, out)
    kernels = RNG.standard_normal((o, c // groups, kernel, kernel), np.float32)
    w = proa.to_tensor(kernels)
    how = {
        "stride": [stride] * 2,
        "padding": [padding] * 4,
        "dilation": [1, 1],
        "groups": groups,
    }
    runs: dict[str, dict[str, Work]] = {
        "forward": {"proa": lambda: ops.conv2d(x, w, **how)},
        "input": {"proa": lambda: ops.conv2d_grad_input(dy, w, x, **how)},
        "weight": {"proa": lambda: ops.conv2d_grad_weight(x, dy, w, **how)},
    }
    if torch is not None:
        tx = torch.from_numpy(a).permute(0, 3, 1, 2)
        ty = torch.from_numpy(b).permute(0, 3, 1, 2)
        tw = torch.from_numpy(kernels).contiguous(memory_format=torch.channels_last)
        geometry = ([stride] * 2, [padding] * 2, [1, 1])
        back = torch.ops.aten.convolution_backward

        def gradient(which: int) -> Work:
            mask = [which == 0, which == 1, False]
            return lambda: back(
                ty, tx, tw, None, *geometry, False, [0, 0], groups, mask
            )

        runs["forward"]["torch"] = lambda: torch.nn.functional.conv2d(
            tx, tw, None, stride, padding, 1, groups
        )
        runs["input"]["torch"] = gradient(0)
        runs["weight"]["torch"] = gradient(1)
    amount = 2.0 * BATCH * out * out * o * (c // groups) * kernel * kernel
    for what, contenders in runs.items():
        yield _case(f"{name} {what}", contenders, "f32", amount)
