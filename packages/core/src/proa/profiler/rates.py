"""Rates of kernels, and how near they come to what the machine can do.

A kernel that must make f operations and move b bytes takes at least max(f / F, b / B)
seconds on a machine that makes F operations and moves B bytes a second (the roofline of
Williams et al., 2009). The fraction of peak is that time over the kernel's own.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from proa._core import ops
from proa.base.dtype import as_dtype
from proa.profiler.result import Event
from proa.schema import ROWS

Shape = tuple[int, ...]
_ARRAY = re.compile(r"(\w+) \(([\d, ]*)\)")
_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "float32": 4, "int64": 8, "float64": 8, "complex64": 8,
    "complex128": 16,
}  # fmt: skip


@dataclass(frozen=True)
class PeakRates:
    """What the machine does at best: float32 operations and bytes a second."""

    operations: float
    bytes: float


@dataclass
class Work:
    """What the kernels of one name did."""

    calls: int = 0
    nanoseconds: int = 0
    operations: float = 0.0
    bytes: float = 0.0
    minimum: float = 0.0  # seconds at peak rates, by the roofline model

    @property
    def seconds(self) -> float:
        """The time they took."""
        return max(self.nanoseconds, 1) * 1e-9


def _product(x: Shape, y: Shape) -> float:
    """Multiply-adds of matmul: (.., n, k) @ (.., k, m), leading axes broadcast."""
    rank = max(len(x), len(y)) - 2
    lead_x = (1,) * (rank - len(x) + 2) + x[:-2]
    lead_y = (1,) * (rank - len(y) + 2) + y[:-2]
    batch = math.prod(map(max, lead_x, lead_y))
    return float(batch * x[-2] * x[-1] * y[-1])


def _window(dy: Shape, w: Shape) -> float:
    """Multiply-adds of a convolution with that output and weight (o, i / g, h, w)."""
    return float(math.prod(dy) * math.prod(w[1:]))


def _scores(q: Shape, k: Shape) -> float:
    """Elements of q k^T over (batch, length, heads, width)."""
    return float(q[0] * q[2] * q[1] * k[1])


#: Multiply-adds from the shapes of inputs and of outputs, of rows that products make.
_PRODUCTS: dict[str, Callable[[list[Shape], list[Shape]], float]] = {
    "matmul": lambda x, y: _product(x[0], x[1]),
    "linear": lambda x, y: _product(x[0], x[1]),
    "linear_act": lambda x, y: _product(x[0], x[1]),
    "linear_grad_weight": lambda x, y: float(math.prod(x[0]) * x[1][-1]),
    "conv2d": lambda x, y: _window(y[0], x[1]),
    "conv2d_act": lambda x, y: _window(y[0], x[1]),
    "conv2d_norm": lambda x, y: _window(y[0], x[1]),
    "conv2d_transpose": lambda x, y: _window(x[0], x[1]),
    "conv2d_grad_input": lambda x, y: _window(x[0], x[1]),
    "conv2d_grad_weight": lambda x, y: _window(x[1], y[0]),
    "attention": lambda x, y: _scores(x[0], x[1]) * (x[0][3] + x[2][3]),
    "attention_grad": lambda x, y: (
        _scores(x[1], x[2]) * (3.0 * x[1][3] + 2.0 * x[3][3])
    ),
    "recurrent": lambda x, y: float(math.prod(x[0][:2]) * math.prod(x[1])),
    # y and reserve come before w, of the second last of rank 2.
    "recurrent_grad": lambda x, y: 2.0 * math.prod(x[0][:2]) * math.prod(y[1]),
}


def _arrays(text: str) -> list[tuple[int, Shape]]:
    """Bytes of an element, and the shape, of each array that a detail lists."""
    return [
        (_BYTES.get(name, 4), tuple(int(n) for n in sizes.split(",") if n.strip()))
        for name, sizes in _ARRAY.findall(text)
    ]


def _moved(name: str, before: list[tuple[int, Shape]]) -> list[tuple[int, Shape]]:
    """The inputs whose elements are read, not their shape alone."""
    row = ROWS.get(name)
    if row is None or len(row.arrays) != len(before):
        return before
    pairs = zip(row.arrays, before, strict=True)
    return [given for array, given in pairs if not array.shape_only]


def kernel_work(events: Iterable[Event], peak: PeakRates) -> dict[str, Work]:
    """By name, the work of the kernels whose shapes were noted."""
    found: dict[str, Work] = {}
    for event in events:
        if event.kind != "kernel" or "->" not in event.detail:
            continue
        left, _, right = event.detail.partition("->")
        before, after = _arrays(left), _arrays(right)
        count = _PRODUCTS.get(event.name)
        shapes = [[shape for _, shape in side] for side in (before, after)]
        operations = 2.0 * count(*shapes) if count is not None else 0.0
        moved = sum(
            size * math.prod(shape)
            for size, shape in [*_moved(event.name, before), *after]
        )
        work = found.setdefault(event.name, Work())
        work.calls += 1
        work.nanoseconds += event.duration
        work.operations += operations
        work.bytes += moved
        work.minimum += max(operations / peak.operations, moved / peak.bytes)
    return found


def measure_peak_rates() -> PeakRates:
    """Our own best: a product of squares, and a copy beyond the caches, a few times."""
    side, length = 768, 1 << 23
    float32 = as_dtype("float32")
    square = ops.full(shape=[side, side], value=1, dtype=float32)
    line = ops.full(shape=[length], value=1, dtype=float32)
    product = _best(lambda: ops.matmul(square, square))
    copy = _best(lambda: ops.scale(line, scale=2.0))
    return PeakRates(2.0 * side**3 / product, 8.0 * length / copy)


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
