"""`decorate`: an optimizer whose recorded steps compute in 16 bits, with scaled losses.

The step that `to_static` records is recorded as in `proa.amp.auto_cast`: the optimizer
requests that when it meets the loss. The scale is state of the step, as weights are.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from proa import _core
from proa._core import Tensor, ops
from proa.amp.autocast import auto_cast, check_level, low_dtype
from proa.base.dtype import as_dtype
from proa.base.mode import StaticBuilder, in_dynamic_mode, static_builder
from proa.base.naming import unique_name
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from proa.ir import Program
from proa.jit.capture import Capture, Retrace
from proa.nn.schemes import Constant
from proa.optimizer import Optimizer
from proa.optimizer.optimizer import OptionalPairs, Pairs
from proa.static.amp.built import rewrite_built
from proa.static.amp.guard import casting_where_marked
from proa.static.amp.lists import AutoMixedPrecisionLists
from proa.static.amp.rewrite import rewrite, store_low
from proa.static.program import Program as StaticProgram
from proa.static.state import Builder
from proa.static.variable import Variable
from proa.tensor.row_sparse import values_of, with_values

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike


class LossScaling:
    """The scale of losses, and how gradients change it.

    After `grow_after` finite steps in a row it is multiplied by `grow`; after
    `shrink_after` others in a row by `shrink`, but not below 1.
    """

    def __init__(
        self,
        first: float,
        grow_after: int,
        shrink_after: int,
        grow: float,
        shrink: float,
        is_dynamic: bool,
    ) -> None:
        self._first = float(first)
        self._state: tuple[Tensor, Tensor, Tensor] | None = None
        self.grow_after, self.shrink_after = grow_after, shrink_after
        self.grow, self.shrink, self.is_dynamic = grow, shrink, is_dynamic

    @property
    def state(self) -> tuple[Tensor, Tensor, Tensor]:
        """What steps change: the scale, and how many good and bad steps there were.

        In static mode they are Variables of the program that first needs them.
        """
        if self._state is None:
            self._state = (
                _persistable("loss_scaling", "float32", self._first),
                _persistable("num_good_steps", "int32", 0.0),
                _persistable("num_bad_steps", "int32", 0.0),
            )
        return self._state

    @property
    def scale(self) -> Tensor:
        """What the next loss is multiplied by, of shape [1]."""
        return self.state[0]

    def unscaled(self, grads: list[Tensor]) -> list[Tensor]:
        """The gradients of the loss itself, in float32; zeros if any is not finite."""
        values = [ops.cast(values_of(g), dtype="float32") for g in grads]
        finite = ops.all(ops.isfinite(values[0]))
        for v in values[1:]:
            finite = ops.logical_and(finite, ops.all(ops.isfinite(v)))
        factor = ops.reshape(ops.div(1.0, self.scale), shape=[])
        found = [
            with_values(g, ops.where(finite, ops.mul(v, factor), 0.0))
            for g, v in zip(grads, values, strict=True)
        ]
        if self.is_dynamic:
            self._adjust(finite)
        return found

    def _adjust(self, finite: Tensor) -> None:
        held, goods, bads = self.state
        good = ops.where(finite, ops.add(goods, 1), 0)
        bad = ops.where(finite, 0, ops.add(bads, 1))
        grows = ops.equal(good, self.grow_after)
        shrinks = ops.equal(bad, self.shrink_after)
        larger = ops.mul(held, self.grow)
        larger = ops.where(ops.isfinite(larger), larger, held)
        smaller = ops.maximum(ops.mul(held, self.shrink), 1.0)
        scale = ops.where(shrinks, smaller, ops.where(grows, larger, held))
        held[...] = scale
        goods[...] = ops.where(grows, 0, good)
        bads[...] = ops.where(shrinks, 0, bad)


def _persistable(name: str, dtype: str, value: float) -> Tensor:
    """A number of shape [1] that lasts from step to step."""
    kind = as_dtype(dtype)
    if (builder := static_builder()) is None:
        return ops.full(shape=[1], value=value, dtype=kind)
    assert isinstance(builder, Builder)
    return builder.state(unique_name(name), [1], kind, Constant(value))


def _recorder_of(x: Tensor) -> Capture | None:
    """What records the step that x is computed in."""
    recorder = (x._handle or (None,))[0]
    return recorder if isinstance(recorder, Capture) else None


def _as_step(grad: Tensor) -> AbstractContextManager[None]:
    """While open, what is recorded with a Variable is part of its program's step."""
    return (
        grad.program.role("optimize") if isinstance(grad, Variable) else nullcontext()
    )


class OptimizerWithMixedPrecision:
    """What `decorate` makes of an optimizer."""

    def __init__(
        self,
        optimizer: Optimizer,
        amp_lists: AutoMixedPrecisionLists | None,
        level: str,
        dtype: Any,
        use_guard: bool | None,
        scaling: LossScaling | None,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise InvalidTypeError(
                "[static.amp.decorate] optimizer must be an Optimizer, got "
                f"{type(optimizer).__name__}"
            )
        check_level("static.amp.decorate", level)
        self._low = low_dtype("static.amp.decorate", dtype)
        self._optimizer, self._level = optimizer, level
        self._lists = amp_lists or AutoMixedPrecisionLists(dtype=self._low.name)
        if self._lists.black_varnames and in_dynamic_mode():
            raise UnimplementedError(
                "[static.amp.decorate] amp_lists must name operators, got the values "
                f"{sorted(self._lists.black_varnames)}, which static mode alone has"
            )
        self._guarded = level == "O2" and use_guard is not False
        self._scaling = scaling
        self._scaled_loss: Tensor | None = None

    # -- what a recorded step computes in ---------------------------------------------
    def _autocast(self) -> auto_cast:
        lists = self._lists
        return auto_cast(True, lists._white, lists._black, self._level, self._low)

    def _casts(self) -> AbstractContextManager[None]:
        if self._guarded:
            return casting_where_marked(self._autocast)
        return self._autocast()

    def _bind(self, recorder: Capture | None) -> None:
        """Make the scale and its counts inputs of what is recorded; it changes them."""
        if recorder is not None and self._scaling is not None:
            for state in self._scaling.state:
                recorder.bind(state)

    # -- a step -----------------------------------------------------------------------
    def get_loss_scaling(self) -> Tensor:
        """The scale of the next loss, of shape [1]."""
        if self._scaling is None:
            return ops.full(shape=[1], value=1.0, dtype="float32")
        return self._scaling.scale

    def get_scaled_loss(self) -> Tensor | None:
        """The latest loss times the scale; None before there is one."""
        return self._scaled_loss

    def backward(
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Parameters with the gradients of the scaled loss; their `grad` stays.

        In static mode they are recorded, and the program of the loss is rewritten.

        Args:
            loss: What to differentiate; of one element.
            startup_program: Has no meaning here.
            parameter_list: Take these alone; None takes the optimizer's.
            no_grad_set: Leave these (tensors or names) out.
            callbacks: Has no meaning here.
        """
        if isinstance(loss, Variable) and (builder := static_builder()) is not None:
            return self._record_backward(builder, loss, parameter_list, no_grad_set)
        recorder = _recorder_of(loss)
        if recorder is not None and not recorder.is_last:
            raise Retrace(self._casts())
        self._bind(recorder)
        given = parameter_list or self._optimizer._parameter_list
        out = list(no_grad_set or ())
        wanted = [
            p
            for p in given
            if not (p.stop_gradient or p.name in out or any(p is x for x in out))
        ]
        with auto_cast(enable=False):
            scaled = ops.cast(loss, dtype="float32")
            if self._scaling is not None:
                scale = ops.reshape(self._scaling.scale, shape=[])
                scaled = ops.mul(scaled, scale)
            self._scaled_loss = scaled.detach()
            grads = _core.grad([scaled], wanted, None, False, False, True, True)
        return [(p, g) for p, g in zip(wanted, grads, strict=True) if g is not None]

    def _record_backward(
        self, builder: StaticBuilder, loss: Variable, parameters: Any, skipped: Any
    ) -> Pairs:
        program = loss.program
        with program.role("backward"):
            scaled: Tensor = loss
            if self._scaling is not None:
                scaled = ops.mul(loss, ops.reshape(self._scaling.scale, shape=[]))
        self._scaled_loss = scaled
        pairs = builder.backward(self._optimizer, scaled, None, parameters, skipped)
        rewrite_built(
            "static.amp.decorate", program, self._lists, self._low.name, self._level,
            self._guarded,
        )  # fmt: skip
        return pairs

    def apply_gradients(self, params_grads: OptionalPairs) -> list[Tensor]:
        """Take the step with scaled gradients; with zeros if one is not finite."""
        pairs = [(p, g) for p, g in params_grads if g is not None]
        for _, g in pairs[:1]:
            self._bind(_recorder_of(g))
        with auto_cast(enable=False):
            if self._scaling is not None and pairs:
                with NoTape(), _as_step(pairs[0][1]):
                    grads = self._scaling.unscaled([g for _, g in pairs])
                pairs = [(p, g) for (p, _), g in zip(pairs, grads, strict=True)]
            return self._optimizer.apply_gradients(pairs)

    def apply_optimize(
        self, loss: Tensor, startup_program: object, params_grads: OptionalPairs
    ) -> list[Tensor]:
        """`apply_gradients`."""
        return self.apply_gradients(params_grads)

    def minimize(
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Any], Pairs]:
        """Take a step; the result has the scaled gradients that `backward` gives."""
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_gradients(pairs), pairs

    def amp_init(
        self,
        place: Any = None,
        scope: Any = None,
        test_program: Program | StaticProgram | None = None,
        use_fp16_test: bool = False,
    ) -> None:
        """Hold weights in 16 bits, where all is computed so (level O2).

        Vectors - biases, scales and shifts of norms - stay float32, and so does what
        the optimizer was not given. An optimizer with multi_precision trains float32
        copies. Of a program that static mode builds all stay float32: they are the
        copies that are trained, and every run computes with 16-bit ones.

        Args:
            place: Has no meaning here.
            scope: Has no meaning here.
            test_program: A program of the same network: a recorded one, or a copy for
                tests of a static one.
            use_fp16_test: Whether it is to compute in 16 bits.
        """
        if isinstance(test_program, StaticProgram):
            if use_fp16_test:
                low, level = self._low.name, self._level
                rewrite_built(
                    "amp_init", test_program, self._lists, low, level, self._guarded
                )
            return
        if test_program is not None and not isinstance(test_program, Program):
            raise InvalidArgumentError(
                "[amp_init] test_program must be a recorded Program or None, got "
                f"{type(test_program).__name__}"
            )
        if self._level == "O2":
            for p in self._optimizer._parameter_list:
                if isinstance(p, Variable):
                    continue
                if p.ndim > 1 and p.dtype == "float32":
                    p._share_from(p.detach().astype(self._low))
        if test_program is not None and use_fp16_test:
            low, level = self._low.name, self._level
            rewrite("amp_init", test_program, self._lists, low, level, self._guarded)
            if level == "O2":
                store_low("amp_init", test_program, None, low)


def decorate(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 2.0**15,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    use_pure_fp16: bool = False,
    use_fp16_guard: bool | None = None,
    *,
    level: str | None = None,
    dtype: DTypeLike = "float16",
    master_weight: bool | None = None,
    master_grad: bool = False,
    use_amp_guard: bool | None = None,
    use_promote: bool = False,
) -> OptimizerWithMixedPrecision:
    """An optimizer whose recorded steps compute in 16 bits, with scaled losses.

    In static mode `minimize` records the step and rewrites the program, forward and
    backward; parameters stay float32, as master weights.

    A function that `to_static` records and that calls its `minimize` computes as in
    `proa.amp.auto_cast`: it is recorded once more for that, from its start. Without
    recording the loss is there before the optimizer: compute it in `auto_cast`.

    A step with a gradient that is not finite is one with gradients of zeros, as
    PaddlePaddle 2.1 has it, so that momentum and decay go on.

    Args:
        optimizer: Takes the steps.
        amp_lists: The classes of operators; None takes the rows' own.
        init_loss_scaling: The scale to begin with.
        incr_every_n_steps: Finite steps in a row before the scale grows.
        decr_every_n_nan_or_inf: Other steps in a row before it falls.
        incr_ratio: What it grows by, above 1.
        decr_ratio: What it falls by, below 1; it stays 1 or more.
        use_dynamic_loss_scaling: Whether the scale changes at all.
        use_pure_fp16: Level O2 instead of O1.
        use_fp16_guard: At level O2, compute in 16 bits within `fp16_guard` alone; None
            means yes.
        level: "O0", "O1" or "O2", before use_pure_fp16.
        dtype: "float16" or "bfloat16".
        master_weight: Whether the optimizer trains float32 copies of 16-bit parameters;
            None leaves that to its own multi_precision.
        master_grad: Kept for callers; steps always compute in float32.
        use_amp_guard: use_fp16_guard by its later name.
        use_promote: Kept for callers; unlike dtypes always meet in the wider.

    Raises:
        InvalidTypeError: If optimizer is none.
        InvalidArgumentError: If a number is not in its range.
        UnimplementedError: If amp_lists name values.
    """
    for name, value, minimum in (
        ("init_loss_scaling", init_loss_scaling, 0),
        ("incr_every_n_steps", incr_every_n_steps, 0),
        ("decr_every_n_nan_or_inf", decr_every_n_nan_or_inf, 0),
        ("incr_ratio", incr_ratio, 1),
        ("decr_ratio", decr_ratio, 0),
    ):
        if not value > minimum or (name == "decr_ratio" and value >= 1):
            raise InvalidArgumentError(
                f"[static.amp.decorate] {name} must be above {minimum}"
                f"{' and below 1' if name == 'decr_ratio' else ''}, got {value!r}"
            )
    scaling = None
    if use_dynamic_loss_scaling or init_loss_scaling != 1:
        scaling = LossScaling(
            init_loss_scaling, int(incr_every_n_steps), int(decr_every_n_nan_or_inf),
            incr_ratio, decr_ratio, bool(use_dynamic_loss_scaling),
        )  # fmt: skip
    guard = use_fp16_guard if use_amp_guard is None else use_amp_guard
    chosen = level or ("O2" if use_pure_fp16 else "O1")
    precision = OptimizerWithMixedPrecision(
        optimizer, amp_lists, chosen, dtype, guard, scaling
    )
    if master_weight is not None:
        optimizer._multi_precision = bool(master_weight)
    return precision
