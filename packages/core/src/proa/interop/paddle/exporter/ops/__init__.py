"""The rows of the exporter's table, by family. Importing this makes them known."""

from proa.interop.paddle.exporter.ops import (
    elementwise,
    image,
    index,
    linear,
    norm,
    recurrent,
    reduction,
    shape,
)

__all__ = [
    "elementwise", "image", "index", "linear", "norm", "recurrent", "reduction",
    "shape",
]  # fmt: skip
