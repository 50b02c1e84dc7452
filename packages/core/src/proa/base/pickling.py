"""Pickling of tensors: their bits travel as NumPy arrays."""

from __future__ import annotations

import copyreg
from typing import Any

import numpy as np

from proa import _core
from proa._core import Tensor
from proa.base.dtype import as_dtype


def _rebuild(
    array: np.ndarray[Any, Any], dtype: str, stop_gradient: bool, persistable: bool
) -> Tensor:
    x: Tensor = _core.from_numpy(array, True, as_dtype(dtype))
    x.stop_gradient, x.persistable = stop_gradient, persistable
    return x


def _reduce(x: Tensor) -> tuple[Any, ...]:
    array = np.ascontiguousarray(x.numpy()).reshape(x.shape)
    return _rebuild, (array, x.dtype.name, x.stop_gradient, x.persistable)


copyreg.pickle(Tensor, _reduce)
