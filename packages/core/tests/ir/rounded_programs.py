"""Graphs that round and scale back, as ONNX files have them, and what they compute."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from proa.ir import Builder, Program, Value, to_bytes, verify
from proa.ir.passes import optimize
from proa.runtime import engine_from_bytes

RNG = np.random.default_rng(0)
LIMITS = {"uint8": (0, 255), "int8": (-128, 127)}


def rounded(b: Builder, x: Value, scale: float, zero: int, kind: str) -> Value:
    """QuantizeLinear, as the importer writes it."""
    low, high = LIMITS[kind]
    whole = b.add(
        b.round(b.div(x, b.constant(np.float32(scale)))), b.constant(np.float32(zero))
    )
    return b.cast(b.clip(whole, min=low, max=high), dtype=kind)  # type: ignore[no-any-return]


def real(b: Builder, q: Value, scale: float, zero: int) -> Value:
    """DequantizeLinear."""
    centered = b.sub(b.cast(q, dtype="int32"), b.constant(np.int32(zero)))
    wide = b.cast(centered, dtype="float32")
    return b.mul(wide, b.constant(np.float32(scale)))  # type: ignore[no-any-return]


def both(b: Builder, x: Value, scale: float, zero: int, kind: str) -> Value:
    return real(b, rounded(b, x, scale, zero, kind), scale, zero)


def weight(*shape: int, axis: int = 0) -> Any:
    """Floats that are int8 numbers times a scale for each output channel."""
    scales = RNG.uniform(0.005, 0.02, shape[axis]).astype(np.float32)
    steps = scales.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return RNG.integers(-127, 128, shape).astype(np.float32) * steps


def ops_of(program: Program) -> Counter[str]:
    verify(program)
    return Counter(node.op for node in program.nodes())


def run(program: Program, *inputs: Any) -> list[Any]:
    return engine_from_bytes(to_bytes(program), 1).run(inputs)


def same_before_and_after(program: Program, *inputs: Any, atol: float) -> Program:
    plain = program.copy()
    optimize(program, 2)
    for want, got in zip(run(plain, *inputs), run(program, *inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=atol)
    return program
