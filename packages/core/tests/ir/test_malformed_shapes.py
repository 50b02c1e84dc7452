"""Models whose nodes are given arrays of shapes that do not go together: kernels
rely on what shape rules check, and would otherwise read outside of their memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from proa import _core
from proa.errors import InvalidArgumentError
from proa.ir import Builder, to_bytes

Shapes = list[list[int]]


class Case(NamedTuple):
    """A call that is right, and other shapes of its arrays that are not."""

    op: str
    right: Shapes
    wrong: list[Shapes]
    attributes: dict[str, Any]


CASES = [
    Case(
        "expand_reduced",
        [[2, 1], [2, 3]],
        [[[2, 0], [2, 3]], [[2, 2], [2, 3]], [[2, 3], [2, 3]], [[2], [2, 3]]],
        {"axis": [1], "keepdim": True},
    ),
    Case(
        "expand_reduced",
        [[1, 1, 4], [2, 3, 4]],
        [[[1, 0, 4], [2, 3, 4]], [[0, 1, 4], [2, 3, 4]], [[1, 2, 4], [2, 3, 4]]],
        {"axis": [0, 1], "keepdim": True},
    ),
    Case(
        "mean_grad",
        [[2, 1], [2, 3]],
        [[[2, 0], [2, 3]], [[2, 2], [2, 3]]],
        {"axis": [1], "keepdim": True},
    ),
]
EACH_WRONG = [
    pytest.param(case, shapes, id=f"{case.op}-{shapes}")
    for case in CASES
    for shapes in case.wrong
]


def model(case: Case, stated: Shapes, given: Shapes) -> bytes:
    """A file of a call on inputs of shapes `stated`, which it says are `given`."""
    b = Builder()
    names = [f"x{i}" for i in range(len(stated))]
    values = [b.input(n, "float32", s) for n, s in zip(names, stated, strict=True)]
    b.output(*b.node(case.op, values, case.attributes).outputs)
    for value, shape in zip(b.program.main.inputs, given, strict=True):
        value.shape = tuple(shape)
    return to_bytes(b.program)


@pytest.mark.parametrize(("case", "shapes"), EACH_WRONG)
def test_a_model_of_shapes_that_do_not_go_together_is_refused(
    case: Case, shapes: Shapes
) -> None:
    raw = model(case, case.right, shapes)
    with pytest.raises(InvalidArgumentError, match=case.op):
        _core.Engine.from_bytes(raw)


@pytest.mark.parametrize(("case", "shapes"), EACH_WRONG)
def test_shapes_known_at_run_time_alone_are_checked_then(
    case: Case, shapes: Shapes
) -> None:
    open_ = [[-1] * len(s) for s in case.right]
    engine = _core.Engine.from_bytes(model(case, open_, open_))
    engine.run([np.ones(s, np.float32) for s in case.right])
    with pytest.raises(InvalidArgumentError):
        engine.run([np.ones(s, np.float32) for s in shapes])
