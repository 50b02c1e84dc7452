"""Sums that formats express by other operators."""

from __future__ import annotations

import numpy as np

from proa.interop.exporter.call import Call
from proa.interop.exporter.target import Ref
from proa.ir.program import Array


def summed_axes(call: Call, x: Ref, like: Ref) -> tuple[list[int], list[int]]:
    """The axes of x that `sum_to` sums to one element, and those that it removes."""
    assert x.shape is not None and like.shape is not None
    lead = x.rank - like.rank
    pairs = list(zip(x.shape[lead:], like.shape, strict=True))
    if any(-1 in pair for pair in pairs):
        call.refuse("sums to a shape of symbolic sizes")
    broadcast = [i + lead for i, (n, m) in enumerate(pairs) if m == 1 and n != 1]
    return broadcast, list(range(lead))


def window_matrix(call: Call, like: Ref, axis: int, size: int, step: int, dilation: int
                  ) -> Array:  # fmt: skip
    """(windows * size, n) with a one where an element of a window belongs.

    The gradient of windows is a product with it.
    """
    n = call.size(like, axis)
    if not isinstance(n, int):
        call.refuse("windows put together along a symbolic dimension")
    count = (n - (size - 1) * dilation - 1) // step + 1
    matrix = np.zeros((count, size, n))
    windows, elements = np.arange(count)[:, None], np.arange(size)
    matrix[windows, elements, windows * step + elements * dilation] = 1.0
    return matrix.reshape(count * size, n)
