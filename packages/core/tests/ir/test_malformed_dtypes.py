"""Models whose nodes are given arrays of dtypes that do not go together: a kernel that
took float64 for float32, or a float for an index, would leave its memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from proa import _core
from proa.errors import Error, InvalidArgumentError
from proa.ir import Builder, to_bytes


class Case(NamedTuple):
    """A call that is right, and which of its arrays may not have other dtypes."""

    op: str
    arrays: list[tuple[str, list[int]]]
    checked: tuple[int, ...]
    attributes: dict[str, Any]


F, INDEX = "float32", "int64"
X, V = (F, [2, 4, 3]), (F, [4])
IGNORED = {"ignore_index": -100}
#: Neither floats of the precision of float32, nor indices.
WRONG = ("float64", "int8", "complex64", "bool")

CASES = [
    Case("batch_norm", [X, V, V], (1, 2), {}),
    Case("batch_norm_infer", [X, V, V, V, V], (1, 2, 3, 4), {}),
    Case("batch_norm_grad", [X, X, V, V, V], (0, 2, 3, 4), {"epsilon": 1e-5}),
    Case(
        "batch_norm_relu_grad",
        [X, X, V, V, V, V],
        (0, 2, 3, 4, 5),
        {"epsilon": 1e-5},
    ),
    Case("channel_moments", [X, V], (1,), {}),
    Case("normalise_by", [(F, [2, 4]), V, V, V], (1, 2, 3), {}),
    Case("layer_norm", [X, (F, [3]), (F, [3])], (1, 2), {"axes": 1}),
    Case(
        "layer_norm_grad",
        [X, X, (F, [2, 4]), (F, [2, 4]), (F, [3])],
        (0, 2, 3, 4),
        {"axes": 1, "epsilon": 1e-5},
    ),
    Case("group_norm", [X, V, V], (1, 2), {"groups": 2}),
    Case(
        "group_norm_grad",
        [X, X, (F, [2, 2]), (F, [2, 2]), V],
        (0, 2, 3, 4),
        {"groups": 2, "epsilon": 1e-5},
    ),
    Case("squared_norm", [X, V], (1,), {}),
    Case("gather", [X, (INDEX, [5])], (1,), {"axis": 1}),
    Case("gather_grad", [(F, [2, 5, 3]), (INDEX, [5]), X], (1,), {"axis": 1}),
    Case("gather_nd", [X, (INDEX, [5, 2])], (1,), {}),
    Case("scatter_nd_like", [(F, [5, 3]), (INDEX, [5, 2]), X], (1,), {}),
    Case("index_put", [X, (INDEX, [5, 2]), (F, [5, 3])], (1, 2), {}),
    Case("take_along_axis", [X, (INDEX, [2, 4, 1])], (1,), {"axis": 2}),
    Case(
        "take_along_axis_grad",
        [(F, [2, 4, 1]), (INDEX, [2, 4, 1]), X],
        (1,),
        {"axis": 2},
    ),
    Case(
        "put_along_axis", [X, (INDEX, [2, 4, 1]), (F, [2, 4, 1])], (1, 2), {"axis": 2}
    ),
    Case(
        "scatter_add_axis", [X, (INDEX, [2, 4, 1]), (F, [2, 4, 1])], (1, 2), {"axis": 2}
    ),
    Case("embedding_grad", [(INDEX, [5]), (F, [5, 3]), (F, [4, 3])], (1,), {}),
    Case("softmax_cross_entropy", [(INDEX, [5]), (F, [5, 3])], (1,), {}),
    Case(
        "softmax_cross_entropy_grad",
        [(INDEX, [5]), (F, [5]), (F, [5, 3])],
        (1, 2),
        IGNORED,
    ),
    Case("label_gather", [(INDEX, [5]), (F, [5, 3])], (1,), IGNORED),
    Case("label_scatter", [(INDEX, [5]), (F, [5]), (F, [5, 3])], (1, 2), IGNORED),
    Case("label_mask", [(INDEX, [5]), (F, [3])], (1,), IGNORED),
    Case("pool_gather", [(F, [1, 2, 4, 4]), ("int32", [1, 2, 2, 2])], (1,), {}),
    Case(
        "pool_scatter",
        [(F, [1, 2, 2, 2]), ("int32", [1, 2, 2, 2]), (F, [1, 2, 4, 4])],
        (1,),
        {},
    ),
]
#: Of these, floats of another precision are valid.
WIDENED = {("softmax_cross_entropy", 1), ("label_gather", 1), ("squared_norm", 1)}
WIDENED.add(("label_mask", 1))


def wrong_calls() -> list[Any]:
    calls = []
    for case in CASES:
        for i in case.checked:
            for dtype in WRONG:
                if dtype == "float64" and (case.op, i) in WIDENED:
                    continue
                name = f"{case.op}-{i}-{dtype}"
                calls.append(pytest.param(case, i, dtype, id=name))
    return calls


def model(case: Case, changed: int = -1, dtype: str = "") -> bytes:
    """A file of the call, whose array `changed` says that its dtype is another."""
    b = Builder()
    values = [b.input(f"x{i}", d, s) for i, (d, s) in enumerate(case.arrays)]
    b.output(*b.node(case.op, values, case.attributes).outputs)
    if changed >= 0:
        b.program.main.inputs[changed].dtype = dtype
    return to_bytes(b.program)


@pytest.mark.parametrize("case", CASES, ids=[case.op for case in CASES])
def test_a_model_of_the_right_dtypes_runs(case: Case) -> None:
    engine = _core.Engine.from_bytes(model(case))
    engine.run([np.ones(s, d) for d, s in case.arrays])


@pytest.mark.parametrize(("case", "changed", "dtype"), wrong_calls())
def test_a_model_of_dtypes_that_do_not_go_together_is_refused(
    case: Case, changed: int, dtype: str
) -> None:
    raw = model(case, changed, dtype)
    with pytest.raises(InvalidArgumentError, match=case.op):
        _core.Engine.from_bytes(raw)


def test_randint_of_a_model_generates_no_complex_numbers() -> None:
    b = Builder()
    attributes = {"shape": [64], "low": 0, "high": 9, "seed": 1, "offset": 0}
    node = b.node("randint", [], attributes | {"dtype": "int64"})
    b.output(*node.outputs)
    _core.Engine.from_bytes(to_bytes(b.program))
    node.attrs["dtype"] = "complex128"
    node.outputs[0].dtype = "complex128"
    with pytest.raises(Error, match="dtype"):
        _core.Engine.from_bytes(to_bytes(b.program))
