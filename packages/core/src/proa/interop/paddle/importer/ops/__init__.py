"""The rows of the mapping table, by family. Importing this makes them known."""

from proa.interop.paddle.importer.ops import (
    activation,
    array,
    convolution,
    creation,
    detection,
    elementwise,
    flow,
    index,
    linear,
    loss,
    matrix,
    norm,
    pooling,
    quantized,
    recurrent,
    reduction,
    resize,
    sequence,
    sequence_recurrent,
    shape,
)

__all__ = [
    "activation", "array", "convolution", "creation", "detection", "elementwise",
    "flow", "index", "linear", "loss", "matrix", "norm", "pooling", "quantized",
    "recurrent", "reduction", "resize", "sequence", "sequence_recurrent", "shape",
]  # fmt: skip
