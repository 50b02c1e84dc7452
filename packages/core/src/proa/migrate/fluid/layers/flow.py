"""Loops and branches whose parts are the statements of a ``with`` block.

1.x recorded such a block as it ran. The rewriter makes a function of it, for a loop's
body may have to be recorded more than once:

    with loop.block():              @loop.block()
        increment(i)           ->   def _body():
        less_than(i, n, cond)           increment(i)
                                        less_than(i, n, cond)
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any

import proa
from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.jit import control_flow
from proa.migrate.fluid.layers.beams import RaggedArray
from proa.nn.nms import true_indices
from proa.tensor.search import argsort

Statements = Callable[[], Any]
Decorator = Callable[[Statements], None]


class Repeatable:
    """A function of statements; each call finds the names around it as the first did.

    What the statements of a block bind is bound around the function (``nonlocal``,
    ``global``), as it was without one.
    """

    def __init__(self, function: Statements) -> None:
        self._function = function
        closed = inspect.getclosurevars(function)
        code = function.__code__
        stored = {
            i.argval for i in dis.get_instructions(code) if i.opname == "STORE_GLOBAL"
        }
        self._globals = {k: v for k, v in closed.globals.items() if k in stored}
        self._cells = []
        for cell in function.__closure__ or ():
            try:
                self._cells.append((cell, cell.cell_contents))
            except ValueError:  # bound by the block itself
                continue

    def __call__(self) -> None:
        for cell, value in self._cells:
            cell.cell_contents = value
        self._function.__globals__.update(self._globals)
        self._function()


class While:
    """A loop, as long as a Variable that its block assigns is true.

    Args:
        cond: bool, one element.
        is_test: Has no meaning here.
        name: Has no meaning here.
    """

    def __init__(
        self, cond: Tensor, is_test: bool = False, name: str | None = None
    ) -> None:
        self._cond = cond

    def block(self) -> Decorator:
        """Makes a function the loop's body."""

        def record(function: Statements) -> None:
            body = Repeatable(function)

            def round_(_: Tensor) -> Tensor:
                body()
                return self._cond

            recorder = proa.static.default_main_program().recorder
            before = recorder.make_store
            if _names(function, "beam_search"):
                recorder.make_store = RaggedArray
            try:
                control_flow.while_loop(_itself, round_, [self._cond])
            finally:
                recorder.make_store = before

        return record


def _names(function: Callable[..., Any], name: str) -> bool:
    """Whether a function, or one of its module that it calls, names an attribute."""
    known: set[int] = set()
    left: list[Any] = [function]
    while left:
        each = left.pop()
        code = getattr(each, "__code__", None)
        if code is None or id(code) in known:
            continue
        known.add(id(code))
        if name in code.co_names:
            return True
        bound = inspect.getclosurevars(each)
        left += [*bound.globals.values(), *bound.nonlocals.values()]
    return False


def _itself(x: Tensor) -> Tensor:
    return x


class Switch:
    """The first of several blocks whose condition holds."""

    def __init__(self, name: str | None = None) -> None:
        self._cases: list[tuple[Tensor, Statements]] = []
        self._default: Statements = _nothing

    def __enter__(self) -> Switch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None and self._cases:
            control_flow.case(self._cases, self._default)

    def case(self, condition: Tensor) -> Decorator:
        """Makes a function what follows if a condition holds and none before did."""

        def keep(function: Statements) -> None:
            self._cases.append((condition, _without_result(function)))

        return keep

    def default(self) -> Decorator:
        """Makes a function what follows if no condition holds."""

        def keep(function: Statements) -> None:
            self._default = _without_result(function)

        return keep


def _nothing() -> None:
    """A branch without statements."""


def _without_result(function: Statements) -> Statements:
    def called() -> None:
        function()

    return called


class IfElse:
    """Two blocks, for the rows for which a condition holds and for the other ones.

    Args:
        cond: bool (n, 1), for each row.
        name: Has no meaning here.
    """

    def __init__(self, cond: Tensor, name: str | None = None) -> None:
        flat = ops.reshape(cond, shape=[-1])
        self._rows = [true_indices(flat), true_indices(ops.logical_not(flat))]
        self._results: list[tuple[Tensor, ...]] = [(), ()]
        self._current: int | None = None

    def true_block(self) -> Decorator:
        """Makes a function what is computed where the condition holds."""
        return self._block(0)

    def false_block(self) -> Decorator:
        """Makes a function what is computed elsewhere."""
        return self._block(1)

    def _block(self, number: int) -> Decorator:
        def record(function: Statements) -> None:
            self._current = number
            try:
                function()
            finally:
                self._current = None

        return record

    def _inside(self, what: str) -> int:
        if self._current is None:
            raise PreconditionNotMetError(
                f"[IfElse.{what}] expected to be called in true_block or false_block"
            )
        return self._current

    def input(self, x: Tensor) -> Tensor:
        """The rows of x that the block computes with."""
        return ops.gather(x, self._rows[self._inside("input")], axis=0)

    def output(self, *outs: Tensor) -> None:
        """Let these be the block's results, by row."""
        self._results[self._inside("output")] = outs

    def __call__(self) -> list[Tensor]:
        """The results of both blocks, in the order of the rows.

        Raises:
            InvalidArgumentError: If the blocks have different numbers of results.
        """
        then, other = self._results
        if len(then) != len(other) or not then:
            raise InvalidArgumentError(
                "[IfElse] expected as many outputs of true_block as of false_block, "
                f"got {len(then)} and {len(other)}"
            )
        order = argsort(ops.concat(*self._rows, axis=0))
        return [
            ops.gather(ops.concat(a, b, axis=0), order, axis=0)
            for a, b in zip(then, other, strict=True)
        ]
