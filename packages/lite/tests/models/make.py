"""Writes the model files of the tests, and for each the result of NumPy.

    python packages/lite/tests/models/make.py     (with the package proa installed)

Weights come from a seeded generator, so a second run writes the same bytes. With
``<name>.proa`` come ``<name>.in`` and ``<name>.out``: the elements of the inputs and
outputs of one run, one array after the other, little-endian, row-major. A batch that
the model leaves open is BATCH.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proa.ir import Program, Value, write
from proa.ir.attributes import complete
from proa.ir.program import Array, Node

HERE = Path(__file__).parent
BATCH = 3
RNG = np.random.default_rng(20240229)


# --- what the ops compute, in NumPy


def conv2d(x: Array, w: Array) -> Array:
    """Cross-correlation without padding, stride 1: (N, C, H, W) * (O, C, k, k)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w, optimize=True)


def max_pool2d(x: Array) -> Array:
    """Windows of 2 x 2."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def to_int8(x: Array, scale: Any) -> Array:
    """Halves to even, symmetric."""
    q = np.rint(x / np.asarray(scale, np.float32))
    return np.clip(q, -127, 127).astype(np.int8)


# --- graphs, written node by node with the shapes that the reference has


class Model:
    """A program in the making, and its values on one input."""

    def __init__(self, name: str) -> None:
        self.name, self.program = name, Program()
        self.program.metadata["name"] = name
        self.held: dict[Value, Array] = {}

    def input(self, name: str, array: Array) -> Value:
        """An input whose first dimension may vary."""
        value = Value(name, str(array.dtype), (-1, *array.shape[1:]), "input")
        self.program.main.inputs.append(value)
        self.held[value] = array
        return value

    def weight(self, name: str, data: Array) -> Value:
        return Value(name, str(data.dtype), data.shape, "param", data)

    def add(
        self, op: str, inputs: Sequence[Value | None], result: Array, **attrs: Any
    ) -> Value:
        """A node, which gives `result`."""
        value = Value(
            self.program.new_name(op), str(result.dtype), (-1, *result.shape[1:])
        )
        node = Node(op, list(inputs), [value], complete(op, attrs))
        value.producer = node
        self.program.main.nodes.append(node)
        self.held[value] = result
        return value

    def write(self, *outputs: Value) -> None:
        main = self.program.main
        main.outputs.extend(outputs)
        write(self.program, HERE / f"{self.name}.proa")
        for suffix, values in (("in", main.inputs), ("out", outputs)):
            raw = b"".join(np.ascontiguousarray(self.held[v]).tobytes() for v in values)
            (HERE / f"{self.name}.{suffix}").write_bytes(raw)


def normal(*shape: int, scale: float = 1.0) -> Array:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def mlp() -> None:
    """Two layers, the first fused with its activation."""
    m = Model("mlp")
    x = m.input("x", normal(BATCH, 8))
    w, b = normal(8, 19, scale=0.4), normal(19)
    v, c = normal(19, 5, scale=0.3), normal(5)
    h = relu(m.held[x] @ w + b)
    hidden = m.add(
        "linear_act", [x, m.weight("w0", w), m.weight("b0", b)], h, act="relu"
    )
    out = m.add("linear", [hidden, m.weight("w1", v), m.weight("b1", c)], h @ v + c)
    m.write(out)


SHAPES = ((4, 1, 3, 3), (6, 4, 3, 3), (24, 7))  # of the small LeNet's weights


def pooled(m: Model, x: Value) -> Value:
    window = {"kernel": [2, 2], "stride": [2, 2]}
    return m.add("max_pool2d", [x], max_pool2d(m.held[x]), **window)


def lenet() -> None:
    """Convolutions, pooling and a linear layer as they are recorded, nothing fused."""
    m = Model("lenet")
    x = m.input("image", normal(BATCH, 1, 14, 14))
    for i, shape in enumerate(SHAPES[:2]):
        w, b = normal(*shape, scale=0.3), normal(shape[0], scale=0.2)
        weights = [m.weight(f"conv{i}.weight", w), m.weight(f"conv{i}.bias", b)]
        y = m.add("conv2d", [x, *weights], conv2d(m.held[x], w) + b[:, None, None])
        y = m.add("relu", [y], relu(m.held[y]))
        x = pooled(m, y)
    flat = m.held[x].reshape(BATCH, -1)
    x = m.add("flatten", [x], flat, start_axis=1, stop_axis=-1)
    w, b = normal(*SHAPES[2], scale=0.3), normal(SHAPES[2][1])
    y = m.add(
        "linear", [x, m.weight("fc.weight", w), m.weight("fc.bias", b)], flat @ w + b
    )
    m.write(y)


def lenet_int8() -> None:
    """The same network in int8: the float logits are the last product's."""
    m = Model("lenet.int8")
    image = m.input("image", normal(BATCH, 1, 14, 14))
    scale = np.float32(0.025)
    q = to_int8(m.held[image], scale)
    x = m.add("quantize", [image, m.weight("in.scale", np.array([scale]))], q)
    out_scales = (np.float32(0.03), np.float32(0.05))
    for i, shape in enumerate(SHAPES[:2]):
        w = RNG.integers(-127, 128, shape).astype(np.int8)
        w_scale = RNG.uniform(0.002, 0.004, shape[0]).astype(np.float32)
        multiplier, b = scale * w_scale, normal(shape[0], scale=0.2)
        exact = conv2d(m.held[x].astype(np.int32), w.astype(np.int32)).astype(
            np.float32
        )
        v = relu(exact * multiplier[:, None, None] + b[:, None, None])
        weights = [
            m.weight(f"conv{i}.weight", w),
            m.weight(f"conv{i}.multiplier", multiplier),
            m.weight(f"conv{i}.bias", b),
        ]
        scale = out_scales[i]
        y = m.add("conv2d_int8", [x, *weights], to_int8(v, scale), act="relu",
                  out_scale=float(scale), dtype="int8")  # fmt: skip
        x = pooled(m, y)
    flat = m.held[x].reshape(BATCH, -1)
    x = m.add("flatten", [x], flat, start_axis=1, stop_axis=-1)
    w = RNG.integers(-127, 128, SHAPES[2]).astype(np.int8)
    w_scale = RNG.uniform(0.002, 0.004, SHAPES[2][1]).astype(np.float32)
    multiplier, b = scale * w_scale, normal(SHAPES[2][1])
    exact = (flat.astype(np.int32) @ w.astype(np.int32)).astype(np.float32)
    weights = [
        m.weight("fc.weight", w),
        m.weight("fc.multiplier", multiplier),
        m.weight("fc.bias", b),
    ]
    y = m.add("linear_int8", [x, *weights], exact * multiplier + b, dtype="float32")
    m.write(y)


def mixed() -> None:
    """Two inputs of unlike dtype, views, and two outputs, one of them int64."""
    m = Model("mixed")
    ids = m.input("ids", RNG.integers(0, 9, (BATCH, 4)))
    x = m.input("x", normal(BATCH, 6, 4))
    table = normal(9, 6)
    e = m.add("gather", [m.weight("table", table), ids], table[m.held[ids]], axis=0)
    t = m.add("transpose", [x], m.held[x].transpose(0, 2, 1), perm=[0, 2, 1])
    y = m.add("add", [e, t], m.held[e] + m.held[t])
    y = m.add("tanh", [y], np.tanh(m.held[y]))
    e = m.add("exp", [e], np.exp(m.held[e]))
    joined = np.concatenate([m.held[y], m.held[e]], 2)
    z = m.add("concat", [y, e], joined, axis=2)
    r = m.add("reshape", [z], joined.reshape(BATCH, 8, 6), shape=[0, -1, 6])
    p = m.add("softmax", [r], softmax(m.held[r]))
    best = m.add("argmax", [z], joined.argmax(-1).astype(np.int64), axis=-1)
    m.write(p, best)


if __name__ == "__main__":
    for make in (mlp, lenet, lenet_int8, mixed):
        make()
