"""The base of optimizers: parameters, groups, learning rate, decay, clipping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

from proa import _core
from proa._core import Tensor, ops
from proa.base.mode import in_dynamic_mode, static_builder
from proa.base.no_tape import NoTape
from proa.base.observers import phase, thread_observers
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.optimizer.lr import LRScheduler
from proa.optimizer.regularizer import L2Decay, Regularizer
from proa.optimizer.state import State, Step
from proa.tensor.row_sparse import merged, parts

if TYPE_CHECKING:
    from proa.nn.clip import ClipGrad

    #: What is trained: tensors, or groups of them with settings of their own.
    ParametersLike: TypeAlias = Iterable[Tensor] | Iterable[Mapping[str, object]]
    #: Weight decay: a coefficient of L2, or a penalty.
    DecayLike: TypeAlias = float | Tensor | Regularizer

#: Parameters with their gradients.
Pairs: TypeAlias = list[tuple[Tensor, Tensor]]
#: The same, None being the gradient of a parameter that got none.
OptionalPairs: TypeAlias = Sequence[tuple[Tensor, Tensor | None]]
#: Whether decay applies to the parameter of a name.
DecayFilter = Callable[[str], bool]


class Group:
    """Parameters that share settings."""

    def __init__(self, params: list[Any], settings: dict[str, Any]) -> None:
        self.params = params
        self.lr_factor = float(settings.pop("learning_rate", 1.0))
        self.decay = settings.pop("weight_decay")
        self.clip = settings.pop("grad_clip")
        self.settings = settings


def _as_decay(where: str, value: Any) -> Regularizer | None:
    if value is None or isinstance(value, Regularizer):
        return value
    if isinstance(value, Tensor):
        value = value.item()
    if isinstance(value, (int, float)):
        return L2Decay(float(value))
    raise InvalidArgumentError(
        f"[{where}] weight_decay must be a number, L1Decay, L2Decay or None, "
        f"got {value!r}"
    )


def _as_rate(where: str, value: Any) -> float | LRScheduler:
    if isinstance(value, Tensor):
        value = value.item()
    if isinstance(value, (int, float, LRScheduler)):
        return value
    raise InvalidArgumentError(
        f"[{where}] learning_rate must be a number or an LRScheduler, got {value!r}"
    )


def _with(grad: Tensor, term: Tensor) -> Tensor:
    """The gradient and a penalty's, in the gradient's dtype."""
    return ops.add(grad, term if term.dtype is grad.dtype else term.astype(grad.dtype))


class Optimizer(State):
    """Changes parameters by their gradients.

    Args:
        learning_rate: A number or an LRScheduler.
        parameters: Tensors to train, or dicts ``{"params": [...], ...}`` whose other
            keys (weight_decay, grad_clip, learning_rate as a factor, and the
            optimizer's own) hold for them alone.
        weight_decay: A number (L2), L1Decay or L2Decay.
        grad_clip: One of `proa.nn`'s ClipGrad classes.
        name: Has no meaning here.
        multi_precision: Whether 16-bit parameters are trained as float32 copies.
    """

    #: Whether decay is the step's own affair rather than a part of the gradient.
    _decoupled = False
    #: The operator of a step: of the weights, the gradient and the slots in order.
    #: Without one, `_update` takes the step.
    _kernel: Callable[..., Any] | None = None

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: ParametersLike | None = None,
        weight_decay: DecayLike | None = None,
        grad_clip: ClipGrad | None = None,
        name: str | None = None,
        multi_precision: bool = False,
        **settings: object,
    ) -> None:
        super().__init__(multi_precision)
        where = type(self).__name__
        self._learning_rate = _as_rate(where, learning_rate)
        if parameters is None and not in_dynamic_mode():
            parameters = ()  # those of the program that is trained
        if isinstance(parameters, (Tensor, Mapping)) or parameters is None:
            raise InvalidArgumentError(
                f"[{where}] parameters must be a list of tensors or of dicts, "
                f"got {type(parameters).__name__}"
            )
        self._grad_clip = grad_clip
        self.regularization = _as_decay(where, weight_decay)
        self._defaults = {
            **settings, "weight_decay": self.regularization, "grad_clip": grad_clip,
        }  # fmt: skip
        self._groups: list[Group] = []
        self._add(list(parameters))

    def _add(self, given: list[Any]) -> None:
        if given and all(isinstance(g, Mapping) for g in given):
            for g in given:
                self._add_param_group(dict(g))
            return
        for p in given:
            if not isinstance(p, Tensor):
                raise InvalidArgumentError(
                    f"[{self._where}] parameters must be tensors, got {p!r}"
                )
        self._groups.append(Group(given, dict(self._defaults)))

    def _add_param_group(self, group: dict[str, Any]) -> None:
        params = group.pop("params", None)
        if params is None:
            raise InvalidArgumentError(
                f"[{self._where}] a group must have 'params', got {list(group)}"
            )
        known = {"learning_rate", *self._defaults}
        if set(group) - known:
            raise InvalidArgumentError(
                f"[{self._where}] a group's keys must be among {sorted(known)}, "
                f"got {sorted(group)}"
            )
        if "weight_decay" in group:
            group["weight_decay"] = _as_decay(self._where, group["weight_decay"])
        params = [params] if isinstance(params, Tensor) else list(params)
        self._groups.append(Group(params, {**self._defaults, **group}))

    @property
    def _where(self) -> str:
        return type(self).__name__

    @property
    def _parameter_list(self) -> list[Any]:
        return [p for g in self._groups for p in g.params]

    def _settings_of(self, p: Any) -> dict[str, Any]:
        """The settings of a parameter's group."""
        found = (g for g in self._groups if any(q is p for q in g.params))
        group = next(found, None)
        return self._defaults if group is None else group.settings

    # -- learning rate ----------------------------------------------------------------
    def get_lr(self) -> float:
        """The learning rate of the next step."""
        rate = self._learning_rate
        return float(rate() if isinstance(rate, LRScheduler) else rate)

    def set_lr(self, value: float) -> None:
        """Set a learning rate that is a number."""
        if isinstance(self._learning_rate, LRScheduler):
            raise PreconditionNotMetError(
                "[set_lr] expected an optimizer whose learning rate is a number, got "
                "an LRScheduler"
            )
        if not isinstance(value, (int, float)):
            raise InvalidArgumentError(f"[set_lr] expected a number, got {value!r}")
        self._learning_rate = float(value)

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Take the learning rate from a scheduler."""
        if not isinstance(scheduler, LRScheduler):
            raise InvalidArgumentError(
                f"[set_lr_scheduler] expected an LRScheduler, got {scheduler!r}"
            )
        self._learning_rate = scheduler

    # -- stepping ---------------------------------------------------------------------
    def step(self) -> None:
        """Change every parameter that has a gradient."""
        self._apply([(p, p.grad) for p in self._parameter_list])

    def apply_gradients(self, params_grads: OptionalPairs) -> list[Tensor]:
        """Take a step with these gradients: clipped, decay added, then applied.

        In static mode record it; what is returned are then the operators.
        """
        if (builder := static_builder()) is not None:
            return builder.apply(self, params_grads)
        self._apply(list(params_grads))
        return []

    def _apply(self, pairs: OptionalPairs) -> None:
        lr = self.get_lr()
        given = {id(p): (p, g) for p, g in pairs if g is not None}
        with NoTape(), phase("Optimization"):
            for group in self._groups:
                own = [given.pop(id(p)) for p in group.params if id(p) in given]
                self._apply_group(group, own, lr)
            if given:  # parameters that are in no group
                self._apply_group(
                    Group([], dict(self._defaults)), [*given.values()], lr
                )

    def _apply_group(self, group: Group, pairs: Pairs, lr: float) -> None:
        pairs = [(p, g) for p, g in pairs if not p.stop_gradient]
        if not thread_observers.steps:
            self._step_group(group, pairs, lr)
            return
        with ExitStack() as stack:
            for observe in thread_observers.steps:
                stack.enter_context(observe(self, group, [p for p, _ in pairs]))
            self._step_group(group, pairs, lr)

    def _step_group(self, group: Group, pairs: Pairs, lr: float) -> None:
        if group.clip is not None:
            pairs = group.clip(pairs)
        # Steps of one learning rate, decay and count are one call.
        batches: dict[tuple[float, float, int], list[Step]] = {}
        steps = [self._prepared(p, g, lr, group) for p, g in pairs]
        for step in steps:
            if parts(step.grad) is not None and self._rows_alone(step):
                self._update_rows(step)
            else:
                key = (step.lr, step.decay, step.slot_values["step"])
                batches.setdefault(key, []).append(step)
        for batch in batches.values():
            self._update_all(batch)
        for step in steps:
            if step.weights is not step.param:
                step.param[...] = step.weights

    def _prepared(self, p: Any, g: Tensor, lr: float, group: Group) -> Step:
        """A parameter's step, which is counted here."""
        rate = self._rate_of(p, group, lr)
        own = getattr(p, "regularizer", None)
        decay = group.decay
        if own is not None and self._decoupled:
            g = _with(g, own(p))
        elif own is not None:
            decay = own
        coefficient = 0.0
        if isinstance(decay, L2Decay):
            coefficient = decay.coeff  # which the step's kernel applies
        elif decay is not None:
            g = _with(g, decay(p))
        slot_values = self._slot_values(p)
        slot_values["step"] += 1
        master = self._master_of(p)
        weights = p if master is None else master
        return Step(p, weights, g, slot_values, rate, coefficient, group.settings)

    def _rate_of(self, p: Any, group: Group, lr: float) -> float:
        """The parameter's learning rate where the optimizer's is lr."""
        rate = lr * group.lr_factor
        attr = getattr(p, "optimize_attr", None)
        if attr is not None:
            rate *= attr["learning_rate"]
        return rate

    def _rows_alone(self, step: Step) -> bool:
        """Whether a row-sparse gradient changes no other row (or is to change none)."""
        return False

    def _update_rows(self, step: Step) -> None:
        """Update the rows of a row-sparse gradient."""
        found = parts(step.grad)
        assert found is not None
        if found[0]._is_symbolic:  # the last row comes again, with the same result
            rows, values = ops.merge_rows(*found)
        else:
            rows, values = parts(merged(step.grad)) or found
        whole = {
            "": step.weights,
            **{slot: step.slot_values[slot] for slot in self._slots},
        }
        taken = {name: ops.gather(x, rows) for name, x in whole.items()}
        slot_values = {**step.slot_values, **taken}
        self._update(step.of(weights=taken[""], grad=values, slot_values=slot_values))
        for name, x in whole.items():
            ops.put_rows_(x, rows, taken[name])

    def _update(self, step: Step) -> None:
        """Change ``step.weights`` and what is kept for them."""
        if self._kernel is None:
            raise NotImplementedError
        self._update_all([step])

    def _update_all(self, steps: list[Step]) -> None:
        """The same for steps that differ in their tensors alone."""
        if self._kernel is None:
            for step in steps:
                self._update(step)
            return
        _core.each(
            self._kernel,
            [step.weights for step in steps],
            [step.grad for step in steps],
            *([step.slot_values[slot] for step in steps] for slot in self._slots),
            **self._attributes(steps[0]),
        )

    def _attributes(self, step: Step) -> dict[str, Any]:
        """The attributes of the step's operator."""
        return {"lr": step.lr, "weight_decay": step.decay}

    def append_regularization_ops(
        self,
        parameters_and_grads: OptionalPairs,
        regularization: DecayLike | None = None,
    ) -> list[tuple[Tensor, Tensor | None]]:
        """The pairs with decay added to gradients: each parameter's own, or this."""
        shared = _as_decay("append_regularization_ops", regularization)
        result: list[tuple[Tensor, Tensor | None]] = []
        with NoTape():
            for p, g in parameters_and_grads:
                decay = getattr(p, "regularizer", None) or shared
                if g is not None and decay is not None:
                    g = _with(g, decay(p))
                result.append((p, g))
        return result

    def backward(
        self,
        loss: Tensor,
        startup_program: object = None,
        parameters: Iterable[Tensor] | None = None,
        no_grad_set: Iterable[Tensor | str] | None = None,
        callbacks: object = None,
    ) -> Pairs:
        """Parameters with their gradients, which are computed if there are none yet.

        In static mode they are recorded (see `static.append_backward`).

        Args:
            loss: What to differentiate.
            startup_program: In static mode what fills this optimizer's state at first.
            parameters: Take these alone.
            no_grad_set: Leave these (tensors or names) out.
            callbacks: Has no meaning here.
        """
        if (builder := static_builder()) is not None:
            return builder.backward(
                self, loss, startup_program, parameters, no_grad_set
            )
        given = self._parameter_list if parameters is None else list(parameters)
        out = set(no_grad_set or ())
        names = {x for x in out if isinstance(x, str)}
        ids = {id(x) for x in out}
        given = [p for p in given if id(p) not in ids and p.name not in names]
        if all(p._held_grad is None for p in given):
            loss.backward()
        return [(p, p.grad) for p in given if p.grad is not None]

    def minimize(
        self,
        loss: Tensor,
        startup_program: object = None,
        parameters: Iterable[Tensor] | None = None,
        no_grad_set: Iterable[Tensor | str] | None = None,
    ) -> tuple[list[Tensor], Pairs]:
        """Take a step with the parameters' gradients, computed if there are none.

        In static mode record that, so that every run of the program takes a step.

        Returns:
            (in static mode the step's operators, the parameters with their gradients)
        """
        pairs = self.backward(loss, startup_program, parameters, no_grad_set)
        if (builder := static_builder()) is not None:
            return builder.apply(self, pairs, startup_program), pairs
        self._apply(pairs)
        return [], pairs

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Make zeros of all parameters' gradients, or None if not set_to_zero.

        Zeros take no memory and no time until they are read, as by a step of parameters
        that got no gradient since: momentum and decay then go on.
        """
        for p in self._parameter_list:
            p.clear_grad(set_to_zero)

    clear_gradients = clear_grad
