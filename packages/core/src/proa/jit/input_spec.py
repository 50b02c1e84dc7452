"""What an input of a traced function looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from proa.errors import InvalidArgumentError
from proa.ir.record import dtype_name
from proa.schema.dtypes import CODES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from proa._core import Tensor
    from proa.base.dtype import DTypeLike


class InputSpec:
    """Shape, dtype and name of an input.

    Args:
        shape: Dimensions; None or -1 where any size will do.
        dtype: Element type or its name.
        name: What the input is called in the saved model; x0, x1, ... by default.
        stop_gradient: Kept for Paddle's sake.
    """

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: DTypeLike = "float32",
        name: str | None = None,
        stop_gradient: bool = False,
    ) -> None:
        sizes = [-1 if d is None else int(d) for d in shape]
        if any(d < -1 for d in sizes):
            raise InvalidArgumentError(
                f"[InputSpec] dimensions must be >= 0, or -1 or None, got {list(shape)}"
            )
        self.shape = tuple(sizes)
        self.dtype = dtype_name(np.dtype(dtype) if isinstance(dtype, type) else dtype)
        if self.dtype not in CODES:
            raise InvalidArgumentError(
                f"[InputSpec] dtype must be one of {list(CODES)}, got {dtype!r}"
            )
        self.name = name
        self.stop_gradient = stop_gradient

    @classmethod
    def from_tensor(cls, tensor: Tensor, name: str | None = None) -> InputSpec:
        """The spec of a tensor like this one."""
        return cls(list(tensor.shape), dtype_name(tensor), name or tensor.name or None)

    @classmethod
    def from_numpy(cls, ndarray: NDArray[Any], name: str | None = None) -> InputSpec:
        """The spec of an array like this one."""
        return cls(list(ndarray.shape), ndarray.dtype, name)

    def batch(self, batch_size: int | Sequence[int]) -> InputSpec:
        """Put a batch axis in front, in place."""
        size = batch_size if isinstance(batch_size, int) else batch_size[0]
        self.shape = (int(size), *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Take the first axis away, in place."""
        if not self.shape:
            raise InvalidArgumentError("[InputSpec.unbatch] rank must be >= 1, got 0")
        self.shape = self.shape[1:]
        return self

    def admits(self, shape: Sequence[int]) -> bool:
        """Whether an array of that shape fits."""
        return len(shape) == len(self.shape) and all(
            want in (-1, got) for want, got in zip(self.shape, shape, strict=True)
        )

    def _key(self) -> tuple[Any, ...]:
        return (self.shape, self.dtype, self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"InputSpec(shape={self.shape}, dtype={self.dtype}, name={self.name})"


def as_specs(given: Any, name: str | None = None) -> Any:
    """The same nesting with an `InputSpec` for each tensor or array in it.

    A spec without a name takes the key that it has in a dictionary.
    """
    if isinstance(given, InputSpec):
        named = given.name or name
        return InputSpec(given.shape, given.dtype, named) if name else given
    if isinstance(given, (list, tuple)):
        return type(given)([as_specs(part) for part in given])
    if isinstance(given, dict):
        return {key: as_specs(part, str(key)) for key, part in given.items()}
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        return InputSpec.from_tensor(given, name)
    return given
