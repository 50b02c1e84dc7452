"""The rows of the exporter's table, by family. Importing this makes them known."""

from proa.interop.paddle.exporter.ops import (
    elementwise,
    gradient,
    image,
    index,
    linear,
    loss,
    matrix,
    norm,
    quant,
    quantized_products,
    random,
    recurrent,
    reduction,
    shape,
)

__all__ = [
    "elementwise", "gradient", "image", "index", "linear", "loss", "matrix", "norm",
    "quant", "quantized_products", "random", "recurrent", "reduction", "shape",
]  # fmt: skip
