"""How tensors print: PaddlePaddle's columns under a line that says what they are."""

from __future__ import annotations

from collections.abc import Callable
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
        sci_mode: Whether to write 1e+00; None does so only where a number would show no
            digit but zeros.
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


def _edges(array: NDArray[Any]) -> NDArray[Any]:
    """The elements that will be seen, from which the format is chosen."""
    edge = _options.edgeitems
    index = [
        np.r_[:edge, n - edge : n] if n > 2 * edge else np.arange(n)
        for n in array.shape
    ]
    edges: NDArray[Any] = array[np.ix_(*index)] if array.ndim else array
    return edges


def _float_format(values: NDArray[Any]) -> Callable[[Any], str]:
    digits = _options.precision
    scientific = _options.sci_mode
    if scientific is None:  # only where digits after the point would all be zeros
        size = np.abs(values[np.isfinite(values) & (values != 0)]).astype(np.float64)
        scientific = bool(size.size) and float(size.min()) < 0.5 * 10.0**-digits

    def text(value: Any) -> str:
        v = float(value)
        if scientific and np.isfinite(v):
            return f"{v:.{digits}e}"
        if v == np.ceil(v):
            return f"{v:.0f}."
        return f"{v:.{digits}f}"

    return text


@dataclass
class _Layout:
    """How the elements of one tensor are written: each to the left of equal columns,
    where some are negative after a sign or a blank, as PaddlePaddle writes them.
    """

    text: Callable[[Any], str]
    width: int
    signed: bool
    summary: bool

    def item(self, value: Any) -> str:
        text = self.text(value)
        if self.signed and not value < 0 and len(text) < self.width:
            text = " " + text
        return text.ljust(self.width)

    def rows(self, array: NDArray[Any], indent: int) -> str:
        """The numbers of an array with `indent` columns to the left of them."""
        if array.ndim == 0:
            return self.item(array[()])
        edge = _options.edgeitems
        short = self.summary and array.shape[0] > 2 * edge
        parts = [*array[:edge], None, *array[-edge:]] if short else [*array]
        if array.ndim > 1:
            blank = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
            planes = [
                "..." if part is None else self.rows(part, indent + 1) for part in parts
            ]
            return "[" + blank.join(planes) + "]"
        items = ["..." if part is None else self.item(part) for part in parts]
        count = max(1, (_options.linewidth - indent) // (self.width + 2))
        lines = [items[i : i + count] for i in range(0, len(items), count)]
        return (
            "[" + (",\n" + " " * (indent + 1)).join(", ".join(x) for x in lines) + "]"
        )


def array_text(array: NDArray[Any], indent: str) -> str:
    """The numbers of an array, later lines indented."""
    summary = array.size > _options.threshold
    values = (_edges(array) if summary else array).ravel()
    text = _float_format(values) if array.dtype.kind == "f" else str
    layout = _Layout(
        text,
        width=max((len(text(v)) for v in values), default=0),
        signed=array.dtype.kind in "fi" and bool((values < 0).any()),
        summary=summary,
    )
    return layout.rows(array, len(indent))


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
