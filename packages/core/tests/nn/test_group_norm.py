"""Group and instance norm: accuracy, memory orders, and bits that stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa._core import ops
from proa.errors import ShapeError

from ..threads import results_by_threads

RNG = np.random.default_rng(7)
#: Shape and groups: rows of whole vectors and remainders, groups in blocks of several
#: and alone, samples of one and of many blocks.
SHAPES = [
    ((2, 8, 5, 7), 4),
    ((1, 6, 96, 96), 2),
    ((3, 32, 40, 40), 8),
    ((5, 48, 9, 9), 48),
    ((9, 24, 3, 3), 1),
    ((4, 30), 2),
    ((2, 6, 4, 5, 3), 3),
]


def reference(x: np.ndarray, w: np.ndarray, b: np.ndarray, groups: int) -> np.ndarray:
    flat = x.astype(np.float64).reshape(x.shape[0], groups, -1)
    centred = flat - flat.mean(-1, keepdims=True)
    y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    side = (-1, *[1] * (x.ndim - 2))
    return y.reshape(x.shape) * w.reshape(side) + b.reshape(side)


def tensor(x: np.ndarray, last: bool) -> Any:
    """x, its channels neighbours in memory if `last`."""
    if not last or x.ndim < 3:
        return proa.to_tensor(x)
    back = [0, x.ndim - 1, *range(1, x.ndim - 1)]
    return proa.to_tensor(np.ascontiguousarray(np.moveaxis(x, 1, -1))).transpose(back)


def call(x: Any, w: np.ndarray, b: np.ndarray, groups: int) -> Any:
    return ops.group_norm(x, proa.to_tensor(w), proa.to_tensor(b), groups=groups)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("shape", "groups"), SHAPES)
def test_error_is_a_few_roundings(shape, groups, last):
    x = RNG.standard_normal(shape).astype(np.float32) * 3 + 5
    w, b = RNG.standard_normal((2, shape[1])).astype(np.float32)
    got, mean, _ = call(tensor(x, last), w, b, groups)
    want = reference(x, w, b, groups)
    # Rounding of x - mean (parts of size 5), its product with scale and rstd, the sum.
    bound = 2.0**-24 * (4 * np.abs(want) + 16 * np.abs(w).max() + 2 * np.abs(b).max())
    assert (np.abs(got.numpy() - want) <= bound).all()
    means = x.astype(np.float64).reshape(shape[0], groups, -1).mean(-1)
    # A sum of up to 1024 rows rounds at random at each: sqrt(1024) times half a unit.
    np.testing.assert_allclose(mean.numpy(), means, rtol=32 * 2.0**-25)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("shape", "groups"), SHAPES)
def test_gradient_agrees_with_its_formula(shape, groups, last):
    x, dy = RNG.standard_normal((2, *shape)).astype(np.float32)
    w, b = RNG.standard_normal((2, shape[1])).astype(np.float32)
    given, up = tensor(x, last), tensor(dy, last)
    _, mean, rstd = call(given, w, b, groups)
    got = ops.group_norm_grad(
        up, given, mean, rstd, proa.to_tensor(w), groups=groups, epsilon=1e-5
    )
    ones, none = np.ones_like(w), np.zeros_like(b)
    xhat = reference(x, ones, none, groups)
    side = (-1, *[1] * (x.ndim - 2))
    flat = (shape[0], groups, -1)
    g, h = (dy * w.reshape(side)).reshape(flat), xhat.reshape(flat)
    inner = g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True)
    rstd64 = 1 / np.sqrt(x.astype(np.float64).reshape(flat).var(-1) + 1e-5)
    dx = (inner * rstd64[..., None]).reshape(shape)
    np.testing.assert_allclose(got[0].numpy(), dx, rtol=1e-5, atol=4e-6)
    axes = tuple(i for i in range(x.ndim) if i != 1)
    for a, terms in zip(got[1:], (dy * xhat, dy.astype(np.float64)), strict=True):
        bound = 2.0**-23 * np.abs(terms).sum(axes)
        assert (np.abs(a.numpy() - terms.sum(axes)) <= bound + 1e-6).all()


@pytest.mark.parametrize("last", [False, True])
def test_a_batch_has_the_bits_of_its_samples(last):
    x = RNG.standard_normal((9, 12, 33, 31)).astype(np.float32)
    w, b = RNG.standard_normal((2, 12)).astype(np.float32)
    whole = call(tensor(x, last), w, b, 4)
    for i in range(9):
        alone = call(tensor(x[i : i + 1], last), w, b, 4)
        for a, part in zip(whole, alone, strict=True):
            np.testing.assert_array_equal(a.numpy()[i : i + 1], part.numpy())


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("batch", [1, 10])
def test_results_do_not_depend_on_the_thread_count(batch, last):
    x, dy = RNG.standard_normal((2, batch, 16, 70, 90)).astype(np.float32)
    w, b = RNG.standard_normal((2, 16)).astype(np.float32)

    def compute():
        y = call(tensor(x, last), w, b, 4)
        grads = ops.group_norm_grad(
            tensor(dy, last), tensor(x, last), *y[1:], proa.to_tensor(w),
            groups=4, epsilon=1e-5,
        )  # fmt: skip
        return [t.numpy() for t in (*y, *grads)]

    found = results_by_threads(compute)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("given", ["both", "weight", "bias", "none"])
def test_weight_and_bias_may_be_left_out(given):
    x = RNG.standard_normal((2, 6, 4, 4)).astype(np.float32)
    w, b = RNG.standard_normal((2, 6)).astype(np.float32)
    w = w if given in ("both", "weight") else np.ones_like(w)
    b = b if given in ("both", "bias") else np.zeros_like(b)
    options = {}
    if given in ("both", "weight"):
        options["weight"] = proa.to_tensor(w)
    if given in ("both", "bias"):
        options["bias"] = proa.to_tensor(b)
    got = nn.functional.group_norm(proa.to_tensor(x), 3, **options).numpy()
    np.testing.assert_allclose(got, reference(x, w, b, 3), rtol=1e-5, atol=2e-6)


def test_groups_must_divide_the_channels():
    with pytest.raises(ShapeError, match="channels must be divisible by 4"):
        nn.functional.group_norm(proa.ones([2, 6, 3, 3]), 4)
    with pytest.raises(ShapeError, match="channels must be divisible by 0"):
        nn.functional.group_norm(proa.ones([2, 6, 3, 3]), 0)
