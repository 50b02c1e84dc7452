"""Spectral normalisation of a weight that is given."""

from __future__ import annotations

from collections.abc import Sequence

from proa._core import Tensor
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.functional.spectral import power_iteration, spectral_scaled
from proa.nn.layer.base import Layer
from proa.nn.schemes import Normal

__all__ = ["SpectralNorm"]


class SpectralNorm(Layer):
    """A weight divided by its largest singular value (Miyato et al., 2018).

    sigma = u^T W v, where u and v approach the first singular vectors by
    ``power_iters`` rounds of power iteration at each call in training.

    Args:
        weight_shape: The weight's shape.
        dim: The axis that makes the rows of the matrix W.
        power_iters: Rounds at each call.
        eps: Smallest length that vectors are divided by.
        dtype: Element type of u and v.

    Shape:
        weight: weight_shape. Returns the same.
    """

    def __init__(
        self,
        weight_shape: Sequence[int],
        dim: int = 0,
        power_iters: int = 1,
        eps: float = 1e-12,
        name: str | None = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        shape = [int(n) for n in weight_shape]
        if not shape or min(shape) < 1 or not -len(shape) <= dim < len(shape):
            raise InvalidArgumentError(
                "[SpectralNorm] weight_shape must be positive and dim one of its axes, "
                f"got {shape} and {dim}"
            )
        self._shape, self._dim = shape, dim
        self._power_iters, self._eps = power_iters, eps
        rows = shape[dim]
        columns = 1
        for n in shape:
            columns *= n
        self.weight_u, self.weight_v = (
            self.create_parameter([n], default_initializer=Normal(0.0, 1.0))
            for n in (rows, columns // rows)
        )
        self.weight_u.stop_gradient = self.weight_v.stop_gradient = True

    def forward(self, x: Tensor) -> Tensor:
        if list(x.shape) != self._shape:
            raise ShapeError("SpectralNorm", f"x must be {self._shape}", x.shape)
        if self.training:
            power_iteration(
                x, self.weight_u, self.weight_v, self._dim, self._power_iters, self._eps
            )
        return spectral_scaled(x, self.weight_u, self.weight_v, self._dim)
