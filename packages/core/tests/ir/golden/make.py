"""Writes the golden model files: run once for each format version, then never again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from proa.ir import Builder, Program, verify, write
from proa.ir.program import Block


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


def control_flow() -> Program:
    """``while i < n: x, i = (x @ w if sum(x) < 9 else x - 4), i + 1``; then x + b."""
    main = Builder()
    program = main.program
    for _ in range(6):
        program.blocks.append(Block())
    test, body, total, product, less, end = (
        Builder(program, block) for block in program.blocks[1:]
    )
    w, b = main.parameter("w", _ramp(3, 3)), main.parameter("b", _ramp(3))

    def inputs(to: Builder, *kinds: str) -> list[Any]:
        shapes = {"i": ("int64", []), "x": ("float32", [1, 3]), "n": ("int64", [])}
        return [to.input(kind, *shapes[kind]) for kind in kinds]

    i, _, n = inputs(test, "i", "x", "n")
    test.output(test.less_than(i, n))
    i, x = inputs(total, "i", "x")
    total.output(
        total.less_than(total.sum(x), main.constant(np.float32(9))),
        total.add(i, main.constant(np.int64(1))),
    )
    (x,) = inputs(product, "x")
    product.output(product.matmul(x, w))
    (x,) = inputs(less, "x")
    less.output(less.sub(x, main.constant(np.float32(4))))
    (x,) = inputs(end, "x")
    end.output(end.add(x, b))

    i, x, _ = inputs(body, "i", "x", "n")
    condition, after = body.node("call", [i, x], {"block": 3}).outputs
    names = {"then_block": 4, "else_block": 5}
    body.output(after, *body.node("branch", [condition, x], names).outputs)

    x, n = inputs(main, "x", "n")
    start = main.constant(np.int64(0))
    names = {"cond_block": 1, "body_block": 2, "carried": 2}
    _, x = main.node("loop", [start, x, n], names).outputs
    main.output(*main.node("call", [x], {"block": 6}).outputs)
    return program


PROGRAMS = (small_cnn, every_dtype, control_flow)

if __name__ == "__main__":
    here = Path(__file__).parent
    for make in PROGRAMS:
        verify(make())
        path = here / f"{make.__name__}.v1.proa"
        if not path.exists():
            write(make(), path)
