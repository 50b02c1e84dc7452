"""Records of the matrix products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..sample import Sample, case


def activated(act: str, v: Any) -> Any:
    """The fused activations, by name."""
    erf = np.vectorize(math.erf, otypes=[float])
    functions = {
        "none": lambda x: x,
        "relu": lambda x: np.maximum(x, 0),
        "relu6": lambda x: np.clip(x, 0, 6),
        "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
        "hard_sigmoid": lambda x: np.clip(x * 0.1666667 + 0.5, 0, 1),
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "tanh": np.tanh,
        "gelu": lambda x: x / 2 * (1 + (erf(x / math.sqrt(2)) if x.size else x)),
        "silu": lambda x: x / (1 + np.exp(-x)),
    }
    return functions[act](v)


ACTS = ["none", "relu", "relu6", "hard_swish", "hard_sigmoid"]
ACTS += ["sigmoid", "tanh", "gelu", "silu"]


def _linear(x: Any, w: Any, bias: Any = None) -> Any:
    y = x @ w
    return y if bias is None else y + bias


def _linear_act(
    x: Any, w: Any, bias: Any = None, residual: Any = None, *, act: str
) -> Any:
    y = _linear(x, w, bias)
    return activated(act, y if residual is None else y + residual)


def _leading(x: Any) -> Any:
    return x.reshape(-1, x.shape[-1])


Sample(
    "matmul",
    ref=np.matmul,
    cases=[
        case((3, 4), (4, 5)),
        case((2, 3, 4), (4, 2)),
        case((2, 1, 3, 4), (5, 4, 2)),
        case((2, 1, 3, 4), (0, 4, 2)),
        case((15, 17), (17, 33)),
        case((2, 0), (0, 3)),
        case((0, 2), (2, 3)),
        case((1, 300), (300, 2)),
    ],
    grad_cases=[
        case((3, 4), (4, 2)),
        case((2, 3, 4), (4, 2)),
        case((1, 3, 2), (2, 2, 3)),
    ],
)
Sample(
    "linear",
    ref=_linear,
    cases=[
        case((3, 4), (4, 5), (5,)),
        case((2, 3, 4), (4, 5), None),
        case((0, 4), (4, 2), (2,)),
        case((16, 33), (33, 17), (17,)),
    ],
    grad_cases=[case((3, 4), (4, 2), (2,)), case((2, 2, 3), (3, 2), None)],
)
Sample(
    "linear_grad_weight",
    ref=lambda x, dy: _leading(x).T @ _leading(dy),
    cases=[case((5, 4), (5, 3)), case((2, 3, 4), (2, 3, 7)), case((0, 4), (0, 3))],
    grad_cases=[case((3, 2), (3, 2)), case((2, 2, 2), (2, 2, 3))],
)
Sample(
    "sum_leading",
    ref=lambda x: x.sum(axis=tuple(range(x.ndim - 1))),
    cases=[case((5,)), case((4, 3)), case((2, 3, 5)), case((0, 3))],
)
Sample(
    "linear_act",
    ref=_linear_act,
    cases=[case((3, 5), (5, 4), (4,), (3, 4), act=act) for act in ACTS]
    + [case((2, 3, 5), (5, 17), None, None, act="relu")],
)
