"""Gradients of recorded branches and loops.

Their bodies are on no tape. Where a gradient is needed, backward records another branch
or loop, whose bodies run those of the first once more, on the tape, and differentiate
them.

A loop's backward goes through the rounds from the last to the first, and computes what
each began with from a state before it. It keeps one such state for each of `_LEVELS`
nested loops: the rounds are cut into segments and these into smaller ones, each of
which is computed from where the one around it begins (Griewank and Walther, 2000, have
the best such schedules). n rounds take about 1.5 n ** (4 / 3) with two levels, in the
memory of three states, whatever shapes the rounds have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proa import _core
from proa._core import Tensor, ops
from proa.autograd import PyLayer
from proa.errors import UnimplementedError
from proa.ir.program import Node, Program

#: Runs a block of a program on tensors.
Run = Callable[[Program, int, Sequence[Any]], list[Any]]
#: Record a branch: of a predicate and two functions; or a loop: of a condition, a body
#: and first values.
Cond = Callable[..., Any]


#: How often the rounds of a loop are cut into segments for its backward.
_LEVELS = 2


@dataclass
class FlowCall:
    """A branch or loop that was recorded.

    Attributes:
        program: Its program.
        node: The node.
        arrays: What the node read, in its order, in the place of each value.
        results: Symbols of its outputs.
        run: Runs one of the program's blocks.
        cond, loop: Record a branch or a loop.
    """

    program: Program
    node: Node
    arrays: list[Tensor]
    results: list[Tensor]
    run: Run
    cond: Cond
    loop: Cond

    def __post_init__(self) -> None:
        #: The same values, whatever is done to the tensors later.
        self._read = [x.detach() for x in self.arrays]

    def on_tape(self) -> list[Tensor]:
        """The results, which take a gradient if what was read does."""
        if not _core.is_grad_enabled() or all(x.stop_gradient for x in self.arrays):
            return self.results
        if not any(r.dtype.is_floating for r in self.results):
            return self.results
        return list(_Flow.apply(self, *self.arrays))

    def gradients(self, wanted: Sequence[bool], grads: Sequence[Any]) -> list[Any]:
        """Gradients of the arrays that were read, None where not wanted."""
        arrays = self._read
        if self.node.op == "branch":
            return self._of_branch(arrays, wanted, grads)
        return self._of_loop(arrays, wanted, grads)

    def _of_branch(
        self, arrays: list[Tensor], wanted: Sequence[bool], grads: Sequence[Any]
    ) -> list[Any]:
        pred, *given = arrays
        at = [i for i, w in enumerate(wanted[1:]) if w]

        def back(name: str) -> Callable[[], list[Any]]:
            block = self.node.attrs[name]
            return lambda: self.differentiated(block, given, at, grads)

        found = iter(self.cond(pred, back("then_block"), back("else_block")))
        return [None, *(next(found) if w else None for w in wanted[1:])]

    def _of_loop(
        self, arrays: list[Tensor], wanted: Sequence[bool], grads: Sequence[Any]
    ) -> list[Any]:
        count = self.node.attrs["carried"]
        first, others = arrays[:count], arrays[count:]
        test = self.node.attrs["cond_block"]
        carried = [i for i, x in enumerate(first) if x.dtype.is_floating]
        at = [*carried, *(i for i in range(count, len(arrays)) if wanted[i])]
        zero = ops.full_like(_scalar(first[0]), value=0, dtype="int64")
        loop = _LoopBackward(self, others, carried, at, zero)

        def goes_on(i: Any, *state: Any) -> Any:
            return self.run(self.program, test, [*state, *others])[0]

        rounds = self.loop(goes_on, loop.once, [zero, *first])[0]
        begin = [grads[i] for i in carried]
        begin += [ops.full_like(arrays[i], value=0, dtype=arrays[i].dtype)
                  for i in at[len(carried) :]]  # fmt: skip
        ended = loop.back_through(_LEVELS, rounds, first, begin)
        sums = dict(zip(at, ended, strict=True))
        return [sums.get(i) if w else None for i, w in enumerate(wanted)]

    def differentiated(
        self, block: int, arrays: list[Any], at: list[int], grads: Sequence[Any]
    ) -> list[Any]:
        """The gradients of a block's inputs with these numbers."""
        leaves = [x.detach() for x in arrays]
        for i in at:
            leaves[i].stop_gradient = False
        enabled = _core.set_grad_enabled(True)
        try:
            result = self.run(self.program, block, leaves)
            pairs = [
                (y, _of_shape(g, y))
                for y, g in zip(result, grads, strict=False)
                if g is not None and not y.stop_gradient
            ]
            found: list[Any] = [None] * len(at)
            if pairs:
                found = _core.grad(
                    [y for y, _ in pairs], [leaves[i] for i in at],
                    [g for _, g in pairs], True, False, True, True,
                )  # fmt: skip
        finally:
            _core.set_grad_enabled(enabled)
        return [
            ops.full_like(leaves[i], value=0, dtype=leaves[i].dtype) if g is None else g
            for i, g in zip(at, found, strict=True)
        ]


@dataclass
class _LoopBackward:
    """The rounds of a loop, forward and backward.

    Attributes:
        call: The loop.
        others: What every round is given besides what the loop carries.
        carried: Numbers of what it carries that takes a gradient.
        at: The same, and of others whose gradients are wanted.
        zero: An int64 0.
    """

    call: FlowCall
    others: list[Tensor]
    carried: list[int]
    at: list[int]
    zero: Tensor

    def once(self, i: Any, *state: Any) -> list[Any]:
        """A round forward, which is counted."""
        call = self.call
        result = call.run(call.program, self._body, [*state, *self.others])
        return [ops.add(i, 1), *result]

    @property
    def _body(self) -> int:
        found: int = self.call.node.attrs["body_block"]
        return found

    def _after(self, rounds: Any, state: Sequence[Any]) -> list[Any]:
        """What the loop carries that many rounds after a state."""
        ended = self.call.loop(
            lambda i, *_: ops.less_than(i, rounds), self.once, [self.zero, *state]
        )
        return list(ended[1:])

    def _back(self, state: Sequence[Any], sums: Sequence[Any]) -> list[Any]:
        """Go back through the round that begins with a state."""
        seeds: list[Any] = [None] * self.call.node.attrs["carried"]
        for i, seed in zip(self.carried, sums, strict=False):
            seeds[i] = seed
        arrays = [*state, *self.others]
        found = self.call.differentiated(self._body, arrays, self.at, seeds)
        own = len(self.carried)
        added = [ops.add(a, b) for a, b in zip(sums[own:], found[own:], strict=True)]
        return [*found[:own], *added]

    def back_through(
        self, level: int, rounds: Any, state: Sequence[Any], sums: Sequence[Any]
    ) -> list[Any]:
        """Go back through the rounds after a state, the last one first."""
        size = _segment(level, rounds)

        def one(k: Any, *sums: Any) -> list[Any]:
            begin = ops.mul(k, size)
            reached = self._after(begin, state)
            if level == 0:
                return [ops.sub(k, 1), *self._back(reached, sums)]
            inner = ops.minimum(size, ops.sub(rounds, begin))
            result = self.back_through(level - 1, inner, reached, sums)
            return [ops.sub(k, 1), *result]

        # The last segment begins below the number of rounds.
        last = ops.floor_div(ops.sub(rounds, 1), size)
        ended = self.call.loop(
            lambda k, *_: ops.greater_equal(k, 0), one, [last, *sums]
        )
        return list(ended[1:])


def _of_shape(gradient: Any, y: Any) -> Any:
    """The gradient in the shape of y, whose sizes this block may know better."""
    shapes = [tuple(map(int, t.shape)) for t in (gradient, y)]
    return gradient if shapes[0] == shapes[1] else ops.broadcast_like(gradient, y)


def _segment(level: int, rounds: Any) -> Any:
    """The rounds in each segment of a level, so that all levels take equal time."""
    if level == 0:
        return ops.full_like(rounds, value=1, dtype="int64")
    wide = ops.cast(rounds, dtype="float64")
    share = ops.full_like(wide, value=level / (level + 1), dtype="float64")
    size = ops.cast(ops.ceil(ops.pow(wide, share)), dtype="int64")
    return ops.maximum(size, ops.full_like(rounds, value=1, dtype="int64"))


def _scalar(x: Tensor) -> Tensor:
    return ops.sum(ops.cast(ops.full_like(x, value=0, dtype=x.dtype), dtype="float32"))


class _Flow(PyLayer):
    _optional_gradients = True

    @staticmethod
    def forward(ctx: Any, call: FlowCall, *arrays: Tensor) -> Any:
        ctx.call = call
        ctx.wanted = ctx.needs_input_grad
        exact = [r for r in call.results if not r.dtype.is_floating]
        ctx.mark_non_differentiable(*exact)
        return tuple(call.results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        again = _core.set_grad_enabled(False)
        try:
            found = ctx.call.gradients(ctx.wanted, grads)
        finally:
            _core.set_grad_enabled(again)
        if not again:
            return tuple(found)
        results = [g for g in found if g is not None]
        sealed = iter(_Sealed.apply(len(results), *results, *ctx.call.arrays, *grads))
        return tuple(None if g is None else next(sealed) for g in found)


class _Sealed(PyLayer):
    """Gradients that cannot be differentiated again."""

    @staticmethod
    def forward(ctx: Any, count: int, *arrays: Tensor) -> Any:
        return tuple(x.detach() for x in arrays[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise UnimplementedError(
            "[static] gradients of gradients through a branch or loop are not supported"
        )
