"""The base of optimizers: parameters, groups, learning rate, decay, clipping, state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from proa._core import Tensor, ops
from proa.base.naming import unique_name
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError
from proa.optimizer.lr import LRScheduler
from proa.optimizer.regularizer import L1Decay, L2Decay, Regularizer


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
    if isinstance(value, (int, float)):
        return L2Decay(float(value))
    raise InvalidArgumentError(
        f"[{where}] weight_decay must be a number, L1Decay, L2Decay or None, "
        f"got {value!r}"
    )


class Optimizer:
    """Changes parameters by their gradients.

    Args:
        learning_rate: A number or an LRScheduler.
        parameters: Tensors to train, or dicts ``{"params": [...], ...}`` whose other
            keys (weight_decay, grad_clip, learning_rate as a factor, and the
            optimizer's own) hold for them alone.
        weight_decay: A number (L2), L1Decay or L2Decay.
        grad_clip: One of `proa.nn`'s ClipGrad classes.
        name: Has no meaning here.
    """

    #: Names of the tensors kept for each parameter.
    _slots: tuple[str, ...] = ()
    #: Settings that a group of parameters may have of its own.
    _group_settings: tuple[str, ...] = ()

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: Iterable[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        **settings: Any,
    ) -> None:
        where = self._where = type(self).__name__
        if not isinstance(learning_rate, (int, float, LRScheduler)):
            raise InvalidArgumentError(
                f"[{where}] learning_rate must be a number or an LRScheduler, "
                f"got {learning_rate!r}"
            )
        if isinstance(parameters, (Tensor, Mapping)) or parameters is None:
            raise InvalidArgumentError(
                f"[{where}] parameters must be a list of tensors or of dicts, "
                f"got {type(parameters).__name__}"
            )
        self._learning_rate = learning_rate
        self._grad_clip = grad_clip
        self.regularization = _as_decay(where, weight_decay)
        self._defaults = {
            **settings, "weight_decay": self.regularization, "grad_clip": grad_clip,
        }  # fmt: skip
        self._groups: list[Group] = []
        self._state: dict[str, dict[str, Any]] = {}
        self._names: dict[int, str] = {}
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
    def _parameter_list(self) -> list[Any]:
        return [p for g in self._groups for p in g.params]

    def _name(self, p: Any) -> str:
        """The parameter's name; tensors without one get one that lasts."""
        name: str = p.name
        if not name:
            name = self._names.setdefault(id(p), unique_name("optimized"))
        return name

    # -- learning rate ----------------------------------------------------------------
    def get_lr(self) -> float:
        """The learning rate of the next step."""
        if isinstance(self._learning_rate, LRScheduler):
            return float(self._learning_rate())
        return float(self._learning_rate)

    def set_lr(self, value: float) -> None:
        """Set a learning rate that is a number."""
        if isinstance(self._learning_rate, LRScheduler):
            raise PreconditionNotMetError(
                "[set_lr] the learning rate must be a number, got an LRScheduler"
            )
        if not isinstance(value, (int, float)):
            raise InvalidArgumentError(f"[set_lr] it must be a number, got {value!r}")
        self._learning_rate = float(value)

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Take the learning rate from a scheduler."""
        self._learning_rate = scheduler

    # -- stepping ---------------------------------------------------------------------
    def step(self) -> None:
        """Change every parameter that has a gradient."""
        lr = self.get_lr()
        with NoTape():
            for group in self._groups:
                pairs = [
                    (p, p.grad)
                    for p in group.params
                    if not p.stop_gradient and p.grad is not None
                ]
                self._apply(group, pairs, lr * group.lr_factor)

    def _apply(self, group: Group, pairs: list[tuple[Any, Any]], lr: float) -> None:
        if group.clip is not None:
            pairs = group.clip(pairs)
        for p, g in pairs:
            own = getattr(p, "regularizer", None)
            decay = group.decay if own is None else own
            rate = lr
            attr = getattr(p, "optimize_attr", None)
            if attr is not None:
                rate *= attr["learning_rate"]
            if isinstance(decay, L1Decay):
                g = ops.add(g, ops.mul(ops.sign(p), decay.coeff))
            l2 = decay.coeff if isinstance(decay, L2Decay) else 0.0
            if g.dtype is not p.dtype:
                g = ops.cast(g, dtype=p.dtype)
            self._update(group, p, g, rate, l2)

    def _update(self, group: Group, p: Any, g: Tensor, lr: float, decay: float) -> None:
        """One parameter's step; ``decay`` is the coefficient of L2 decay."""
        raise NotImplementedError

    def _slots_of(self, p: Any) -> dict[str, Any]:
        """What is kept for a parameter: zeros like it at first, and the step count."""
        name = self._name(p)
        found = self._state.get(name)
        if found is None:
            found = {
                slot: ops.full(shape=p.shape, value=0, dtype=p.dtype)
                for slot in self._slots
            }
            found["step"] = 0
            self._state[name] = found
        return found

    def backward(
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameters: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Compute gradients; returns parameters with theirs."""
        loss.backward()
        given = self._parameter_list if parameters is None else parameters
        return [(p, p.grad) for p in given if p.grad is not None]

    def minimize(
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameters: Any = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Take a step with the parameters' gradients, computed if there are none."""
        pairs = [(p, p.grad) for p in self._parameter_list if p.grad is not None]
        if not pairs:
            pairs = self.backward(loss)
        self.step()
        return [], pairs

    def clear_grad(self, set_to_zero: bool = False) -> None:
        """Forget the gradients of all parameters."""
        for p in self._parameter_list:
            p.clear_grad(set_to_zero)

    clear_gradients = clear_grad

    # -- state ------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """What training goes on from: kept tensors, step counts, the scheduler."""
        out: dict[str, Any] = {}
        for name, slots in self._state.items():
            for slot, value in slots.items():
                out[f"{name}_{slot}_0"] = value
        if isinstance(self._learning_rate, LRScheduler):
            out["LR_Scheduler"] = self._learning_rate.state_dict()
        return out

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave, for parameters of the same names."""
        scheduler = state_dict.get("LR_Scheduler")
        if isinstance(self._learning_rate, LRScheduler) and scheduler is not None:
            self._learning_rate.set_state_dict(scheduler)
        for p in self._parameter_list:
            name = self._name(p)
            keys = {slot: f"{name}_{slot}_0" for slot in (*self._slots, "step")}
            present = [slot for slot, key in keys.items() if key in state_dict]
            if not present:
                continue
            if len(present) < len(keys):
                missing = [keys[s] for s in keys if s not in present]
                raise NotFoundError(
                    f"[{self._where}.set_state_dict] state must be whole, got none "
                    f"for {missing}"
                )
            kept = self._slots_of(p)
            for slot in self._slots:
                kept[slot].set_value(state_dict[keys[slot]])
            step = state_dict[keys["step"]]
            kept["step"] = int(step.item() if isinstance(step, Tensor) else step)

    set_dict = set_state_dict


#: Whether decay applies to the parameter of a name.
DecayFilter = Callable[[str], bool]
