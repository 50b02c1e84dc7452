"""Scales of convolutions and decomposed activations, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proa.ir import Builder

from .built_programs import drawn_from, ops, results, rewrite

draw = drawn_from(7)


def decomposed_hard_swish(b: Builder, x: Any, *, outer: str = "minimum") -> Any:
    y = b.add(x, b.constant(np.float32(3)))
    numbers = {"maximum": np.float32(0), "minimum": np.float32(6)}
    bounds = {op: b.constant(number) for op, number in numbers.items()}
    inner = "maximum" if outer == "minimum" else "minimum"
    for op in (inner, outer):
        y = getattr(b, op)(bounds[op], y)
    return b.div(b.mul(x, y), b.constant(np.float32([6])))


def hard_swish(x: np.ndarray) -> np.ndarray:
    return x * np.clip(x + 3, 0, 6) / 6


@pytest.mark.parametrize("outer", ["minimum", "maximum"])
def test_a_decomposed_hard_swish_becomes_one_operator(outer: str) -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 5])
    b.output(decomposed_hard_swish(b, x, outer=outer))
    assert rewrite(b, "fuse_gated_activation")
    assert ops(b) == ["hard_swish"]
    given = 4 * draw(3, 5)
    np.testing.assert_allclose(results(b, given), hard_swish(given), rtol=1e-6)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_decomposed_silu_becomes_one_operator(scaled: bool) -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 5])
    inner = b.mul(b.constant(np.float32(1)), x) if scaled else x
    b.output(b.mul(b.sigmoid(inner), x))
    assert rewrite(b, "fuse_gated_activation")
    assert ops(b) == ["silu"]
    given = draw(3, 5)
    np.testing.assert_allclose(
        results(b, given), given / (1 + np.exp(-given)), rtol=1e-6
    )


def test_other_numbers_are_no_hard_swish_and_no_silu() -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 5])
    y = b.add(x, b.constant(np.float32(2)))
    y = b.minimum(b.maximum(y, b.constant(np.float32(0))), b.constant(np.float32(6)))
    b.output(b.div(b.mul(x, y), b.constant(np.float32(6))))
    b.output(b.mul(x, b.sigmoid(b.mul(x, b.constant(np.float32(2))))))
    assert not rewrite(b, "fuse_gated_activation")


def test_a_gate_of_another_shape_is_no_silu() -> None:
    b = Builder()
    x = b.input("x", "float32", [1, 5])
    wide = b.broadcast_to(x, shape=[4, 5])
    b.output(b.mul(wide, b.sigmoid(x)))
    assert not rewrite(b, "fuse_gated_activation")


def scaled_block(b: Builder, factor: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Builds (conv * factor + shift), hard_swish, * 0.5 + 0.25; returns the weights."""
    x = b.input("x", "float32", [-1, 3, 5, 5])
    w, c = draw(4, 3, 1, 1), draw(4)
    y = b.conv2d(x, b.parameter("w", w), b.parameter("c", c))
    y = b.add(b.constant(shift), b.mul(b.constant(factor), y))
    y = decomposed_hard_swish(b, y)
    y = b.add(b.mul(y, b.constant(np.float32([0.5]))), b.constant(np.float32([0.25])))
    b.output(y)
    given = draw(2, 3, 5, 5)
    whole = np.einsum("ncij,oc->noij", given, w[:, :, 0, 0]) + c[:, None, None]
    want = 0.5 * hard_swish(whole * factor + shift) + 0.25
    return np.stack([want, np.pad(given, ((0, 0), (0, 1), (0, 0), (0, 0)))])


CONSTANTS = {
    "numbers": (np.float32([1.7]), np.float32([-0.4])),
    "one for each channel": (draw(4, 1, 1), draw(1, 4, 1, 1)),
}


@pytest.mark.parametrize("kind", CONSTANTS)
def test_a_convolution_takes_its_scales_and_activation(kind: str) -> None:
    b = Builder()
    want, given = scaled_block(b, *CONSTANTS[kind])
    names = ("fuse_scale", "fuse_gated_activation", "fuse_epilogue")
    assert rewrite(b, *names)
    assert ops(b) == ["conv2d_norm"]
    attrs = b.program.main.nodes[0].attrs
    assert (attrs["act"], attrs["scale"], attrs["offset"]) == ("hard_swish", 0.5, 0.25)
    assert not rewrite(b, *names)
    np.testing.assert_allclose(results(b, given[:, :3]), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", CONSTANTS)
def test_for_quantization_the_first_scale_goes_into_the_weights(kind: str) -> None:
    b = Builder()
    want, given = scaled_block(b, *CONSTANTS[kind])
    assert rewrite(b, "fold_scale", "fuse_scale")
    assert ops(b)[0] == "conv2d"
    assert "conv2d_norm" not in ops(b)
    np.testing.assert_allclose(results(b, given[:, :3]), want, rtol=1e-5, atol=1e-6)


def test_nothing_is_fused_after_a_scale() -> None:
    b = Builder()
    scaled_block(b, *CONSTANTS["numbers"])
    y = b.program.main.outputs[0]
    b.output(b.relu(y))
    b.program.main.outputs = b.program.main.outputs[1:]
    rewrite(b, "fuse_scale", "fuse_gated_activation", "fuse_epilogue")
    assert ops(b) == ["conv2d_norm", "relu"]


def test_a_product_that_others_read_keeps_its_scale_apart() -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 3, 5, 5])
    y = b.conv2d(x, b.parameter("w", draw(4, 3, 1, 1)))
    b.output(b.add(b.mul(y, b.constant(np.float32(2))), b.constant(np.float32(1))))
    b.output(y)
    assert not rewrite(b, "fuse_scale")
    assert not rewrite(b, "fold_scale")
