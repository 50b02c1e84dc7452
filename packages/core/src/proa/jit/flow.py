"""Branches and loops recorded as blocks of a program.

Their parts are Python functions, called once with symbols that represent what a block
is given. What a part changes in place of the function around it becomes a result of the
branch, or is carried by the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from proa import _core
from proa.base.naming import mark_names
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.ir.body import Body
from proa.ir.builder import make_node
from proa.ir.flow import merged
from proa.ir.program import Node, Value
from proa.ir.record import Recorder, current_recorder
from proa.jit.companions import loop_with_companions
from proa.jit.flow_gradients import FlowCall
from proa.jit.pytree import flatten, is_tensor, unflatten

Function = Callable[..., Any]


def is_symbolic(thing: Any) -> bool:
    """Whether it is a tensor that represents a value of a program being recorded."""
    return is_tensor(thing) and bool(thing._is_symbolic)


@dataclass
class _RecordedBody:
    """A function that was recorded as a body.

    Attributes:
        outputs: The body's values that the function returned.
        treedef: How tensors made its result.
        changed: Tensors of the function around, with the values that each had
            before and after.
        companions: Of a branch, those of each tensor of its result.
    """

    body: Body
    outputs: list[Value]
    treedef: Any
    changed: list[tuple[Any, Value, Value]]
    companions: list[list[Value]]


@contextmanager
def _off_tape(recorder: Recorder) -> Iterator[None]:
    enabled = _core.set_grad_enabled(False)
    before, recorder.needs_tape = recorder.needs_tape, recorder.needs_tape or enabled
    try:
        yield
    finally:
        recorder.needs_tape = before
        _core.set_grad_enabled(enabled)


@dataclass
class _Carried:
    """What a loop gives from round to round.

    Attributes:
        values: In the block around, of the first round.
        treedef: How tensors make the loop's variables; the rest are changed in place.
        changed: These tensors, with the values that they had before the loop.
    """

    values: list[Value]
    treedef: Any
    shapes: list[tuple[int, ...]]
    changed: list[tuple[Any, Value]] = field(default_factory=list)


@contextmanager
def _counted(recorder: Recorder, is_loop: bool) -> Iterator[None]:
    recorder.loops += is_loop
    try:
        yield
    finally:
        recorder.loops -= is_loop


def _recorded(
    recorder: Recorder, function: Function, carried: _Carried | None
) -> _RecordedBody:
    """Call the function in a body, with what a loop carries."""
    with recorder.body() as body, _counted(recorder, carried is not None):
        arguments: Sequence[Any] = ()
        if carried is not None:
            inputs = [
                body.carry(v.dtype, shape)
                for v, shape in zip(carried.values, carried.shapes, strict=True)
            ]
            count = len(inputs) - len(carried.changed)
            symbols = [recorder.symbol(v) for v in inputs[:count]]
            arguments = unflatten(symbols, carried.treedef)
            for (tensor, _), value in zip(carried.changed, inputs[count:], strict=True):
                recorder.rebind(tensor, value)
        try:
            result = function(*arguments)
            leaves, treedef = flatten(result, is_tensor)
            outputs = [recorder.value_of(t) for t in leaves]
            companions: list[list[Value]] = []
            if carried is None:
                own = map(recorder.companions, leaves)
                companions = [[recorder.value_of(c) for c in cs] for cs in own]
            del result, leaves
            if carried is not None:
                outputs += [recorder.value_of(t) for t, _ in carried.changed]
        finally:
            for tensor, before in carried.changed if carried is not None else ():
                recorder.rebind(tensor, before)
            changed = body.changed()
            for tensor, before, _ in changed:
                recorder.rebind(tensor, before)
    return _RecordedBody(body, outputs, treedef, changed, companions)


def _operands(parts: Sequence[_RecordedBody]) -> list[Value]:
    """What the bodies read of the block around, which becomes an input of each."""
    values = list(dict.fromkeys(v for part in parts for v in part.body.given))
    for part in parts:
        part.body.block.inputs += [part.body.local(v) for v in values]
    return values


def _block(recorder: Recorder, part: _RecordedBody, outputs: list[Value]) -> int:
    part.body.block.outputs = outputs
    recorder.program.blocks.append(part.body.block)
    return len(recorder.program.blocks) - 1


def _merged(a: tuple[int, ...], b: tuple[int, ...], what: str) -> tuple[int, ...]:
    if len(a) != len(b):
        raise InvalidArgumentError(
            f"{what} must have the same number of axes, got shapes {a} and {b}"
        )
    return merged(a, b)


def _check_dtypes(a: Value, b: Value, what: str) -> None:
    if a.dtype != b.dtype:
        raise InvalidTypeError(
            f"{what} must have one dtype, got {a.dtype} and {b.dtype}"
        )


def _check_treedefs(a: Any, b: Any, what: str) -> None:
    if repr(a) != repr(b):
        raise InvalidTypeError(
            f"{what} must have one pytree structure and equal values other than "
            f"tensors, got {_shown(a)} and {_shown(b)}"
        )


def _shown(treedef: Any) -> Any:
    """A structure for people, with its tensors as `Tensor`."""
    if "leaf" in treedef:
        return "Tensor"
    ((kind, content),) = treedef.items()
    if kind == "dict":
        return {key: _shown(p) for key, p in content}
    if kind in ("list", "tuple"):
        parts = [_shown(p) for p in content]
        return parts if kind == "list" else tuple(parts)
    return content


def _append(
    recorder: Recorder, op: str, inputs: list[Value], attrs: dict[str, int]
) -> Node:
    node = make_node(recorder.program, op, inputs, {**attrs})
    recorder.append(node)
    return node


def _condition(recorder: Recorder, pred: Any, where: str) -> Value:
    if not is_tensor(pred):
        raise InvalidTypeError(
            f"[{where}] a condition must be a Tensor, got {type(pred).__name__}"
        )
    return _checked(recorder.value_of(pred), where)


def _checked(value: Value, where: str) -> Value:
    """The value, if it can be a condition."""
    if value.dtype != "bool":
        raise InvalidTypeError(f"[{where}] a condition must be bool, got {value.dtype}")
    if any(d not in (1, -1) for d in value.shape):
        raise InvalidArgumentError(
            f"[{where}] a condition must have one element, got shape {value.shape}"
        )
    return value


def cond(pred: Any, true_fn: Function, false_fn: Function) -> Any:
    """Record ``true_fn() if pred else false_fn()``.

    Args:
        pred: A symbol, bool, of one element.
        true_fn, false_fn: Called once each, without arguments. What they return must
            have one structure and equal values other than tensors; a size that differs
            becomes symbolic.

    Raises:
        InvalidTypeError: If pred is not bool, or structures or dtypes differ.
        InvalidArgumentError: If pred has several elements, or numbers of axes differ.
    """
    recorder = _recorder("cond")
    predicate = _condition(recorder, pred, "cond")
    with _off_tape(recorder):
        parts = [_recorded(recorder, f, None) for f in (true_fn, false_fn)]
    then, other = parts
    _check_treedefs(then.treedef, other.treedef, "[cond] what both branches return")
    companions = _common(then, other)
    # Tensors that either branch changed are results too.
    before = {id(t): (t, v) for part in parts for t, v, _ in part.changed}
    for part in parts:
        after = {id(t): v for t, _, v in part.changed}
        part.outputs += [
            part.body.local(after.get(key, v)) for key, (_, v) in before.items()
        ]
    for i, (a, b) in enumerate(zip(then.outputs, other.outputs, strict=True)):
        what = f"[cond] tensors {i} of both branches"
        _check_dtypes(a, b, what)
        _merged(a.shape, b.shape, what)
    operands = _operands(parts)
    attrs = {
        "then_block": _block(recorder, then, then.outputs),
        "else_block": _block(recorder, other, other.outputs),
    }
    inputs = [predicate, *map(recorder.local, operands)]
    node = _append(recorder, "branch", inputs, attrs)
    arrays = [pred, *_tensors_of(recorder, operands, parts)]
    changed = [tensor for tensor, _ in before.values()]
    results = _results(recorder, node, arrays, changed)
    result = unflatten(results, then.treedef)
    count = len(results) - sum(companions.values())
    for place, own in companions.items():
        recorder.accompany(results[place], results[count : count + own])
        count += own
    return result


def _common(then: _RecordedBody, other: _RecordedBody) -> dict[int, int]:
    """How many companions each result has that both branches give some; they become
    outputs of both.
    """
    pairs = list(zip(then.companions, other.companions, strict=True))
    found = {i: len(a) for i, (a, b) in enumerate(pairs) if 0 < len(a) == len(b)}
    for part in (then, other):
        part.outputs += [v for i in found for v in part.companions[i]]
    return found


def while_loop(
    condition: Function, body: Function, loop_vars: Sequence[Any]
) -> list[Any]:
    """Record a loop as `recorded_loop` does, which also carries what accompanies what
    it carries: a sequence's lengths.
    """
    recorder = _recorder("while_loop")
    if not recorder.has_companions:
        return recorded_loop(condition, body, loop_vars)
    return loop_with_companions(recorder, recorded_loop, condition, body, loop_vars)


def rehearsed(function: Callable[[], Any]) -> None:
    """Call a function as the body of a branch that is not kept.

    For what must know, before it records a loop, what the loop's body reads.
    """
    recorder, restart_names = _recorder("rehearsed"), mark_names()
    with _off_tape(recorder):
        _recorded(recorder, function, None)
    restart_names()


def recorded_loop(
    condition: Function, body: Function, loop_vars: Sequence[Any]
) -> list[Any]:
    """Record ``loop_vars = body(*loop_vars)`` while ``condition(*loop_vars)`` holds.

    Args:
        condition: Gives a bool of one element that follows from symbols.
        body: Gives as many values as it takes, of the same structure and dtypes, with
            equal values other than tensors; a size that differs becomes symbolic, and
            the functions are then called again.
        loop_vars: The values of the first round; tensors may be nested in lists, tuples
            and dictionaries.

    Returns:
        The values after the last round.

    Raises:
        InvalidTypeError: If the condition is not bool, or structures or dtypes differ.
        InvalidArgumentError: If the condition has several elements or is the same in
            every round, or numbers of axes differ.
    """
    leaves, treedef = flatten(list(loop_vars), is_tensor)
    recorder = _recorder("while_loop")
    with _off_tape(recorder):
        values = [recorder.enter(t) for t in leaves]
        carried = _Carried(values, treedef, [v.shape for v in values])
        restart_names = mark_names()
        while True:
            restart_names()
            test = _recorded(recorder, condition, carried)
            if test.changed:
                raise InvalidArgumentError(
                    "[while_loop] a condition must change no tensor in place, "
                    f"got {test.changed[0][1]}"
                )
            result = _recorded(recorder, _as_list(body), carried)
            if _settled(carried, result, recorder):
                break
    predicate = _result_of_test(test)
    operands = _operands([test, result])
    attrs = {
        "cond_block": _block(recorder, test, [predicate]),
        "body_block": _block(recorder, result, result.outputs),
        "carried": len(carried.values),
    }
    inputs = [*carried.values, *map(recorder.local, operands)]
    node = _append(recorder, "loop", inputs, attrs)
    changed = [tensor for tensor, _ in carried.changed]
    arrays = [*leaves, *changed, *_tensors_of(recorder, operands, [test, result])]
    return list(unflatten(_results(recorder, node, arrays, changed), treedef))


def _tensors_of(
    recorder: Recorder, values: Sequence[Value], parts: Sequence[_RecordedBody]
) -> list[Any]:
    """The tensors that stood for values that bodies read."""
    seen = {value: tensor for part in parts for tensor, value in part.body.seen()}
    return [
        seen[v] if v in seen else _core.symbol(list(v.shape), v.dtype, (recorder, v))
        for v in values
    ]


def _results(
    recorder: Recorder, node: Node, arrays: list[Any], changed: list[Any]
) -> list[Any]:
    """Symbols of what a branch or loop returns; what it changed stands for the rest."""
    results = [recorder.symbol(v) for v in node.outputs]
    if recorder.run_block is not None:
        call = FlowCall(
            recorder.program, node, arrays, results, recorder.run_block, cond,
            while_loop,
        )  # fmt: skip
        results = call.on_tape()
    count = len(results) - len(changed)
    for tensor, result in zip(changed, results[count:], strict=True):
        _core.rebind_symbol(tensor, result)
    return results[:count]


def _recorder(where: str) -> Recorder:
    recorder = current_recorder()
    if recorder is None:
        raise InvalidArgumentError(
            f"[{where}] expected a program that is being recorded, got none"
        )
    return recorder


def _as_list(body: Function) -> Function:
    def called(*arguments: Any) -> list[Any]:
        result = body(*arguments)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    return called


def _result_of_test(test: _RecordedBody) -> Value:
    if len(test.outputs) < 1 or "leaf" not in test.treedef:
        raise InvalidTypeError(
            f"[while_loop] a condition must be a Tensor, got {_shown(test.treedef)}"
        )
    predicate = _checked(test.outputs[0], "while_loop")
    if predicate.is_constant:
        raise InvalidArgumentError(
            "[while_loop] a condition must depend on what the loop changes, got one "
            "that is the same in every round"
        )
    return predicate


def _settled(carried: _Carried, body: _RecordedBody, recorder: Recorder) -> bool:
    """Whether a round gives what it was given; else `carried` is as it must be."""
    _check_treedefs(
        carried.treedef, body.treedef, "[while_loop] loop_vars and what body returns"
    )
    for i, (given, value) in enumerate(zip(carried.values, body.outputs, strict=True)):
        _check_dtypes(given, value, f"[while_loop] tensors {i} of two rounds")
    shapes = [
        _merged(old, value.shape, f"[while_loop] tensors {i} of two rounds")
        for i, (old, value) in enumerate(zip(carried.shapes, body.outputs, strict=True))
    ]
    settled = shapes == carried.shapes and not body.changed
    carried.shapes = shapes
    for tensor, before, _ in body.changed:
        carried.changed.append((tensor, before))
        carried.values.append(recorder.local(before))
        carried.shapes.append(before.shape)
    return settled
