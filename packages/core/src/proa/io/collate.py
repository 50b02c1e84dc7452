"""How samples become a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from proa import _core
from proa._core import Tensor
from proa.base.annotations import shown
from proa.errors import InvalidArgumentError

__all__ = ["as_arrays", "as_tensors", "default_collate_fn", "default_convert_fn"]

T = TypeVar("T")


def _stacked(batch: Sequence[Any], dtype: Any = None) -> np.ndarray[Any, Any]:
    """Samples of one kind and shape along a new first axis."""
    try:
        arrays = [s.numpy() if isinstance(s, Tensor) else s for s in batch]
        return np.stack([np.asarray(a, dtype) for a in arrays])
    except (ValueError, TypeError, OverflowError):
        raise InvalidArgumentError(
            "[default_collate_fn] expected samples of one kind and shape, got "
            f"{shown(list(batch[:8]))}"
        ) from None


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Samples of one structure stacked leaf by leaf, as NumPy arrays.

    Tensors, arrays and numbers gain a first axis; dicts, tuples and lists keep their
    structure (tuples become lists); text stays a list.
    """
    if not batch:
        raise InvalidArgumentError(
            "[default_collate_fn] expected at least one sample, got none"
        )
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked(batch)
    if isinstance(first, (bool, np.bool_)):
        return _stacked(batch, bool)
    if isinstance(first, (np.ndarray, np.generic)):
        return _stacked(batch)
    if isinstance(first, int):
        return _stacked(batch, np.int64)
    if isinstance(first, float):
        return _stacked(batch, np.float32)
    if isinstance(first, (str, bytes)) or first is None:
        return list(batch)
    if isinstance(first, Mapping):
        return {key: default_collate_fn([s[key] for s in batch]) for key in first}
    if isinstance(first, (list, tuple)):
        sizes = {len(s) for s in batch}
        if len(sizes) > 1:
            raise InvalidArgumentError(
                "[collate] samples must have the same number of fields, got "
                f"{sorted(sizes)}"
            )
        return [default_collate_fn(field) for field in zip(*batch, strict=True)]
    raise InvalidArgumentError(
        "[collate] a sample must hold tensors, arrays, numbers, text, dicts or lists, "
        f"got {type(first).__name__}"
    )


def default_convert_fn(batch: T) -> T:
    """A single sample, without a batch axis."""
    return batch


def _mapped(value: Any, leaf: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _mapped(v, leaf) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(v, leaf) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(v, leaf) for v in value)
    return leaf(value)


def _array_leaf(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, Tensor) else value


def _tensor_leaf(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return _core.from_numpy(np.ascontiguousarray(value), False)
    if isinstance(value, np.generic):
        return _core.from_numpy(np.asarray(value), True)
    return value


def as_arrays(batch: Any) -> Any:
    """A batch with NumPy arrays in place of tensors, to go between processes."""
    return _mapped(batch, _array_leaf)


def as_tensors(batch: Any) -> Any:
    """A batch with tensors in place of NumPy arrays, on the same memory."""
    return _mapped(batch, _tensor_leaf)
