"""What the arguments of the public API may be; imported for type checkers alone."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proa._core import Tensor

#: Numbers: a tensor, or what NumPy makes an array of.
TensorLike: TypeAlias = Tensor | ArrayLike | Sequence[Tensor]
#: One number.
ScalarLike: TypeAlias = Tensor | complex | np.number | np.bool_
#: Padding of a window: "same", "valid", one number, one or two for each axis, or pairs.
PaddingLike: TypeAlias = str | Tensor | int | Sequence[int] | Sequence[Sequence[int]]
#: What indexes an axis, and several of them.
IndexItem: TypeAlias = (
    int | slice | EllipsisType | Tensor | NDArray[Any] | Sequence[object] | None
)
IndexLike: TypeAlias = IndexItem | tuple[IndexItem, ...]
#: The sizes of the spatial axes of a result, one or for each axis.
OutputSizeLike: TypeAlias = Tensor | int | Sequence[int | Tensor] | Sequence[int | None]
#: A tensor, or with the index of each element where that is requested.
MaybeIndices: TypeAlias = Tensor | tuple[Tensor, Tensor]
