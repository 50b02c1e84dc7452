"""Weight normalisation: direction and length as separate parameters."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn.layer import HookHandle, Layer
from proa.nn.layer.state import derived_parameter

__all__ = ["remove_weight_norm", "weight_norm"]


def _lengths(v: Tensor, dim: int) -> Tensor:
    """Lengths of the slices of v along dim, one each; of the whole for dim = -1."""
    if dim == -1:
        return ops.sqrt(ops.sum(ops.square(v)))
    others = [a for a in range(v.ndim) if a != dim]
    return ops.sqrt(ops.sum(ops.square(v), axis=others))


def _weight(v: Tensor, g: Tensor, dim: int) -> Tensor:
    scale = ops.div(g, ops.maximum(_lengths(v, dim), 1e-12))
    if dim != -1:
        shape = [1] * v.ndim
        shape[dim] = -1
        scale = ops.reshape(scale, shape=shape)
    return ops.mul(v, scale)


class _WeightNorm:
    """The hook that computes the weight before each forward."""

    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, dim
        self.handle: HookHandle | None = None

    def weight(self, layer: Layer) -> Tensor:
        """g * v / |v| of the layer's parameters."""
        v, g = getattr(layer, self.name + "_v"), getattr(layer, self.name + "_g")
        return _weight(v, g, self.dim)

    def __call__(self, layer: Layer, inputs: Any) -> None:
        setattr(layer, self.name, self.weight(layer))


def weight_norm(layer: Layer, name: str = "weight", dim: int | None = 0) -> Layer:
    """Replace a parameter w by g and v with w = g v / |v| (Salimans & Kingma, 2016).

    Args:
        layer: The layer, which is changed and returned.
        name: Its parameter; ``name + "_g"`` and ``name + "_v"`` take its place.
        dim: Axis along which each slice has a length of its own; None for one length.
    """
    for hook in layer._forward_pre_hooks.values():
        if isinstance(hook, _WeightNorm) and hook.name == name:
            raise InvalidArgumentError(
                f"[weight_norm] expected a parameter without weight norm, got {name!r}"
            )
    w = layer._parameters.get(name)
    if w is None:
        raise InvalidArgumentError(
            f"[weight_norm] expected the name of a parameter of the layer, got {name!r}"
        )
    axis = -1 if dim is None else dim
    if not -1 <= axis < w.ndim:
        raise InvalidArgumentError(
            f"[weight_norm] dim must be in [-1, {w.ndim}), got {dim}"
        )
    hook = _WeightNorm(name, axis)
    del layer._parameters[name]
    value = w.detach()
    layer.add_parameter(name + "_v", derived_parameter(value.clone(), f"{w.name}_v"))
    layer.add_parameter(
        name + "_g", derived_parameter(_lengths(value, axis), f"{w.name}_g")
    )
    setattr(layer, name, hook.weight(layer))
    hook.handle = layer.register_forward_pre_hook(hook)
    return layer


def remove_weight_norm(layer: Layer, name: str = "weight") -> Layer:
    """Make the parameter an ordinary one again, with its present value."""
    for key, hook in layer._forward_pre_hooks.items():
        if isinstance(hook, _WeightNorm) and hook.name == name:
            value = hook.weight(layer).detach()
            v = layer._parameters.pop(name + "_v")
            del layer._parameters[name + "_g"]
            del layer._forward_pre_hooks[key]
            layer.__dict__.pop(name, None)
            layer.add_parameter(
                name, derived_parameter(value, v.name.removesuffix("_v"))
            )
            return layer
    raise InvalidArgumentError(
        f"[remove_weight_norm] expected a parameter with weight norm, got {name!r}"
    )
