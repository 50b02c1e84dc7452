"""GPTQ: rounding weights one input after the other, on the inputs that data have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from proa.ir.program import Array, Program, Value
from proa_slim.quant.input_check import require_finite
from proa_slim.quant.interpret import interpret
from proa_slim.quant.lower import quantizable

_Real = NDArray[np.float64]


def gptq(
    weight: Array, scale: Array, hessian: Array, low: int, high: int, damp: float = 0.01
) -> NDArray[np.int8]:
    """Integers q with a small sum of ((q * scale - weight) @ x)^2 over the data.

    After input i is rounded, its error is spread over the inputs after it by the
    inverse Hessian of that sum (Frantar et al., 2023, without blocks):
    w[:, j] -= (w[:, i] - q[:, i] * scale[:, i]) / U[i, i] * U[i, j], with U the upper
    Cholesky factor of H^-1.

    Args:
        weight: (out, in).
        scale: Scale of each weight, (out, in).
        hessian: H = sum x x^T, (in, in).
        low: The smallest integer, likewise `high`.
        damp: Share of the mean of H's diagonal that is added to the diagonal.
    """
    left = np.array(weight, np.float64)
    h = np.array(hessian, np.float64)
    diagonal = np.arange(len(h))
    unused = h[diagonal, diagonal] == 0
    h[unused, unused] = 1.0
    h[diagonal, diagonal] += damp * h[diagonal, diagonal].mean()
    upper: _Real = np.linalg.cholesky(np.linalg.inv(h)).T
    whole = np.zeros(left.shape, np.int8)
    for i in range(left.shape[1]):
        whole[:, i] = np.clip(np.rint(left[:, i] / scale[:, i]), low, high)
        error = (left[:, i] - whole[:, i] * scale[:, i]) / upper[i, i]
        left[:, i + 1 :] -= np.outer(error, upper[i, i + 1 :])
    return whole


def hessians(program: Program, batches: Sequence[Sequence[Array]]) -> dict[str, Array]:
    """sum x x^T of the inputs of each linear layer and ungrouped 1 x 1 convolution, by
    the name of its result.

    Raises:
        InvalidArgumentError: If a batch has a value that is not finite, or makes a
            result so.
    """
    readers: dict[Value, list[tuple[str, bool]]] = {}
    for node in program.main.nodes:
        x, weight = (*node.inputs, None, None)[:2]
        if x is None or weight is None or not quantizable(node):
            continue
        pointwise = len(weight.shape) == 4 and weight.shape[2:] == (1, 1)
        if len(weight.shape) == 2 or (pointwise and node.attrs["groups"] == 1):
            readers.setdefault(x, []).append((node.outputs[0].name, pointwise))
    found: dict[str, Array] = {}

    for number, batch in enumerate(batches):

        def watch(value: Value, array: Array, number: int = number) -> None:
            require_finite(value, array, number, "quant_post_dynamic")
            for name, pointwise in readers.get(value, ()):
                rows = np.moveaxis(array, 1, -1) if pointwise else array
                rows = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
                found[name] = found.get(name, 0.0) + rows.T @ rows

        interpret(program, batch, watch)
    return found
