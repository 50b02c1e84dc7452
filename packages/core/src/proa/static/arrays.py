"""Lists of Variables whose places follow from data, as `array_write` has them.

Such a list is one Variable with an axis more, its stack. Bodies of loops and branches
change it in place: it is made in front of the outermost body that is inside the block
in which the list was made, so that the loop carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from proa import _core
from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.jit.control_flow import cond
from proa.static.program import Program
from proa.static.recorder import ProgramRecorder
from proa.tensor.array import ArrayStore, TensorArray
from proa.tensor.symbolic_dims import number_of

#: Added to a place that a run is to refuse.
_BEYOND = 1 << 40


def read(program: Program, array: TensorArray, i: Tensor) -> Tensor:
    """The entry at a place; runs refuse a place that is none."""
    if (store := _store_of(program, array)) is not None:
        return store.read(i)
    stack = _stack_of(program, array, None)
    found = ops.gather(stack, _place(i), axis=0)
    return ops.squeeze(found, axis=[0])


def length(program: Program, array: TensorArray) -> Tensor:
    """How many entries there are, int64 (1,)."""
    if array.store is not None:
        return array.store.length()
    if array.stack is None:
        return ops.full(shape=[1], value=len(array), dtype="int64")
    return count_rows(array.stack)


def write(program: Program, x: Tensor, i: Tensor, array: TensorArray) -> None:
    """Put x at a place, which may be the one after the last.

    Raises:
        InvalidArgumentError: If x has another dtype or another number of axes than the
            other entries.
    """
    if (store := _store_of(program, array)) is not None:
        store.write(x, i)
        return
    stack = _stack_of(program, array, x)
    if (x.dtype, x.ndim + 1) != (stack.dtype, stack.ndim):
        raise InvalidArgumentError(
            f"[array_write] entries of an array must be {stack.dtype.name} with "
            f"{stack.ndim - 1} axes, got {x.dtype.name} with {x.ndim}"
        )
    count, place, entry = count_rows(stack), _place(i), ops.unsqueeze(x, axis=[0])

    def replaced() -> Tensor:
        return ops.index_put(stack, ops.unsqueeze(place, axis=[1]), entry)

    def appended() -> Tensor:
        excess = ops.mul(ops.cast(ops.not_equal(place, count), dtype="int64"), _BEYOND)
        own = ops.gather(entry, excess, axis=0)
        tensor: Tensor = cond(
            ops.equal(count, 0), lambda: own, lambda: ops.concat(stack, own, axis=0)
        )
        return tensor

    result = cond(ops.less_than(place, count), replaced, appended)
    program.recorder.value_of(stack)  # which a body around may have to carry
    _core.rebind_symbol(stack, result)


def _place(i: Tensor) -> Tensor:
    return ops.cast(ops.reshape(i, shape=[1]), dtype="int64")


def count_rows(stack: Tensor) -> Tensor:
    size = ops.cast(number_of(stack.shape[0]), dtype="int64")
    return ops.reshape(size, shape=[1])


def _store_of(program: Program, array: TensorArray) -> ArrayStore | None:
    make = program.recorder.make_store
    if array.store is None and array.stack is None and array and make is not None:
        array.store = make(program, array)
        array.clear()
    return array.store


def _stack_of(program: Program, array: TensorArray, like: Tensor | None) -> Tensor:
    """The stack, which is made if there is none.

    Args:
        like: An entry, if it is known.
    """
    if array.stack is not None:
        return array.stack
    if not array and like is None:
        raise InvalidArgumentError(
            "[array_read] expected an array with an entry, got one that nothing was "
            "written to"
        )

    def begun() -> Tensor:
        if array:
            return ops.stack(*array, axis=0)
        assert like is not None
        shape = [0, *(max(int(n), 0) for n in like.shape)]
        return ops.full(shape=shape, value=0, dtype=like.dtype)

    array.stack = hoisted(program.recorder, array.depth, begun)
    array.clear()
    return array.stack


def hoisted(
    recorder: ProgramRecorder, depth: int, make: Callable[[], Tensor]
) -> Tensor:
    """A Variable that is made in front of bodies deeper than this, which may assign it
    from round to round.
    """
    with _outside(recorder, depth):
        result = make()
        if not result._is_symbolic:
            (result,) = recorder("assign", [result], {})
    for body in recorder.bodies[depth:]:
        body.adopt(result)
    return result


@contextmanager
def _outside(recorder: ProgramRecorder, depth: int) -> Iterator[None]:
    """While open, nodes are added in front of bodies deeper than this."""
    bodies = recorder.bodies
    taped = _core.is_grad_enabled() or (recorder.needs_tape and not depth)
    enabled = _core.set_grad_enabled(taped)
    recorder.bodies = bodies[:depth]
    try:
        yield
    finally:
        recorder.bodies = bodies
        _core.set_grad_enabled(enabled)
