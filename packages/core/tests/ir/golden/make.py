"""Writes the golden model files: run once for each format version, then never again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from proa.ir import Builder, Program, verify, write


def _ramp(*shape: int, step: float = 0.125) -> np.ndarray:
    count = int(np.prod(shape))
    return ((np.arange(count) % 17 - 8) * step).astype(np.float32).reshape(shape)


def small_cnn() -> Program:
    """A convolution, an activation, pooling by a view, a product; unknown batch."""
    b = Builder()
    x = b.input("image", "float32", [-1, 2, 4, 4])
    h = b.conv2d(
        x,
        b.parameter("conv.weight", _ramp(3, 2, 3, 3)),
        b.parameter("conv.bias", _ramp(3)),
        padding=[1, 1, 1, 1],
    )
    h = b.relu(h)
    h = b.flatten(h, start_axis=1)
    z = b.linear(
        h,
        b.parameter("fc.weight", _ramp(48, 5, step=0.0625)),
        b.parameter("fc.bias", _ramp(5)),
    )
    b.output(z, h)
    b.program.metadata.update({"framework": "proa", "name": "small_cnn"})
    return b.program


def every_dtype() -> Program:
    """A constant of each dtype; casts, lists, scalars and choices as attributes."""
    b = Builder()
    x = b.input("x", "float32", [2, 3])
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16"):
        b.output(
            b.cast(b.parameter(f"w.{name}", np.ones((2, 3), name)), dtype="float32")
        )
    raw = np.full((2, 3), 0x3FC0, np.uint16)  # 1.5
    b.output(b.cast(b.parameter("w.bfloat16", raw, "bfloat16"), dtype="float32"))
    for name in ("float64", "complex64", "complex128"):
        b.output(
            b.cast(b.parameter(f"w.{name}", np.ones((2, 3), name)), dtype="float32")
        )
    b.output(b.clip(x, min=-1, max=2.5))
    b.output(b.pad(x, low=[0, 1], high=[1, 0], mode="replicate"))
    b.output(b.concat(x, b.full(shape=[1, 3], value=7, dtype="float32")))
    return b.program


if __name__ == "__main__":
    for program in (small_cnn(), every_dtype()):
        verify(program)
    here = Path(__file__).parent
    write(small_cnn(), here / "small_cnn.v1.proa")
    write(every_dtype(), here / "every_dtype.v1.proa")
