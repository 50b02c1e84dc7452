"""Control flow: branches and loops, whose blocks are graphs among the attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proa
from proa.interop.graph.values import as_tensor, is_symbolic
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op
from proa.jit.control_flow import cond, while_loop


class _Later:
    """What a branch makes of a variable that had no value before.

    Whether the branch is taken is not known while a graph is recorded; the operator
    `select_input` has the other branch's value too.
    """

    def __init__(self, outputs: Callable[[], list[Any]], at: int) -> None:
        self._outputs, self._at = outputs, at

    def value(self) -> Any:
        """The value, if the branch is taken."""
        return as_tensor(self._outputs()[self._at])


def _value(thing: Any) -> Any:
    return thing.value() if isinstance(thing, _Later) else thing


@paddle_op("conditional_block", inputs="X*", outputs="Out*", folds=False)
def conditional_block(call: Call, values: list[Any]) -> Any:
    """A block run if a condition holds; else its variables stay what they were."""
    condition, *before = values
    body = call.get("sub_block")
    if not is_symbolic(condition):
        return (call.run(body) if call.number(condition) else before,)
    outputs = call.later(body)
    if any(value is None for value in before):
        return ([_Later(outputs, i) for i in range(len(before))],)
    found = cond(
        proa.reshape(condition, [1]),
        lambda: [as_tensor(v) for v in outputs()],
        lambda: [as_tensor(v) for v in before],
    )
    return (list(found) if isinstance(found, (list, tuple)) else [found],)


@paddle_op("select_input", inputs="X* Mask", folds=False)
def select_input(call: Call, values: list[Any], mask: Any) -> Any:
    if not is_symbolic(mask):
        return values[int(call.number(mask))]
    first, second = values
    taken = proa.cast(proa.reshape(mask, [1]), "bool")
    return cond(taken, lambda: _value(second), lambda: _value(first))


@paddle_op("while", inputs="X*", outputs="Out*", folds=False)
def loop(call: Call, values: list[Any]) -> Any:
    """A block run as long as its first variable, the condition, holds."""
    body = call.get("sub_block")
    while not is_symbolic(values[0]):
        if not call.number(values[0]):
            return (values,)
        values = call.run(body, values)
    tensors = [as_tensor(v) for v in values]
    if any(v is None or isinstance(v, list) for v in tensors):
        raise call.refuse("arrays and a number of rounds that is not known")
    shape = tensors[0].shape

    def step(test: Any, *carried: Any) -> list[Any]:
        found = [as_tensor(v) for v in call.run(body, [test.reshape(shape), *carried])]
        return [proa.reshape(found[0], [1]), *found[1:]]

    tensors[0] = proa.reshape(tensors[0], [1])
    found = while_loop(lambda test, *_: test, step, tensors)
    return ([proa.reshape(found[0], shape), *found[1:]],)
