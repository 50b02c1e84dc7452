"""Objects as files hold them: nested dicts and lists of tensors and plain values, as
safetensors.

A tensor at ``state["a"]["b"]`` is the file's tensor ``a.b``. What is no tensor, and how
the whole is nested, is stored as JSON in the file's metadata under ``proa``. Nothing is
ever pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from proa import _core
from proa._core import Tensor
from proa.base.dtype import as_dtype
from proa.base.safetensors import Contents, Stored
from proa.errors import InvalidArgumentError

_KEY = "proa"


def pack(obj: Any) -> tuple[dict[str, Stored], dict[str, str]]:
    """The tensors and the metadata of a file that holds ``obj``."""
    tensors: dict[str, Stored] = {}
    tree = _packed(obj, "", tensors)
    return tensors, {_KEY: json.dumps(tree)}


def unpack(contents: Contents, path: object, as_numpy: bool) -> Any:
    """What a file holds; of a file without a tree a flat dict of its tensors."""
    tensors, metadata = contents
    if _KEY not in metadata:
        return {name: restored(t, as_numpy) for name, t in tensors.items()}
    try:
        return _unpacked(json.loads(metadata[_KEY]), tensors, as_numpy)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidArgumentError(
            f"[load] expected the structure of {path} in its metadata, got damaged "
            "metadata"
        ) from None


def stored(value: Tensor | np.ndarray[Any, Any]) -> Stored:
    """A tensor's elements in the form that files hold."""
    if isinstance(value, Tensor):
        return Stored(value.detach().numpy(), value.dtype.name)
    return Stored(value, as_dtype(value.dtype).name)


def restored(item: Stored, as_numpy: bool) -> Any:
    """A tensor (or array) with memory of its own."""
    if as_numpy:
        return item.array.copy()
    if item.dtype == "bfloat16":
        wide = (item.array.astype(np.uint32) << 16).view(np.float32)
        return _core.ops.cast(_core.from_numpy(wide, True), dtype=as_dtype("bfloat16"))
    return _core.from_numpy(item.array, True)


def _packed(value: Any, name: str, tensors: dict[str, Stored]) -> Any:
    """JSON for ``value``; tensors go to ``tensors``."""
    if isinstance(value, (Tensor, np.ndarray)):
        own, number = name or "value", 1
        while own in tensors:  # {"a.b": t, "a": {"b": u}} would clash
            own, number = f"{name}~{number}", number + 1
        tensors[own] = stored(value)
        if isinstance(value, Tensor):
            return {"t": own}
        return {"a": own}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"v": value}
    below = f"{name}." if name else ""
    if isinstance(value, Mapping):
        if not all(isinstance(k, (str, int)) for k in value):
            raise InvalidArgumentError(
                f"[save] keys must be text or ints, got {list(value)[:3]}"
            )
        return {
            "d": [[k, _packed(v, f"{below}{k}", tensors)] for k, v in value.items()]
        }
    if isinstance(value, (list, tuple)):
        items = [_packed(v, f"{below}{i}", tensors) for i, v in enumerate(value)]
        return {"l" if isinstance(value, list) else "u": items}
    raise InvalidArgumentError(
        "[save] values must be tensors, numbers, text, None, dicts or lists, "
        f"got {type(value).__name__} at {name or 'the top'!r}"
    )


def _unpacked(node: Any, tensors: dict[str, Stored], as_numpy: bool) -> Any:
    ((kind, value),) = node.items()
    # A file names each tensor once, and so takes no more memory than it says.
    if kind == "t":
        return restored(tensors.pop(value), as_numpy)
    if kind == "a":
        return tensors.pop(value).array.copy()
    if kind == "v":
        return value
    if kind == "d":
        return {k: _unpacked(v, tensors, as_numpy) for k, v in value}
    items = [_unpacked(v, tensors, as_numpy) for v in value]
    if kind == "l":
        return items
    if kind == "u":
        return tuple(items)
    raise ValueError(kind)
