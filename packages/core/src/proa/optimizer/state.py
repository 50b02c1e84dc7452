"""What optimizers keep for each parameter, and how it is saved."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proa._core import Tensor, ops
from proa.base.mode import static_builder
from proa.base.naming import unique_name
from proa.errors import NotFoundError
from proa.optimizer.lr import LRScheduler

_LOW = ("float16", "bfloat16")
_SMALLEST, _MANY = 1e-37, 1 << 30


@dataclass(slots=True)
class Step:
    """One parameter's step.

    Attributes:
        param: The parameter.
        weights: What is to change: the parameter, its float32 copy, or rows of either.
        grad: The gradient, of any floating dtype.
        kept: Tensors kept by slot, of the weights' shape, and the count "step".
        lr: The learning rate.
        decay: The coefficient of L2 decay.
        settings: The optimizer's own settings for the parameter.
    """

    param: Any
    weights: Tensor
    grad: Tensor
    slot_values: dict[str, Any]
    lr: float
    decay: float
    settings: dict[str, Any]

    def of(self, **changes: Any) -> Step:
        """The step with other fields."""
        return dataclasses.replace(self, **changes)


def _power(beta: float, count: int) -> Tensor:
    """beta ** (count + 1), as PaddlePaddle keeps the number of steps."""
    return ops.full(shape=[1], value=beta ** (count + 1), dtype="float32")


def _count(powers: dict[float, float]) -> int:
    """The number of steps that `_power` made these of, by beta."""
    exact = [
        round(math.log(value) / math.log(beta)) - 1
        for beta, value in powers.items()
        if 0 < beta < 1 and _SMALLEST < value < 1
    ]
    if exact:
        return max(exact)
    # Powers too small for float32: so many steps that their number is no matter.
    return _MANY if any(value <= _SMALLEST for value in powers.values()) else 0


class State:
    """Slots, float32 copies and step counts by the parameters' names."""

    #: Names of the tensors kept for each parameter.
    _slots: tuple[str, ...] = ()
    #: Saved powers from which the step count follows: (key, setting).
    _powers: tuple[tuple[str, str], ...] = ()
    _learning_rate: float | LRScheduler

    def __init__(self, multi_precision: bool) -> None:
        self._multi_precision = multi_precision
        self._state: dict[str, dict[str, Any]] = {}
        self._masters: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}

    @property
    def _parameter_list(self) -> list[Any]:
        raise NotImplementedError

    def _settings_of(self, p: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _name(self, p: Any) -> str:
        """The parameter's name; tensors without one get one that lasts."""
        name: str = p.name
        return name or self._names.setdefault(id(p), unique_name("optimized"))

    def _has_master(self, p: Any) -> bool:
        return self._multi_precision and p.dtype.name in _LOW

    def _master_of(self, p: Any) -> Tensor | None:
        """The float32 copy of a 16-bit parameter that is trained in its place."""
        if not self._has_master(p):
            return None
        name = self._name(p)
        if name not in self._masters:
            builder = static_builder()
            self._masters[name] = (
                ops.cast(p.detach(), dtype="float32")
                if builder is None
                else builder.master(f"{name}_fp32_master_0", p)
            )
        return self._masters[name]

    def _first(self, slot: str) -> float:
        """What a slot is filled with at first."""
        return 0.0

    def _slot_values(self, p: Any) -> dict[str, Any]:
        """What is kept for a parameter: its slots and the count of its steps."""
        name = self._name(p)
        found = self._state.get(name)
        if found is None:
            dtype = "float32" if self._has_master(p) else p.dtype
            found = {slot: self._filled(p, slot, dtype) for slot in self._slots}
            found["step"] = 0
            self._state[name] = found
        return found

    def _filled(self, p: Any, slot: str, dtype: Any) -> Tensor:
        """A slot of a parameter before its first step."""
        first, builder = self._first(slot), static_builder()
        if builder is None:
            return ops.full(shape=p.shape, value=first, dtype=dtype)
        return builder.slot(f"{self._name(p)}_{slot}_0", p, dtype, first)

    def _prepare(self, p: Any, data: Tensor) -> None:
        """Make what is kept for a parameter with this data, before its first step."""
        self._slot_values(p)
        if self._has_master(p) and self._name(p) not in self._masters:
            self._masters[self._name(p)] = ops.cast(data, dtype="float32")

    def get_opti_var_name_list(self) -> list[str]:
        """Names of the tensors kept so far, as in `state_dict`."""
        return [k for k, v in self.state_dict().items() if isinstance(v, Tensor)]

    def state_dict(self) -> dict[str, Any]:
        """What training continues from: kept tensors, powers that count steps, float32
        copies (``master_weights``) and the schedule (``LR_Scheduler``).
        """
        out: dict[str, Any] = {}
        for p in self._parameter_list:
            name = self._name(p)
            slot_values = self._state.get(name)
            if slot_values is None:
                continue
            for slot in self._slots:
                out[f"{name}_{slot}_0"] = slot_values[slot]
            for key, setting in self._powers:
                beta = self._settings_of(p)[setting]
                out[f"{name}_{key}_0"] = _power(beta, slot_values["step"])
        if self._masters:
            out["master_weights"] = dict(self._masters)
        if isinstance(self._learning_rate, LRScheduler):
            out["LR_Scheduler"] = self._learning_rate.state_dict()
        return out

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave, for parameters of the same names."""
        scheduler = state_dict.get("LR_Scheduler")
        if isinstance(self._learning_rate, LRScheduler) and scheduler is not None:
            self._learning_rate.set_state_dict(scheduler)
        masters = state_dict.get("master_weights", {})
        for p in self._parameter_list:
            name = self._name(p)
            own = (*self._slots, *(key for key, _ in self._powers))
            keys = {slot: f"{name}_{slot}_0" for slot in own}
            present = [slot for slot, key in keys.items() if key in state_dict]
            if present:
                missing = [keys[s] for s in keys if s not in present]
                if missing:
                    raise NotFoundError(
                        f"[{type(self).__name__}.set_state_dict] expected a complete "
                        f"state, got none for {missing}"
                    )
                self._restore(p, {s: state_dict[key] for s, key in keys.items()})
            master = self._master_of(p)
            if master is not None and name in masters:
                master.set_value(masters[name])

    def _restore(self, p: Any, saved: dict[str, Any]) -> None:
        slot_values, settings = self._slot_values(p), self._settings_of(p)
        for slot in self._slots:
            slot_values[slot].set_value(saved[slot])
        slot_values["step"] = _count(
            {settings[s]: float(saved[key].item()) for key, s in self._powers}
        )

    set_dict = set_state_dict
