"""Spectral normalisation of a layer's parameter."""

from __future__ import annotations

from typing import Any

from proa.errors import InvalidArgumentError
from proa.nn.functional.spectral import (
    iterated,
    power_iteration,
    spectral_scaled,
    unit_vector,
)
from proa.nn.layer import Layer
from proa.nn.layer.state import derived_parameter
from proa.tensor.arguments import present_axis

__all__ = ["spectral_norm"]


class _SpectralNorm:
    """The hook that computes the weight before each forward."""

    def __init__(self, name: str, dim: int, rounds: int, eps: float) -> None:
        self.name, self.dim, self.rounds, self.eps = name, dim, rounds, eps

    def __call__(self, layer: Layer, inputs: Any) -> None:
        w = getattr(layer, self.name + "_orig")
        u, v = getattr(layer, self.name + "_u"), getattr(layer, self.name + "_v")
        if layer.training:
            power_iteration(w, u, v, self.dim, self.rounds, self.eps)
        setattr(layer, self.name, spectral_scaled(w, u, v, self.dim))


def spectral_norm(
    layer: Layer,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Layer:
    """Divide a parameter by its largest singular value (Miyato et al., 2018).

    The value is estimated by power iteration, continued at each forward in training.

    Args:
        layer: The layer, which is changed and returned.
        name: Its parameter; it lives on as ``name + "_orig"``, with the buffers
            ``name + "_u"`` and ``name + "_v"``.
        n_power_iterations: Rounds at each forward.
        eps: Smallest length that vectors are divided by.
        dim: The axis that makes the rows of the matrix; None is 1 for linear layers and
            transposed convolutions, else 0.
    """
    w = layer._parameters.get(name)
    if w is None:
        raise InvalidArgumentError(
            "[spectral_norm] expected the name of a parameter of the layer, got "
            f"{name!r}"
        )
    if n_power_iterations <= 0:
        raise InvalidArgumentError(
            "[spectral_norm] n_power_iterations must be positive, "
            f"got {n_power_iterations}"
        )
    if dim is None:
        kind = type(layer).__name__
        dim = 1 if kind == "Linear" or kind.endswith("Transpose") else 0
    dim = present_axis("spectral_norm", dim, w.ndim)
    del layer._parameters[name]
    original = derived_parameter(w.detach(), w.name, not w.stop_gradient)
    layer.add_parameter(name + "_orig", original)
    rows = w.shape[dim]
    left = unit_vector(rows, w.dtype, eps)
    right = unit_vector(w.size // rows, w.dtype, eps)
    vectors = iterated(original, left, right, dim, 15, eps)
    for part, vector in zip("uv", vectors, strict=True):
        layer.register_buffer(f"{name}_{part}", vector)
    hook = _SpectralNorm(name, dim, n_power_iterations, eps)
    u, v = getattr(layer, name + "_u"), getattr(layer, name + "_v")
    setattr(layer, name, spectral_scaled(original, u, v, dim))
    layer.register_forward_pre_hook(hook)
    return layer
