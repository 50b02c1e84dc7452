"""The rows of the mapping table, by family. Importing this makes them known."""

from proa.interop.onnx.importer.ops import (
    attention,
    classical,
    convolution,
    detection,
    elementwise,
    flow,
    index,
    linear,
    linear_attention,
    loss,
    microsoft,
    norm,
    optimizer,
    picture,
    pooling,
    quantized,
    random,
    recurrent,
    reduction,
    resize,
    sample,
    sequence,
    shape,
    signal,
    trees,
)

__all__ = [
    "attention", "classical", "convolution", "detection", "elementwise", "flow",
    "index", "linear", "linear_attention", "loss", "microsoft", "norm", "optimizer",
    "picture", "pooling", "quantized", "random", "recurrent", "reduction", "resize",
    "sample", "sequence", "shape", "signal", "trees",
]  # fmt: skip
