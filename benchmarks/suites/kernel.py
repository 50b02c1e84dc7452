"""Matrix products, as fractions of the roof.

Products are x (m, k) @ y (k, n). int8 has its weights packed in every call.
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
