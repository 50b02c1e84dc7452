"""Operations whose forward and backward are written in Python."""

from __future__ import annotations

from typing import Any

from proa import _core
from proa._core import Tensor
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    PreconditionNotMetError,
    UnimplementedError,
)
from proa.tensor.creation import zeros_like


def _check_tensors(method: str, values: tuple[Any, ...]) -> None:
    for value in values:
        if not isinstance(value, Tensor):
            raise InvalidTypeError(
                f"[PyLayerContext.{method}] expected Tensors, got "
                f"{type(value).__name__!r}"
            )


class PyLayerContext:
    """What `forward` hands to `backward`; attributes may be set freely."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._versions: tuple[int, ...] = ()
        self._constants: set[int] = set()
        self._materialize = True
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
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
        """No gradient flows through these outputs.

        Raises:
            InvalidTypeError: If one of them is no Tensor.
        """
        _check_tensors("mark_non_differentiable", tensors)
        self._constants.update(id(t) for t in tensors)

    def mark_not_inplace(self, *args: Tensor) -> None:
        """These inputs, if `forward` returns them, become tensors of their own.

        They do so anyway: what `apply` returns is never its argument.
        """
        _check_tensors("mark_not_inplace", args)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None for an output that no
        gradient reached.
        """
        self._materialize = bool(value)


class PyLayer:
    """Subclass with static methods ``forward(ctx, ...)`` and ``backward(ctx, *grads)``.

    `backward` gets a gradient for each tensor that `forward` returned and returns one
    for each tensor among its arguments, or None for one that takes no gradient. Call it
    by ``apply``.
    """

    #: Whether `backward` may return None for inputs that take a gradient.
    _optional_gradients = False

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
        """Run `forward`, and note on the tape that `backward` differentiates it.

        Raises:
            UnimplementedError: If `forward` returns no Tensor.
            InvalidArgumentError: If `forward` changes a leaf that takes a gradient in
                place, or, when gradients are computed, `backward` returns something
                other than a Tensor for an argument that takes one.
        """
        ctx = PyLayerContext()
        inputs = [a for a in (*args, *keywords.values()) if isinstance(a, Tensor)]
        ctx.needs_input_grad = tuple(not t.stop_gradient for t in inputs)
        versions = [t.inplace_version for t in inputs]
        recording: bool = _core.set_grad_enabled(False)
        try:
            result = cls.forward(ctx, *args, **keywords)
        finally:
            _core.set_grad_enabled(recording)
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        cls._check_outputs(values)
        if not recording or not any(ctx.needs_input_grad):
            return result
        cls._check_leaves(inputs, versions)
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
            back = cls.backward(ctx, *every)
            if not cls._optional_gradients:
                cls._check_gradients(back, ctx.needs_input_grad)
            return back

        _core.record_custom(cls.__name__, inputs, outputs, backward, ctx._materialize)
        return type(result)(values) if isinstance(result, (tuple, list)) else values[0]

    @classmethod
    def _check_outputs(cls, values: list[Any]) -> None:
        if not any(isinstance(value, Tensor) for value in values):
            kinds = ", ".join(type(value).__name__ for value in values)
            raise UnimplementedError(
                f"[{cls.__name__}] expected forward to return at least one Tensor, got "
                f"{kinds or 'nothing'}"
            )

    @classmethod
    def _check_leaves(cls, inputs: list[Tensor], versions: list[int]) -> None:
        """A leaf that was changed in place would get the gradient of its new value."""
        for tensor, version in zip(inputs, versions, strict=True):
            changed = tensor.inplace_version != version
            if changed and tensor.is_leaf and not tensor.stop_gradient:
                raise InvalidArgumentError(
                    f"[{cls.__name__}] expected forward to leave leaves that take a "
                    f"gradient as they are, got {tensor.name} changed in place"
                )

    @classmethod
    def _check_gradients(cls, back: Any, needed: tuple[bool, ...]) -> None:
        """`backward` returns a Tensor for each input that takes a gradient."""
        grads = list(back) if isinstance(back, (tuple, list)) else [back]
        if len(grads) != len(needed):
            raise InvalidArgumentError(
                f"[{cls.__name__}] expected backward to return one gradient for each "
                f"of {len(needed)} tensor inputs, got {len(grads)}"
            )
        for i, (grad, need) in enumerate(zip(grads, needed, strict=True)):
            if isinstance(grad, Tensor) or (grad is None and not need):
                continue
            kind = "None" if grad is None else repr(type(grad).__name__)
            raise InvalidArgumentError(
                f"[{cls.__name__}] expected backward to return a Tensor as the "
                f"gradient of input {i}, got {kind}"
            )
