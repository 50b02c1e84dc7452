"""`GradScaler`: losses scaled so that 16-bit gradients neither vanish nor overflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.tensor.row_sparse import values_of, with_values

if TYPE_CHECKING:
    from proa.optimizer.optimizer import Optimizer, Pairs

_READY, _UNSCALED, _STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """Scale losses, take gradients back, and leave out steps with NaN or infinity.

    The scale grows by incr_ratio after incr_every_n_steps steps of finite gradients and
    falls by decr_ratio after decr_every_n_nan_or_inf steps that were left out.

    Args:
        enable: False makes every method return its argument unchanged.
        init_loss_scaling: The scale to begin with.
        incr_ratio: What the scale grows by, above 1.
        decr_ratio: What it falls by, below 1.
        incr_every_n_steps: Good steps in a row before it grows.
        decr_every_n_nan_or_inf: Steps left out before it falls.
        use_dynamic_loss_scaling: Whether the scale changes at all.
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**15,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 1000,
        decr_every_n_nan_or_inf: int = 2,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        self._enable = bool(enable)
        self._dynamic = bool(use_dynamic_loss_scaling)
        self._scale: float
        self.set_init_loss_scaling(init_loss_scaling)
        self.set_incr_ratio(incr_ratio)
        self.set_decr_ratio(decr_ratio)
        self.set_incr_every_n_steps(incr_every_n_steps)
        self.set_decr_every_n_nan_or_inf(decr_every_n_nan_or_inf)
        self._incr_count = self._decr_count = 0
        self._found_inf = False
        self._states: dict[int, str] = {}

    # -- a step -----------------------------------------------------------------------
    def scale(self, var: Tensor) -> Tensor:
        """``var`` times the scale."""
        if not self._enable:
            return var
        return ops.mul(var, self._scale)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the optimizer's gradients by the scale and look for NaN and infinity.

        For those who clip or read gradients before `step`, which else does it itself.
        """
        if not self._enable:
            return
        state = self._states.get(id(optimizer), _READY)
        if state == _UNSCALED:
            raise PreconditionNotMetError(
                "[GradScaler.unscale_] expected one call between two of update(), "
                "got a second one"
            )
        if state == _STEPPED:
            raise PreconditionNotMetError(
                "[GradScaler.unscale_] expected a call before step(), got one after it"
            )
        with NoTape():
            for p in optimizer._parameter_list:
                if p.grad is not None:
                    values = ops.mul(values_of(p.grad), 1.0 / self._scale)
                    self._found_inf |= not ops.all(ops.isfinite(values)).item()
                    p.grad = with_values(p.grad, values)
        self._states[id(optimizer)] = _UNSCALED

    def step(self, optimizer: Optimizer) -> None:
        """Take the optimizer's step, unless a gradient is NaN or infinite."""
        if not self._enable:
            optimizer.step()
            return
        state = self._states.get(id(optimizer), _READY)
        if state == _STEPPED:
            raise PreconditionNotMetError(
                "[GradScaler.step] expected update() between two calls of step(), "
                "got none"
            )
        if state == _READY:
            self.unscale_(optimizer)
        if not self._found_inf:
            optimizer.step()
        self._states[id(optimizer)] = _STEPPED

    def update(self) -> None:
        """Change the scale by how the step went."""
        if not self._enable:
            return
        if self._dynamic:
            self._adjust()
        self._found_inf = False
        self._states.clear()

    def _adjust(self) -> None:
        if self._found_inf:
            self._incr_count, self._decr_count = 0, self._decr_count + 1
            if self._decr_count == self._decr_every:
                self._scale = max(self._scale * self._decr_ratio, 1.0)
                self._decr_count = 0
        else:
            self._decr_count, self._incr_count = 0, self._incr_count + 1
            if self._incr_count == self._incr_every:
                self._scale *= self._incr_ratio
                self._incr_count = 0

    def minimize(
        self, optimizer: Optimizer, *args: Any, **kwargs: Any
    ) -> tuple[list[Tensor], Pairs]:
        """`step` and `update` by one call, with the arguments of optimizer.minimize."""
        if not self._enable:
            return optimizer.minimize(*args, **kwargs)
        if self._states.get(id(optimizer), _READY) == _READY:
            self.unscale_(optimizer)
        result: tuple[list[Tensor], Pairs] = ([], [])
        if not self._found_inf:
            result = optimizer.minimize(*args, **kwargs)
        self._states[id(optimizer)] = _STEPPED
        self.update()
        return result

    # -- settings ---------------------------------------------------------------------
    def is_enable(self) -> bool:
        """Whether losses are scaled."""
        return self._enable

    def is_use_dynamic_loss_scaling(self) -> bool:
        """Whether the scale changes."""
        return self._dynamic

    def get_init_loss_scaling(self) -> float:
        """The scale that training began with."""
        return self._init_scale

    def set_init_loss_scaling(self, new_init_loss_scaling: float) -> None:
        """Set the scale to begin with, and go on from it."""
        self._scale = _above("init_loss_scaling", new_init_loss_scaling, 0)
        self._init_scale = self._scale

    def get_incr_ratio(self) -> float:
        """What the scale grows by."""
        return self._incr_ratio

    def set_incr_ratio(self, new_incr_ratio: float) -> None:
        """Set what the scale grows by, above 1."""
        self._incr_ratio = _above("incr_ratio", new_incr_ratio, 1)

    def get_decr_ratio(self) -> float:
        """What the scale falls by."""
        return self._decr_ratio

    def set_decr_ratio(self, new_decr_ratio: float) -> None:
        """Set what the scale falls by, below 1."""
        value = _above("decr_ratio", new_decr_ratio, 0)
        if value >= 1:
            raise InvalidArgumentError(
                f"[GradScaler] decr_ratio must be below 1, got {new_decr_ratio}"
            )
        self._decr_ratio = value

    def get_incr_every_n_steps(self) -> int:
        """Good steps in a row before the scale grows."""
        return self._incr_every

    def set_incr_every_n_steps(self, new_incr_every_n_steps: int) -> None:
        """Set the good steps in a row before the scale grows."""
        value = _above("incr_every_n_steps", new_incr_every_n_steps, 0)
        self._incr_every = int(value)

    def get_decr_every_n_nan_or_inf(self) -> int:
        """Steps left out before the scale falls."""
        return self._decr_every

    def set_decr_every_n_nan_or_inf(self, new_decr_every_n_nan_or_inf: int) -> None:
        """Set the steps left out before the scale falls."""
        value = _above("decr_every_n_nan_or_inf", new_decr_every_n_nan_or_inf, 0)
        self._decr_every = int(value)

    # -- state ------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """The scale, its settings and counts; empty if not enabled."""
        if not self._enable:
            return {}
        return {
            "scale": self._scale,
            "incr_ratio": self._incr_ratio,
            "decr_ratio": self._decr_ratio,
            "incr_every_n_steps": self._incr_every,
            "decr_every_n_nan_or_inf": self._decr_every,
            "incr_count": self._incr_count,
            "decr_count": self._decr_count,
            "use_dynamic_loss_scaling": self._dynamic,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        if not self._enable:
            return
        missing = [key for key in self.state_dict() if key not in state_dict]
        if missing:
            raise InvalidArgumentError(
                "[GradScaler.load_state_dict] expected a complete state, got one "
                f"without {missing}"
            )
        scale = state_dict["scale"]
        self.set_init_loss_scaling(scale.item() if hasattr(scale, "item") else scale)
        self.set_incr_ratio(state_dict["incr_ratio"])
        self.set_decr_ratio(state_dict["decr_ratio"])
        self.set_incr_every_n_steps(state_dict["incr_every_n_steps"])
        self.set_decr_every_n_nan_or_inf(state_dict["decr_every_n_nan_or_inf"])
        self._incr_count = int(state_dict["incr_count"])
        self._decr_count = int(state_dict["decr_count"])
        self._dynamic = bool(state_dict["use_dynamic_loss_scaling"])


AmpScaler = GradScaler


def _above(name: str, value: Any, minimum: float) -> float:
    if not isinstance(value, (int, float)) or not value > minimum:
        raise InvalidArgumentError(
            f"[GradScaler] {name} must be a number above {minimum}, got {value!r}"
        )
    return float(value)
