"""What rewritten functions call: `_proa` in their code, which has `calls.call` too.

Whatever is no symbol is treated as Python does: same order, same laziness, same errors.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

from proa import _core
from proa._core import ops
from proa.errors import InvalidTypeError, UnboundVariableError
from proa.jit import flow
from proa.jit.convert.early_exits import RESULT
from proa.jit.convert.effects import when_run
from proa.jit.convert.lattice import (
    UNDEFINED,
    AbstractValue,
    JoinError,
    Unbound,
    abstract_value,
    conform,
    fits,
    has_tensors,
    join,
    join_results,
    rebuilt,
    shown,
    tensors_of,
)
from proa.jit.convert.state import recording_state
from proa.jit.convert.substitutes import SymbolicIterable, as_symbolic_iterable
from proa.jit.convert.tracebacks import recorded
from proa.jit.convert.variables import Variables
from proa.jit.flow import is_symbolic
from proa.jit.pytree import TaggedUnion
from proa.tensor.symbolic_dims import SymbolicDim

__all__ = [
    "and_", "assert_", "chain", "either", "for_loop", "go_on", "if_else",
    "not_", "or_", "returned", "size", "while_loop",
]  # fmt: skip

Function = Callable[..., Any]

#: How often bodies of a branch or loop are recorded until abstract values agree.
_ATTEMPTS = 12


class _Retrace(BaseException):
    """The abstract values of a recorded branch or loop are not those assumed."""

    def __init__(self, avals: list[AbstractValue] | None) -> None:
        super().__init__()
        self.avals = avals


def _line(depth: int) -> str:
    frame = sys._getframe(depth + 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _predicate(value: Any) -> Any:
    """A bool tensor of one element for a condition."""
    if not isinstance(value, _core.Tensor):
        return ops.full(shape=[], value=bool(value), dtype="bool")
    return value if value.dtype == "bool" else ops.cast(value, dtype="bool")


def _joined(
    name: str, a: AbstractValue, b: AbstractValue, lenient: bool, what: str
) -> AbstractValue:
    try:
        if name == RESULT:
            return join_results(a, b)
        return join(a, b, lenient)
    except JoinError as error:
        one, other = error.args
        raise InvalidTypeError(
            f"[to_static] {name} must be of one kind {what}, got {one} and {other}"
        ) from None


def _tensors(
    names: Sequence[str], values: Sequence[Any], avals: Sequence[AbstractValue]
) -> dict[str, Any]:
    """The tensors of the values, made to conform, by what they are called."""
    return {
        called: tensor
        for name, value, aval in zip(names, values, avals, strict=True)
        for called, tensor in tensors_of(conform(value, aval), name)
    }


def _attempt(key: Any, avals: list[AbstractValue] | None, run: Function) -> Any:
    """Record with these abstract values, and again with others until they agree."""
    avals = recording_state.avals.get(key, avals)
    for _ in range(_ATTEMPTS):
        try:
            result = run(avals)
        except _Retrace as again:
            avals = again.avals
            continue
        recording_state.avals[key] = avals
        return result
    raise InvalidTypeError(
        "[to_static] expected variables of a branch or loop of the same kinds each "
        f"time it is recorded, got {avals}"
    )


# -- branches -------------------------------------------------------------------------
def if_else(
    pred: Any,
    true: Function,
    false: Function,
    names: Any,
    own: Any = (),
    lenient: bool = False,
) -> None:
    """``if pred: true() else: false()``; both change the variables of these names.

    Args:
        pred: The condition.
        true, false: The branches.
        names: As `Variables` has them.
        own: Further variables that they change, which nobody reads later.
        lenient: Whether the variables may have no value in one of the branches, where
            they are not read.
    """
    if is_symbolic(pred):
        branch = _Branch(Variables((true, false), names, own), lenient, _line(1))
        branch.record(pred, true, false, true)
    elif pred:
        true()
    else:
        false()


def either(pred: Any, true: Function, false: Function) -> Any:
    """``true() if pred else false()``"""
    if not is_symbolic(pred):
        return true() if pred else false()
    result: Any = UNDEFINED

    def branch_of(value: Function) -> Function:
        def run() -> None:
            nonlocal result
            result = value()

        return run

    branches = branch_of(true), branch_of(false)
    branch = _Branch(Variables(branches, ("result",)), False, _line(1))
    branch.record(pred, *branches, true)
    return result


class _Branch:
    """A branch whose predicate is a tensor."""

    def __init__(self, variables: Variables, lenient: bool, where: str) -> None:
        self.variables, self.lenient, self.where = variables, lenient, where
        self.found: list[list[AbstractValue]] = []
        #: For variables without a join, the errors to raise where they are read.
        self.differ: dict[str, Exception] = {}

    def record(self, pred: Any, true: Function, false: Function, key: Any) -> None:
        """Record both branches, again if their abstract values do not agree.

        Args:
            pred: The condition.
            true, false: The branches.
            key: The user's function that distinguishes this branch.
        """

        def attempt(avals: list[AbstractValue] | None) -> None:
            self.found.clear()
            branches = self._branch_body(true, avals), self._branch_body(false, avals)
            result = iter(flow.cond(_predicate(pred), *branches).values())
            avals = avals or self.found[0]
            self._note_lost(avals)
            self.variables.finish([rebuilt(aval, result) for aval in avals])

        _attempt(_key(key, self.variables), None, attempt)

    def _branch_body(
        self, function: Function, avals: list[AbstractValue] | None
    ) -> Function:
        def run() -> dict[str, Any]:
            self.variables.begin()
            recorded(function)
            values = self.variables.read()
            self.found.append([abstract_value(v) for v in values])
            if len(self.found) == 2:
                self._check(avals)
            elif avals is not None and not _all_fit(self.found[0], avals):
                raise _Retrace(None)
            result = _tensors(self.variables.names, values, avals or self.found[0])
            # A branch gives something, even if it is there for its effects alone.
            return result or {"nothing": ops.full(shape=[], value=0, dtype="int64")}

        return run

    def _check(self, avals: list[AbstractValue] | None) -> None:
        what = f"whichever way the branch at {self.where} goes, as its condition is a "
        what += "Tensor"
        joined = [
            self._joined(name, a, b, what)
            for name, a, b in zip(self.variables.names, *self.found, strict=True)
        ]
        assumed = [avals] if avals is not None else self.found
        if any(joined != each for each in assumed):
            raise _Retrace(joined)

    def _joined(
        self, name: str, a: AbstractValue, b: AbstractValue, what: str
    ) -> AbstractValue:
        """The join of both branches. A name that has none is as if it were unbound,
        as it may not be read.
        """
        try:
            return _joined(name, a, b, self.lenient, what)
        except InvalidTypeError as error:
            if not name.isidentifier():
                raise
            self.differ[name] = error
            return Unbound()

    def _note_lost(self, avals: Sequence[AbstractValue]) -> None:
        branches = zip(*self.found, strict=True)
        for name, aval, both in zip(self.variables.names, avals, branches, strict=True):
            if isinstance(aval, Unbound) and not all(k == aval for k in both):
                unbound = UnboundVariableError(
                    f"[to_static] {name} must be bound in both branches of the `if` at "
                    f"{self.where}, whose condition is a Tensor, to be read after it, "
                    "got one that does not bind it"
                )
                recording_state.lost[name] = self.differ.get(name) or unbound


def _all_fit(avals: Sequence[AbstractValue], wanted: Sequence[AbstractValue]) -> bool:
    return all(fits(a, b) for a, b in zip(avals, wanted, strict=True))


def _key(function: Any, variables: Variables) -> Any:
    """What a body was recorded with: its code and the abstract values it was given."""
    return function.__code__, tuple(map(shown, map(abstract_value, variables.read())))


# -- loops ----------------------------------------------------------------------------
def while_loop(test: Function, body: Function, names: Any) -> None:
    """``while test(): body()``, which change the variables of these names."""
    while True:
        go_on = test()
        if is_symbolic(go_on):
            break
        if not go_on:
            return
        body()
    _loop(test, body, Variables((test, body), names), _line(1), body)


def _loop(
    test: Function, body: Function, variables: Variables, where: str, key: Any
) -> None:
    """Record a loop until `test` says that it ends."""
    what = f"from round to round of the loop at {where}, which a Tensor ends"
    first = variables.read()
    last: list[Any] = []

    def attempt(avals: list[AbstractValue]) -> None:
        def begin(tensors: Sequence[Any]) -> None:
            left = iter(tensors)
            variables.write([rebuilt(aval, left) for aval in avals])

        def condition(*tensors: Any) -> Any:
            begin(tensors)
            return _predicate(recorded(test))

        def one_round(*tensors: Any) -> list[Any]:
            begin(tensors)
            recorded(body)
            last[:] = variables.read()
            joined = [
                _joined_rounds(*each, what)
                for each in zip(
                    variables.names, avals, map(abstract_value, last), strict=True
                )
            ]
            if joined != avals:
                raise _Retrace(joined)
            return list(_tensors(variables.names, last, avals).values())

        start = list(_tensors(variables.names, first, avals).values())
        result = iter(flow.while_loop(condition, one_round, start))
        variables.finish(
            [
                value if isinstance(aval, Unbound) else rebuilt(aval, result)
                for aval, value in zip(avals, last, strict=True)
            ]
        )

    _attempt(_key(key, variables), [abstract_value(v) for v in first], attempt)


def _joined_rounds(
    name: str, given: AbstractValue, value: AbstractValue, what: str
) -> AbstractValue:
    """What a variable is before every round, of what it was before and after one.

    One that the body binds again, to the same Python value in every round, is nothing.
    """
    if isinstance(given, Unbound) and not has_tensors(value):
        return given
    if isinstance(value, Unbound) and not isinstance(given, Unbound):
        lost = recording_state.lost.get(name)
        if lost is not None:  # what is made up would be read by later rounds
            raise lost
    return _joined(name, given, value, True, what)


def for_loop(
    items: Any, body: Function, names: Any, test: Function | None = None
) -> None:
    """``for item in items: body(item)`` while `test` holds.

    Args:
        items: What is iterated over.
        body: Takes an item; changes the variables of these names.
        names: As `Variables` has them.
        test: Called after each round: whether to go on.
    """
    found = as_symbolic_iterable(items)
    if found is not None:
        _counted_loop(found, body, names, test, _line(1))
        return
    go_on: Any = True
    for item in items:
        if is_symbolic(go_on):
            variables = Variables((body, test), names)
            round_ = functools.partial(body, item)
            _Branch(variables, True, _line(1)).record(go_on, round_, _nothing, body)
        else:
            body(item)
        if test is not None:
            go_on = test()
            if not is_symbolic(go_on) and not go_on:
                return


def _nothing() -> None:
    pass


def _counted_loop(
    items: SymbolicIterable,
    body: Function,
    names: Any,
    test: Function | None,
    where: str,
) -> None:
    """Record a loop over an iterable of symbolic length."""
    _proa_count = ops.full(shape=[], value=0, dtype="int64")

    def more() -> Any:
        in_reach = ops.less_than(_proa_count, items.count)
        return in_reach if test is None else and_(lambda: in_reach, test)

    def one_round() -> None:
        nonlocal _proa_count
        body(items.at(_proa_count))
        _proa_count = ops.add(_proa_count, 1)

    variables = Variables((more, one_round, body, test), ("_proa_count", *names))
    _loop(more, one_round, variables, where, body)


# -- logic ----------------------------------------------------------------------------
def go_on(*flags: Any) -> Any:
    """Whether none of these holds."""
    return not_(or_(*[lambda flag=flag: flag for flag in flags]))


def not_(value: Any) -> Any:
    """``not value``"""
    return ops.logical_not(_predicate(value)) if is_symbolic(value) else not value


def and_(first: Function, *rest: Function) -> Any:
    """``first() and ...``; what follows a tensor is computed whatever that is."""
    value = first()
    for following in rest:
        if is_symbolic(value):
            value = _both(ops.logical_and, value, following())
        elif value:
            value = following()
        else:
            return value
    return value


def or_(first: Function, *rest: Function) -> Any:
    """``first() or ...``; what follows a tensor is computed whatever that is."""
    value = first()
    for following in rest:
        if is_symbolic(value):
            value = _both(ops.logical_or, value, following())
        elif value:
            return value
        else:
            value = following()
    return value


def _both(op: Any, a: Any, b: Any) -> Any:
    return op(_truth(a), _truth(b))


def _truth(value: Any) -> Any:
    result = _predicate(value)
    return result if result.ndim == 0 else ops.reshape(result, shape=[])


def chain(value: Any, *rest: Any) -> Any:
    """``value < a < b``: names of comparisons and what follows them, by turns."""
    result: Any = True
    for name, following in zip(rest[::2], rest[1::2], strict=True):
        other = following()
        now = _COMPARISONS[name](value, other)
        result = _both(ops.logical_and, result, now) if is_symbolic(result) else now
        if not is_symbolic(result) and not result:
            return result
        value = other
    return result


def size(value: Any) -> Any:
    """A value that bounds a loop: a symbolic dimension as a tensor of the run."""
    return value.number() if isinstance(value, SymbolicDim) else value


_COMPARISONS: dict[str, Function] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "is_": operator.is_,
    "is_not": operator.is_not,
    "in_": lambda a, b: a in b,
    "not_in": lambda a, b: a not in b,
}


# -- statements -----------------------------------------------------------------------
def assert_(test: Function, message: Function | None = None) -> None:
    """``assert test(), message()``; of a symbol, whenever the program runs."""
    value = test()
    if not is_symbolic(value):
        if not value:
            raise AssertionError(*[] if message is None else [message()])
        return
    said = [] if message is None else [message()]
    is_symbol = is_symbolic(said[0]) if said else False
    text = [] if is_symbol else said

    def check(condition: Any, *values: Any) -> None:
        if not condition:
            raise AssertionError(*values, *text)

    when_run(check, [value, *(said if is_symbol else [])])


def returned(value: Any) -> Any:
    """What a function returns.

    Raises:
        InvalidTypeError: If only a run decides which of several kinds it is, and the
            function is not the one that is recorded but called by it.
    """
    if (
        isinstance(value, TaggedUnion)
        and sys._getframe(1).f_code is not recording_state.first
    ):
        raise InvalidTypeError(
            f"[to_static] {sys._getframe(1).f_code.co_name} must return one kind of "
            "value from all its branches, as their condition is a Tensor and another "
            f"function continues with the value, got {shown(abstract_value(value))}"
        )
    return value
