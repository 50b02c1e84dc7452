"""Recurrent networks whose step is the statements of a ``with`` block.

As with `While`, the rewriter makes a function of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.base.naming import mark_names
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.jit import control_flow, flow
from proa.migrate.fluid.layers.flow import Decorator, Repeatable, Statements
from proa.nn.sequences import RowSequences, greatest
from proa.static import arrays, default_main_program
from proa.static.nn.sequence_arguments import sequences_of, with_sequences
from proa.static.state import require_static
from proa.tensor.array import TensorArray, array_write
from proa.tensor.creation import assign, full

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike


class _Recurrence:
    """Memories and results of a step, which is recorded once for each step, or once as
    the body of a loop.
    """

    def __init__(self) -> None:
        #: The number of the step: an int, or in a loop a Variable int64 (1,).
        self._step: Any = None
        self._depth = 0
        self._memories: list[Tensor] = []
        self._updates: dict[int, Tensor] = {}
        self._used = 0
        self._outputs: list[Tensor] = []
        self._steps: list[list[Tensor]] = []
        self._stacks: list[TensorArray] = []
        self._results: list[Tensor] | None = None

    def _inside(self, where: str) -> None:
        if self._step is None:
            raise PreconditionNotMetError(
                f"[{type(self).__name__}.{where}] expected to be called in the block"
            )

    def _memory(self, begin: Tensor) -> Tensor:
        """What the step is given of the step before; at first `begin`."""
        number = self._used
        self._used += 1
        if number == len(self._memories):
            self._memories.append(self._hoisted(lambda: begin))
        return self._memories[number]

    def _hoisted(self, make: Callable[[], Tensor]) -> Tensor:
        """A copy of a tensor, which is made before the steps."""
        if isinstance(self._step, int):
            return make()
        recorder = default_main_program().recorder
        return arrays.hoisted(recorder, self._depth, lambda: ops.assign(make()))

    def update_memory(self, mem: Tensor, var: Tensor) -> None:
        """Let the next step be given `var` in place of this memory."""
        self._inside("update_memory")
        for number, own in enumerate(self._memories):
            if own is mem:
                self._updates[number] = var
                return
        raise InvalidArgumentError(
            f"[{type(self).__name__}.update_memory] mem must be a memory of the block, "
            f"got {mem.name!r}"
        )

    def _begin(self) -> None:
        self._used = 0
        self._updates, self._outputs = {}, []

    def _rehearse(self, function: Statements) -> None:
        """Call the step once, to find what it reads; nothing of it is kept."""
        require_static(type(self).__name__)
        self._step = 0
        self._begin()
        flow.rehearsed(Repeatable(function))
        self._memories.clear()
        self._step = None

    def _unrolled(self, function: Statements, count: int) -> None:
        """Record each step."""
        body, restart_names = Repeatable(function), mark_names()
        for self._step in range(count):
            self._begin()
            restart_names()
            body()
            for number, value in self._updates.items():
                self._memories[number] = value
            self._steps.append(self._outputs)
        self._step = None
        columns = zip(*self._steps, strict=True)
        self._results = [ops.stack(*column, axis=0) for column in columns]

    def _looped(self, function: Statements, count: Tensor) -> None:
        """Record a loop of so many steps, int64 (1,)."""
        body = Repeatable(function)
        self._step = full([1], 0, "int64")

        def one() -> None:
            self._begin()
            body()
            self._write()
            for number, value in self._updates.items():
                self._advance(self._memories[number], value)

        def round_(step: Tensor) -> Tensor:
            self._step = step
            one()
            return ops.add(step, 1)

        self._depth = len(default_main_program().recorder.bodies)
        control_flow.while_loop(
            lambda step: ops.less_than(step, count), round_, [self._step]
        )
        self._step = None
        stacks = [array.stack for array in self._stacks]
        self._results = [ops.assign(stack) for stack in stacks if stack is not None]

    def _write(self) -> None:
        """Keep what the step gives."""
        for number, value in enumerate(self._outputs):
            if number == len(self._stacks):
                self._stacks.append(TensorArray((), self._depth))
            array_write(value, self._step, self._stacks[number])

    def _advance(self, memory: Tensor, value: Tensor) -> None:
        assign(value, output=memory)

    def _at_step(self, x: Tensor) -> Tensor:
        """x[step]."""
        if isinstance(self._step, int):
            return ops.select(x, axis=0, index=self._step)
        return ops.squeeze(ops.gather(x, self._step, axis=0), axis=[0])

    def _finished(self) -> list[Tensor]:
        if self._results is None:
            raise PreconditionNotMetError(
                f"[{type(self).__name__}] expected a block before the call"
            )
        return self._results


class StaticRNN(_Recurrence):
    """A recurrent network over the first axis of its inputs.

    Where the number of steps is known each step is recorded, else a loop.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        #: What `step_input` gave, and what of.
        self._inputs: list[tuple[Tensor, Tensor]] = []

    def step(self) -> Decorator:
        """Makes a function the step."""

        def record(function: Statements) -> None:
            count = self._length(function)
            if isinstance(count, int):
                self._unrolled(function, count)
            else:
                self._looped(function, count)

        return record

    def _length(self, function: Statements) -> Any:
        """How many steps there are: an int, or a Variable if a run says so."""
        self._rehearse(function)
        if not self._inputs:
            raise InvalidArgumentError(
                "[StaticRNN] expected a step_input in the block, got none"
            )
        x = self._inputs[0][1]
        size = int(x.shape[0])
        self._inputs.clear()
        return size if size >= 0 else arrays.count_rows(x)

    def step_input(self, x: Tensor) -> Tensor:
        """The step's entry of x (steps, batch, ...)."""
        self._inside("step_input")
        result = self._at_step(x)
        self._inputs.append((result, x))
        return result

    def memory(
        self,
        init: Tensor | None = None,
        shape: Sequence[int] | None = None,
        batch_ref: Tensor | None = None,
        init_value: float = 0.0,
        init_batch_dim_idx: int = 0,
        ref_batch_dim_idx: int = 1,
    ) -> Tensor:
        """What the step before gave by `update_memory`; at the first step `init`.

        Args:
            init: The first value.
            shape: The shape of the first value, if init is None.
            batch_ref: What has the size of the batch, then.
            init_value: What fills the first value, then.
            init_batch_dim_idx: The axis of the batch in shape.
            ref_batch_dim_idx: That in batch_ref, where a `step_input` counts as what
                it is a step of.
        """
        self._inside("memory")
        if init is not None:
            return self._memory(init)
        if shape is None or batch_ref is None:
            raise InvalidArgumentError(
                "[StaticRNN.memory] expected init, or shape and batch_ref, got "
                f"shape={shape} and batch_ref={batch_ref}"
            )
        whole = next(
            (x for result, x in self._inputs if result is batch_ref), batch_ref
        )
        sizes: list[Any] = [*shape]
        sizes[init_batch_dim_idx] = whole.shape[ref_batch_dim_idx]
        return self._memory(self._hoisted(lambda: full(sizes, init_value)))

    def step_output(self, o: Tensor) -> None:
        """Let the network give this of every step."""
        self._inside("step_output")
        self._outputs.append(o)

    def output(self, *outputs: Tensor) -> None:
        """`step_output` of each."""
        for each in outputs:
            self.step_output(each)

    def __call__(self) -> Any:
        """What the steps gave, (steps, ...): a list of them if there are several."""
        found = self._finished()
        return found[0] if len(found) == 1 else found


class DynamicRNN(_Recurrence):
    """A recurrent network over the rows of sequences.

    All sequences of a batch take as many steps as the longest one; the memories of a
    sequence that has ended stay what they were.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._own: RowSequences | None = None

    def block(self) -> Decorator:
        """Makes a function the step."""

        def record(function: Statements) -> None:
            self._rehearse(function)
            own = self._sequences()
            count = ops.reshape(greatest(own.lengths), shape=[1])
            self._looped(function, count)
            assert self._results is not None
            self._results = [self._as_rows(x, own) for x in self._results]

        return record

    def _sequences(self) -> RowSequences:
        if self._own is None:
            raise InvalidArgumentError(
                "[DynamicRNN] expected a step_input in the block, got none"
            )
        return self._own

    def _is_active(self) -> Tensor:
        """Which sequences have a row at the step."""
        return ops.less_than(self._step, self._sequences().lengths)

    def step_input(self, x: Tensor, level: int = 0) -> Tensor:
        """The step's row of each sequence (sequences, ...)."""
        self._inside("step_input")
        own = sequences_of("DynamicRNN.step_input", x)
        if level or len(own.levels) > 1:
            raise InvalidArgumentError(
                "[DynamicRNN.step_input] expected sequences of one level, got "
                f"{len(own.levels)} levels and level={level}"
            )
        if self._own is None:
            self._own = own
        rows = ops.where(self._is_active(), ops.add(own.starts, self._step), 0)
        return ops.gather(x, rows, axis=0)

    def static_input(self, x: Tensor) -> Tensor:
        """What every step reads whole: sequences, or a row for each sequence."""
        self._inside("static_input")
        return x

    def memory(
        self,
        init: Tensor | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        need_reorder: bool = False,
        dtype: DTypeLike = "float32",
    ) -> Tensor:
        """What the step before gave by `update_memory`; at the first step `init`.

        Args:
            init: The first value, a row for each sequence.
            shape: The shape of a row of the first value, if init is None.
            value: What fills the first value, then.
            need_reorder: Has no meaning here: sequences keep their order.
            dtype: The dtype of the first value, then.
        """
        self._inside("memory")
        if init is not None:
            return self._memory(init)
        if shape is None:
            raise InvalidArgumentError(
                "[DynamicRNN.memory] expected init or shape, got neither"
            )
        count = self._sequences().count
        return self._memory(
            self._hoisted(lambda: full([count, *shape], value, dtype))
        )  # fmt: skip

    def _advance(self, memory: Tensor, value: Tensor) -> None:
        active = self._is_active()
        column = ops.unsqueeze(active, axis=list(range(1, value.ndim)))
        super()._advance(memory, ops.where(column, value, memory))

    def output(self, *outputs: Tensor) -> None:
        """Let the network give these of every step."""
        self._inside("output")
        self._outputs += outputs

    def _as_rows(self, stack: Tensor, own: RowSequences) -> Tensor:
        """(steps, sequences, ...) -> the rows of sequences."""
        owners = own.owners()
        index = ops.stack(own.places(owners), owners, axis=1)
        return with_sequences(ops.gather_nd(stack, index), own)

    def __call__(self) -> Any:
        """What the steps gave, as rows of sequences: a list if there are several."""
        found = self._finished()
        return found[0] if len(found) == 1 else found
