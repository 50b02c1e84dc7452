"""Sums of int8 products: exact up to the longest that int32 holds, then refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError

raw = proa._core.ops
#: 128 * 128 * 131071 < 2^31 <= 128 * 128 * 131072
PLAIN = 131_071


def whole(shape: tuple[int, ...], value: int) -> Any:
    return proa.to_tensor(np.full(shape, value, np.int8))


def one() -> Any:
    return proa.ones([1])


def linear(k: int, x: int, w: int) -> Any:
    return raw.linear_int8(
        whole((2, k), x), whole((k, 3), w), proa.ones([3]), None, None, dtype="float32"
    )


def conv(k: int, x: int, w: int) -> Any:
    return raw.conv2d_int8(
        whole((1, k, 1, 1), x), whole((1, k, 1, 1), w), one(), None, None,
        dtype="float32",
    )  # fmt: skip


def matmul(x_zero: int = 0, y_zero: int = 0) -> Callable[..., Any]:
    return lambda k, x, y: raw.matmul_int8(
        whole((2, k), x), whole((k, 3), y),
        scale=1.0, x_zero=x_zero, y_zero=y_zero, dtype="float32",
    )  # fmt: skip


def dynamic(symmetric: bool) -> Callable[..., Any]:
    def call(k: int, x: int, w: int) -> Any:
        row = np.zeros((1, k), np.float32) + x
        return raw.linear_dynamic(
            proa.to_tensor(row), whole((k, 1), w), one(), symmetric=symmetric
        )

    return call


#: The call, its greatest number of steps, elements, and a product of two of them.
CASES: dict[str, tuple[Callable[..., Any], int, tuple[int, int], int]] = {
    "linear_int8": (linear, PLAIN, (-128, -128), 128 * 128),
    "conv2d_int8": (conv, PLAIN, (-128, -128), 128 * 128),
    "matmul_int8": (matmul(), PLAIN, (-128, -128), 128 * 128),
    # 255 * 128 * 65793 < 2^31
    "one zero point": (matmul(127), 65_793, (-128, -128), 255 * 128),
    "the other one": (matmul(0, -128), 65_793, (-128, 127), -128 * 255),
    # 255 * 255 * 33025 < 2^31
    "two zero points": (matmul(127, -128), 33_025, (-128, 127), -255 * 255),
    # 129 * 128 * 130055 < 2^31
    "a small one": (matmul(1), 130_055, (-128, -128), 129 * 128),
    # A row of 127 is itself in int8, in steps of 1.
    "linear_dynamic": (dynamic(True), 132_104, (127, -128), -127 * 128),
    # A row of 255 is 127 with the zero point -128.
    "asymmetric": (dynamic(False), 65_793, (255, -128), -255 * 128),
}


@pytest.mark.parametrize("case", CASES)
def test_sums_of_as_many_steps_as_fit_int32_are_exact(case: str) -> None:
    call, steps, elements, product = CASES[case]
    found = call(steps, *elements).numpy()
    np.testing.assert_array_equal(found, np.float32(steps * product))


@pytest.mark.parametrize("case", CASES)
def test_a_longer_sum_is_refused_with_the_limit(case: str) -> None:
    call, steps, elements, _ = CASES[case]
    message = (
        "expected a sum of int8 products that int32 holds, "
        f"got steps={steps + 1}, max_steps={steps} "
    )
    with pytest.raises(InvalidArgumentError, match=message):
        call(steps + 1, *elements)


def test_windows_of_convolutions_count_all_their_elements() -> None:
    def call(size: int) -> Any:
        return raw.conv2d_int8(
            whole((1, 2, size, size), -128), whole((2, 1, size, size), -128),
            proa.ones([2]), None, None, groups=2, dtype="float32",
        )  # fmt: skip

    want = np.full((1, 2, 1, 1), 362 * 362 * 128 * 128, np.float32)
    np.testing.assert_array_equal(call(362).numpy(), want)
    with pytest.raises(InvalidArgumentError, match="steps=131769, max_steps=131071"):
        call(363)


def test_states_of_recurrent_layers_have_a_limit() -> None:
    hidden = 132_105  # 127 * 128 * 132105 > 2^31
    with pytest.raises(InvalidArgumentError, match="max_steps=132104"):
        raw.recurrent_int8(
            proa.zeros([0, 1, 3 * hidden]),
            proa.zeros([1, 1], "int8").expand([3 * hidden, hidden]),
            proa.ones([3 * hidden]), proa.zeros([1, hidden]), cell="gru", h_scale=1.0,
        )  # fmt: skip


def test_means_of_images_have_a_limit() -> None:
    image = whole((1, 1, 1, 1), -128).expand([1, 1, 4096, 4095])
    found = raw.mean_int8(image, scale=1.0)
    np.testing.assert_array_equal(found.numpy(), np.full((1, 1, 1, 1), -128.0))
    image = whole((1, 1, 1, 1), -128).expand([1, 1, 4096, 4096])
    message = "steps=16777216, max_steps=16777215"
    with pytest.raises(InvalidArgumentError, match=message):
        raw.mean_int8(image, scale=1.0)


def attention(width: int, keys: int, zero: int, value: int, **given: Any) -> Any:
    q, k = (whole((1, n, 1, width), -128) for n in (1, keys))
    return raw.attention_int8(
        q, k, whole((1, keys, 1, 2), value), scale=1e-9, v_scale=1.0,
        q_zero=zero, k_zero=zero, v_zero=zero, dtype="float32", **given,
    )  # fmt: skip


def test_scores_of_attention_have_the_limit_of_a_product() -> None:
    found = attention(33_025, 1, 127, -128)
    want = np.full((1, 1, 1, 2), -255.0)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-6)
    with pytest.raises(InvalidArgumentError, match="steps=33026, max_steps=33025"):
        attention(33_026, 1, 127, -128)
    with pytest.raises(InvalidArgumentError, match="max_steps=131071"):
        attention(131_072, 1, 0, 0)


def test_keys_have_a_limit_where_weights_of_softmax_are_clamped() -> None:
    """All weights of 1 / 33025 are 255 steps of 1e-9."""
    found = attention(1, 33_025, 127, -128, weight_scale=1e-9).numpy()
    want = np.full((1, 1, 1, 2), 33_025 * 255 * -255 * 1e-9)
    np.testing.assert_allclose(found, want, rtol=1e-6)
    with pytest.raises(InvalidArgumentError, match="steps=33026, max_steps=33025"):
        attention(1, 33_026, 127, -128, weight_scale=1e-9)


def test_keys_of_attention_have_no_limit() -> None:
    """510 equal weights of 1/510 round to 1 of 255 steps each: the largest sum."""
    for keys in (510, 140_000):
        found = attention(4, keys, 127, -128).numpy()
        weights = keys * np.rint(255 / keys) / 255
        np.testing.assert_allclose(found, np.full((1, 1, 1, 2), -255 * weights))
    scores = np.full(140_000, -128, np.int8)
    scores[-1] = 127  # one key has all the weight
    k = np.zeros((1, 140_000, 1, 1), np.int8)
    k[0, :, 0, 0] = scores
    found = raw.attention_int8(
        whole((1, 1, 1, 1), 127), proa.to_tensor(k), whole((1, 140_000, 1, 1), 127),
        scale=0.01, v_scale=1.0, v_zero=-128, dtype="float32",
    )  # fmt: skip
    np.testing.assert_allclose(found.numpy(), np.full((1, 1, 1, 1), 255.0), rtol=1e-6)
