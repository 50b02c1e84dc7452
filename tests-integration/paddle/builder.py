"""What the cases of `reference.py` are made with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from paddle import static

Arrays = dict[str, Any]
Build = Callable[..., Any]
#: name: inputs, and what makes outputs of their variables
CASES: dict[str, tuple[Arrays, Build]] = {}


class Rows:
    """Rows of sequences, with lengths by level."""

    def __init__(self, array: Any, lengths: list[list[int]]) -> None:
        self.array, self.lengths = array, lengths


rng = np.random.default_rng(0)


def f(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def ints(high: int, *shape: int) -> Any:
    return rng.integers(0, high, shape).astype(np.int64)


def case(name: str, inputs: Any, build: Build) -> None:
    given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    CASES[name] = ({f"x{i}": a for i, a in enumerate(given)}, build)


def op(kind: str, inputs: Any, attrs: Any, *outputs: Any) -> Any:
    """An operator by its name in programs; outputs are (slot, dtype)."""
    block = static.default_main_program().current_block()
    results = {
        slot: [
            block.create_var(name=paddle.utils.unique_name.generate(kind), dtype=dtype)
        ]
        for slot, dtype in outputs
    }
    block.append_op(
        type=kind,
        inputs={k: v if isinstance(v, list) else [v] for k, v in inputs.items()},
        outputs=results, attrs=attrs,
    )  # fmt: skip
    found = [results[slot][0] for slot, _ in outputs]
    return found[0] if len(found) == 1 else found


def simple(kind: str, x: Any, dtype: str = "float32", **attrs: Any) -> Any:
    return op(kind, {"X": x}, attrs, ("Out", dtype))


def weight(*shape: int, value: Any = None) -> Any:
    array = f(*shape) if value is None else value
    return static.create_parameter(
        list(array.shape), str(array.dtype),
        default_initializer=paddle.nn.initializer.Assign(array),
    )  # fmt: skip


IMAGE = f(2, 4, 9, 10)
