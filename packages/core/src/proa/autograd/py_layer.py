"""Operations whose forward and backward are written in Python."""

from __future__ import annotations

from typing import Any

from proa import _core
from proa._core import Tensor
from proa.errors import PreconditionNotMetError
from proa.tensor.creation import zeros_like


class PyLayerContext:
    """What `forward` hands to `backward`; attributes may be set freely."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._versions: tuple[int, ...] = ()
        self._constants: set[int] = set()
        self._materialize = True
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors; a later change in place is found out."""
        self._saved = tensors
        self._versions = tuple(
            t.inplace_version if isinstance(t, Tensor) else 0 for t in tensors
        )

    def saved_tensor(self) -> tuple[Any, ...]:
        """What save_for_backward kept."""
        for t, version in zip(self._saved, self._versions, strict=True):
            if isinstance(t, Tensor) and t.inplace_version != version:
                raise PreconditionNotMetError(
                    "[PyLayer] a saved tensor must not change in place, got version "
                    f"{t.inplace_version}, expected {version}"
                )
        return self._saved

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """No gradient flows through these outputs."""
        self._constants.update(id(t) for t in tensors)

    def mark_not_inplace(self, *args: Tensor) -> None:
        """These inputs, if `forward` returns them, become tensors of their own.

        They do so anyway: what `apply` returns is never its argument.
        """

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None for an output that no
        gradient reached.
        """
        self._materialize = bool(value)


class PyLayer:
    """Subclass with static methods ``forward(ctx, ...)`` and ``backward(ctx, *grads)``.

    `backward` gets a gradient for each tensor that `forward` returned and returns one
    (or None) for each tensor among its arguments. Call it by ``apply``.
    """

    @staticmethod
    def forward(ctx: PyLayerContext, *args: Any, **keywords: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError("[PyLayer] forward must be defined by the subclass")

    @staticmethod
    def backward(ctx: PyLayerContext, *grads: Tensor) -> Any:
        """Compute the inputs' gradients."""
        raise NotImplementedError("[PyLayer] backward must be defined by the subclass")

    @classmethod
    def apply(cls, *args: Any, **keywords: Any) -> Any:
        """Run `forward`, and note on the tape that `backward` differentiates it."""
        ctx = PyLayerContext()
        inputs = [a for a in (*args, *keywords.values()) if isinstance(a, Tensor)]
        ctx.needs_input_grad = tuple(not t.stop_gradient for t in inputs)
        recording: bool = _core.set_grad_enabled(False)
        try:
            result = cls.forward(ctx, *args, **keywords)
        finally:
            _core.set_grad_enabled(recording)
        if not recording or not any(ctx.needs_input_grad):
            return result
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        given = {id(t) for t in inputs}
        outputs: list[Tensor] = []
        constants: dict[int, Tensor] = {}  # by their place among the tensors
        for i, value in enumerate(values):
            if not isinstance(value, Tensor):
                continue
            if id(value) in ctx._constants:
                constants[len(outputs) + len(constants)] = value
                continue
            if id(value) in given or not value.is_leaf:
                values[i] = value = value.detach()
            outputs.append(value)

        def backward(*grads: Any) -> Any:
            every = list(grads)
            for place, constant in constants.items():
                zero = zeros_like(constant) if ctx._materialize else None
                every.insert(place, zero)
            return cls.backward(ctx, *every)

        _core.record_custom(cls.__name__, inputs, outputs, backward, ctx._materialize)
        return type(result)(values) if isinstance(result, (tuple, list)) else values[0]
