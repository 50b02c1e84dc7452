"""How tensors print: NumPy's layout under a line that says what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor


@dataclass
class _Options:
    precision: int = 8
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sci_mode: bool | None = None,
    linewidth: int | None = None,
) -> None:
    """Set how tensors print; what is None stays as it is.

    Args:
        precision: Digits after the point.
        threshold: With more elements than this, only the edges are shown.
        edgeitems: How many elements the edges show.
        sci_mode: Whether to write 1e+00; None chooses by the numbers.
        linewidth: Characters in a line.
    """
    given: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "sci_mode": sci_mode,
        "linewidth": linewidth,
    }
    for name, value in given.items():
        if value is not None:
            setattr(_options, name, value)


def _shown(array: NDArray[Any]) -> NDArray[Any]:
    """The elements that will be seen, from which the format is chosen."""
    if array.size <= _options.threshold:
        return array.ravel()
    edge = _options.edgeitems
    index = [
        np.r_[:edge, n - edge : n] if n > 2 * edge else np.arange(n)
        for n in array.shape
    ]
    edges: NDArray[Any] = array[np.ix_(*index)].ravel()
    return edges


def _format_floats(array: NDArray[Any]) -> Any:
    values = _shown(array)
    finite = values[np.isfinite(values)].astype(np.float64)
    size = np.abs(finite[finite != 0])
    whole = bool(np.all(finite == np.trunc(finite)))
    if _options.sci_mode is not None:
        scientific = _options.sci_mode
    else:
        scientific = bool(size.size) and (
            float(size.max()) >= 1e8
            or (not whole and float(size.max()) / float(size.min()) > 1e5)
            or float(size.min()) < 1e-4
        )
    digits = _options.precision

    def one(value: Any) -> str:
        v = float(value)
        if not np.isfinite(v):
            return str(v)
        if scientific:
            return f"{v:.{digits}e}"
        return f"{v:.0f}." if whole else f"{v:.{digits}f}"

    width = max((len(one(v)) for v in values), default=0)
    return lambda v: one(v).rjust(width)


def array_text(array: NDArray[Any], indent: str) -> str:
    """The numbers of an array, later lines indented."""
    if array.size == 0:
        return "[" * max(array.ndim, 1) + "]" * max(array.ndim, 1)
    formatter: Any = None
    if array.dtype.kind == "f":
        formatter = {"float_kind": _format_floats(array)}
    text = np.array2string(
        array,
        precision=_options.precision,
        threshold=_options.threshold,
        edgeitems=_options.edgeitems,
        max_line_width=_options.linewidth + len(indent),
        separator=", ",
        prefix=indent,
        formatter=formatter,
    )
    # One blank line between planes, not more, however deep the nesting.
    lines = text.split("\n")
    kept = lines[:1]
    for line in lines[1:]:
        if line.strip() or kept[-1].strip():
            kept.append(line)
    return "\n".join(line.rstrip() for line in kept)


def tensor_text(x: Tensor, head: str = "") -> str:
    """``Tensor(shape=[2], dtype=float32, place=…, stop_gradient=True, [1., 2.])``."""
    facts = (
        f"{head}Tensor(shape={list(x.shape)}, dtype={x.dtype.name}, "
        f"place={x.place}, stop_gradient={x.stop_gradient}"
    )
    if x._is_symbolic:
        return facts + ", symbolic)"
    array = x.numpy()
    if x.dtype == "bfloat16" and array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    indent = " " * 7
    return f"{facts},\n{indent}{array_text(array, indent)})"
