"""Associative scan along an axis (Hillis and Steele, 1986).

After step k, element i holds the result of the 2 ** k elements that end at i. That is
log2(n) steps of elementwise rows, which differentiate and record.
"""

from __future__ import annotations

from collections.abc import Callable

from proa._core import Tensor, ops


def associative_scan(
    parts: tuple[Tensor, ...],
    axis: int,
    join: Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], tuple[Tensor, ...]],
) -> tuple[Tensor, ...]:
    """The scan of ``join(earlier, later)``, an associative function, along an axis."""
    n, reach = parts[0].shape[axis], 1

    def cut(x: Tensor, start: int, end: int) -> Tensor:
        return ops.slice(x, axes=[axis], starts=[start], ends=[end], steps=[1])

    while reach < n:
        earlier = tuple(cut(p, 0, n - reach) for p in parts)
        later = tuple(cut(p, reach, n) for p in parts)
        joined = join(earlier, later)
        parts = tuple(
            ops.concat(cut(p, 0, reach), j, axis=axis)
            for p, j in zip(parts, joined, strict=True)
        )
        reach *= 2
    return parts
