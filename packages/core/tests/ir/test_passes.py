"""Passes: what each changes, and that results stay what NumPy says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from proa import _core
from proa.errors import InvalidArgumentError, NotFoundError
from proa.ir import Builder, to_bytes, verify
from proa.ir.attributes import draws
from proa.ir.passes import PASSES, apply

from .built_programs import drawn_from, ops, results, rewrite

draw = drawn_from(3)


def image(b: Builder, batch: int = -1) -> Any:
    return b.input("x", "float32", [batch, 3, 5, 5])


def conv(b: Builder, x: Any, bias: bool = True) -> Any:
    w = b.parameter("w", draw(3, 3, 3, 3))
    c = b.parameter("c", draw(3)) if bias else None
    return b.conv2d(x, w, c, padding=[1, 1, 1, 1])


def test_every_pass_says_what_it_does() -> None:
    for found in PASSES.values():
        text = found.run.__doc__ or ""
        assert "1. " in text
        assert "Requires" in text or "Ensures" in text or "Leaves" in text


def test_passes_of_unknown_name_are_refused() -> None:
    with pytest.raises(NotFoundError, match="got \\['fly'\\]"):
        apply(Builder().program, ["fly"])


def test_dead_code_goes_and_outputs_stay() -> None:
    b = Builder()
    x = image(b)
    y = b.relu(x)
    b.tanh(b.sigmoid(x))
    b.output(y)
    assert rewrite(b)
    assert ops(b) == ["relu"]
    assert not rewrite(b)


IDENTITIES: list[Callable[[Builder, Any], Any]] = [
    lambda b, x: b.assign(x),
    lambda b, x: b.cast(x, dtype="float32"),
    lambda b, x: b.scale(x),
    lambda b, x: b.transpose(x, perm=[0, 1, 2, 3]),
    lambda b, x: b.reshape(x, shape=[-1, 3, 5, 5]),
    lambda b, x: b.squeeze(x, axis=[]),
    lambda b, x: b.pad(x, low=[0] * 4, high=[0] * 4),
]


@pytest.mark.parametrize("make", IDENTITIES)
def test_a_node_that_changes_nothing_goes(make: Callable[[Builder, Any], Any]) -> None:
    b = Builder()
    b.output(b.relu(make(b, image(b))))
    assert rewrite(b, "remove_identities")
    assert ops(b) == ["relu"]


def test_a_node_that_changes_something_stays() -> None:
    b = Builder()
    x = image(b)
    b.output(
        b.cast(x, dtype="float64"),
        b.transpose(x, perm=[0, 1, 3, 2]),
        b.scale(x, scale=2.0),
    )
    assert not rewrite(b, "remove_identities")


def test_an_output_that_is_the_input_keeps_its_name() -> None:
    b = Builder()
    b.output(b.assign(image(b)))
    assert not rewrite(b, "remove_identities")
    assert [v.name for v in b.program.main.outputs] == ["assign_0"]


def test_common_subexpressions_are_computed_once() -> None:
    b = Builder()
    x = image(b)
    same = b.add(b.relu(x), b.relu(x))
    other = b.add(b.clip(x, min=0, max=1), b.clip(x, min=0.0, max=1))
    b.output(b.add(same, other))
    assert rewrite(b, "eliminate_common_subexpressions")
    assert sorted(ops(b)) == ["add", "add", "add", "clip", "clip", "relu"]


def test_equal_numbers_are_one_constant_but_for_parameters() -> None:
    b = Builder()
    x = image(b)
    scales = [b.constant(np.float32([s])) for s in (0.5, 0.5, 0.25)]
    rounded = [b.quantize(x, s, axis=-1) for s in scales]
    weights = [b.parameter(n, np.float32([0.5])) for n in "vw"]
    b.output(*(b.dequantize(q, scales[0], axis=-1) for q in rounded))
    b.output(*(b.mul(x, w) for w in weights))
    assert rewrite(b, "eliminate_common_subexpressions")
    assert sorted(ops(b)) == ["dequantize"] * 3 + ["mul"] * 2 + ["quantize"] * 2
    assert len(b.program.constants()) == 4
    given = draw(1, 3, 5, 5)
    found = _core.Engine.from_bytes(to_bytes(b.program)).run([given])
    for result, scale in zip(found, (0.5, 0.5, 0.25), strict=False):
        steps = np.rint(given / np.float32(scale)).clip(-127, 127)
        np.testing.assert_array_equal(result, steps * np.float32(0.5))


def test_zeros_of_unlike_signs_are_unlike_constants() -> None:
    b = Builder()
    x = image(b)
    b.output(*(b.div(x, b.constant(np.float32(zero))) for zero in (0.0, -0.0)))
    assert not rewrite(b, "eliminate_common_subexpressions")


def test_zeros_of_unlike_signs_are_unlike_attributes() -> None:
    b = Builder()
    x = b.input("x", "float32", [2])
    zeros = [b.leaky_relu(x, negative_slope=slope) for slope in (0.0, -0.0)]
    b.output(*(b.div(b.constant(np.float32(1)), zero) for zero in zeros))
    rewrite(b, "eliminate_common_subexpressions")
    engine = _core.Engine.from_bytes(to_bytes(b.program))
    positive, negative = engine.run([np.full(2, -1, np.float32)])
    np.testing.assert_array_equal(positive, [-np.inf, -np.inf])  # 1 / (0 * -1)
    np.testing.assert_array_equal(negative, [np.inf, np.inf])


def test_batch_norm_goes_into_the_convolution() -> None:
    b = Builder()
    mean, variance, scale, shift = draw(3), draw(3) ** 2, draw(3), draw(3)
    y = conv(b, image(b))
    w, c = (v.data for v in b.program.main.nodes[0].inputs[1:] if v is not None)
    stats = [
        b.parameter(n, a)
        for n, a in zip("mvsb", (mean, variance, scale, shift), strict=True)
    ]
    b.output(b.batch_norm_infer(y, *stats, epsilon=1e-3))
    assert rewrite(b, "fold_batch_norm")
    assert ops(b) == ["conv2d"]
    _, weight, bias = b.program.main.nodes[0].inputs
    k = scale / np.sqrt(variance + 1e-3)
    np.testing.assert_allclose(weight.data, w * k[:, None, None, None], rtol=1e-6)
    np.testing.assert_allclose(bias.data, (c - mean) * k + shift, rtol=1e-5, atol=1e-6)


def test_batch_norm_stays_where_its_input_is_read_twice() -> None:
    b = Builder()
    y = conv(b, image(b))
    stats = [b.parameter(n, draw(3) ** 2) for n in "mvsb"]
    b.output(b.batch_norm_infer(y, *stats), b.relu(y))
    assert not rewrite(b, "fold_batch_norm")


#: Kernel and geometry, by the path that computes such a convolution.
CONVOLUTIONS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "few channels": ((20, 3, 3, 3), {"stride": [2, 2], "padding": [1, 1, 1, 1]}),
    "pointwise": ((40, 48, 1, 1), {}),
    "many channels": ((64, 64, 3, 3), {"padding": [1, 1, 1, 1]}),
    "large kernels": ((512, 256, 3, 3), {"stride": [2, 2]}),
    "depthwise": ((24, 1, 3, 3), {"padding": [1, 1, 1, 1], "groups": 24}),
    "groups": ((24, 8, 3, 3), {"groups": 3}),
}


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_with_its_norm_gives_the_bits_of_the_two(
    name: str, bias: bool, kind: str
) -> None:
    shape, geometry = CONVOLUTIONS[name]
    b = Builder()
    channels = shape[0]
    image_shape = [2, shape[1] * geometry.get("groups", 1), 11, 13]
    x = b.input("x", kind, image_shape)
    c = b.parameter("c", draw(channels).astype(kind)) if bias else None
    y = b.conv2d(x, b.parameter("w", draw(*shape).astype(kind)), c, **geometry)
    stats = [
        b.parameter(n, draw(channels).astype(kind) ** p)
        for n, p in zip("mvsb", (1, 2, 1, 1), strict=True)
    ]
    y = b.batch_norm_infer(y, *stats, epsilon=1e-3)
    other = b.parameter("r", draw(*y.shape[1:])[None].repeat(2, 0).astype(kind))
    b.output(b.relu(b.add(y, other)))
    given = draw(*image_shape).astype(kind)
    want = results(b, given)
    assert rewrite(b, "fuse_batch_norm", "fuse_epilogue")
    assert ops(b) == ["conv2d_norm"]
    assert b.program.main.nodes[0].attrs["act"] == "relu"
    np.testing.assert_array_equal(results(b, given), want)


def test_a_norm_of_half_floats_goes_into_the_weights() -> None:
    b = Builder()
    x = b.input("x", "float16", [-1, 3, 5, 5])
    y = b.conv2d(x, b.parameter("w", draw(3, 3, 3, 3).astype(np.float16)))
    stats = [b.parameter(n, (draw(3) ** 2).astype(np.float16)) for n in "mvsb"]
    b.output(b.batch_norm_infer(y, *stats, epsilon=1e-3))
    assert rewrite(b, "fuse_batch_norm")
    assert ops(b) == ["conv2d"]


def test_an_added_constant_becomes_the_bias() -> None:
    b = Builder()
    y = conv(b, image(b), bias=False)
    b.output(b.add(b.constant(draw(1, 3, 1, 1)), y))
    assert rewrite(b, "fuse_bias")
    assert ops(b) == ["conv2d"]
    assert b.program.main.nodes[0].inputs[2].shape == (3,)


def test_a_matrix_product_and_a_row_become_linear() -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 4])
    y = b.matmul(x, b.parameter("w", draw(4, 6)))
    b.output(b.add(y, b.parameter("b", draw(6))))
    assert rewrite(b, "fuse_bias")
    assert ops(b) == ["linear"]


def test_a_constant_of_another_shape_is_no_bias() -> None:
    b = Builder()
    y = conv(b, image(b), bias=False)
    b.output(b.add(y, b.constant(draw(5))))  # along the width
    assert not rewrite(b, "fuse_bias")


def test_residual_and_activation_go_into_the_convolution() -> None:
    b = Builder()
    x = image(b)
    b.output(b.relu(b.add(conv(b, x), x)))
    assert rewrite(b, "fuse_epilogue")
    assert ops(b) == ["conv2d_act"]
    node = b.program.main.nodes[0]
    assert node.inputs[3] is x
    assert node.attrs["act"] == "relu"


def test_a_residual_after_the_activation_is_not_fused() -> None:
    b = Builder()
    x = image(b)
    b.output(b.add(b.relu(conv(b, x)), x))
    assert rewrite(b, "fuse_epilogue")
    assert ops(b) == ["conv2d_act", "add"]


def test_an_activation_with_other_attributes_is_not_fused() -> None:
    b = Builder()
    b.output(b.silu(conv(b, image(b)), beta=2.0))
    assert not rewrite(b, "fuse_epilogue")


def test_a_broadcast_residual_is_not_fused() -> None:
    b = Builder()
    r = b.input("r", "float32", [-1, 3, 1, 5])
    b.output(b.add(conv(b, image(b)), r))
    assert not rewrite(b, "fuse_epilogue")


def test_the_verifier_names_what_is_wrong() -> None:
    b = Builder()
    x = image(b)
    y = b.relu(x)
    b.output(y)
    y.shape = (7,)
    with pytest.raises(
        InvalidArgumentError, match=r"%relu_0.*must be float32\[-1, 3, 5"
    ):
        verify(b.program)
    with pytest.raises(
        InvalidArgumentError,
        match=r"\[matmul\] .*got x\.shape\[-1\]=5, y\.shape\[-2\]=4",
    ):
        b.matmul(x, b.parameter("w", draw(4, 4)))
    with pytest.raises(InvalidArgumentError, match="axis must be int, got 'a'"):
        b.softmax(x, axis="a")
    with pytest.raises(InvalidArgumentError, match="attributes must be"):
        b.relu(x, speed=1)


@pytest.mark.parametrize(
    ("op", "attrs", "drawn"),
    [
        ("relu", {}, False),
        ("gaussian", {"shape": [2]}, True),
        ("dropout", {"p": 0.5}, True),
        ("attention", {"p": 0.5}, True),
        ("attention", {"p": 0.0}, False),
        ("attention", {}, False),
    ],
)
def test_a_call_draws_numbers_if_its_row_does_and_the_rate_is_not_zero(
    op: str, attrs: dict[str, Any], drawn: bool
) -> None:
    assert draws(op, attrs) is drawn
