"""Random indices against NumPy: reading, writing, gradients, and errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proa

Array = NDArray[Any]
#: The same test at two sizes: seeds, and cases of each.
RUNS = [
    *[pytest.param(seed, 100, id=f"{seed}") for seed in range(4)],
    *[
        pytest.param(seed, 2000, id=f"{seed}-full", marks=pytest.mark.full)
        for seed in range(100, 130)
    ],
]
#: What NumPy may raise, and what is raised for it.
KINDS = (IndexError, ValueError, TypeError)


def a_slice(r: random.Random, size: int) -> slice:
    def bound() -> int | None:
        return r.choice([None, *range(-size - 1, size + 2)])

    step = 0 if r.random() < 0.01 else r.choice([None, 1, 1, 2, 3, -1, -2])
    return slice(bound(), bound(), step)


def an_index(r: random.Random, size: int, common: tuple[int, ...]) -> Array:
    """Integers that mostly broadcast to `common` and mostly are in range."""
    shape = tuple(r.choice([n, n, 1]) for n in common[r.randint(0, len(common)) :])
    if r.random() < 0.04:
        shape = (*shape, r.choice([0, 2, 5]))
    low, high = -size, size
    if size == 0 or r.random() < 0.04:
        low, high = low - 1, high + 1
    generator = np.random.default_rng(r.getrandbits(32))
    return generator.integers(low, high, shape)


def a_mask(r: random.Random, shape: tuple[int, ...]) -> Array:
    sizes = list(shape)
    if r.random() < 0.08:  # too long or too short
        at = r.randrange(len(sizes))
        sizes[at] = max(1, sizes[at] + r.choice([-2, -1, 1, 3]))  # NumPy passes over 0
    return np.random.default_rng(r.getrandbits(32)).random(sizes) < 0.5


def a_key(r: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A tuple of what NumPy takes as indices, and now and then what it refuses."""
    common = r.choice([(), (2,), (3,), (0,), (2, 3), (1, 2)])
    items: list[Any] = []
    axis, basic = 0, r.random() < 0.3
    end = len(shape) + (r.random() < 0.05)
    has_ellipsis = False
    while axis < end and r.random() < 0.9:
        size = shape[axis] if axis < len(shape) else 2
        kind = r.random()
        if kind < 0.08 and sum(i is None for i in items) < 2:  # arrays have 8 axes
            items.append(None)
            continue
        if kind < 0.16 and (not has_ellipsis or r.random() < 0.03):
            items.append(Ellipsis)
            axis, has_ellipsis = axis + r.randint(0, 2), True
            continue
        if kind < 0.18 and not basic:
            items.append(r.choice([True, False, np.bool_(True), 0.5, "a", [0.5]]))
            continue
        taken = 1
        if kind < 0.45:
            items.append(a_slice(r, size))
        elif kind < 0.6 or basic:
            wrong = r.random() < 0.05 or size == 0
            items.append(r.randint(-size - wrong, size - 1 + wrong))
        elif kind < 0.75:
            taken = min(r.choice([1, 1, 2]), max(len(shape) - axis, 1))
            items.append(a_mask(r, shape[axis : axis + taken] or (2,)))
        else:
            items.append(an_index(r, size, common))
        axis += taken
    return tuple(items)


def expected_key(key: tuple[Any, ...], rank: int) -> tuple[Any, ...] | None:
    """The key for NumPy; None where its rules are not those of other libraries.

    An Ellipsis that stands for no axis goes: in NumPy it separates index arrays. A mask
    without elements must match nothing there.
    """
    masks = [i for i in key if isinstance(i, np.ndarray) and i.dtype == bool]
    if any(m.size == 0 for m in masks) and sum(i is Ellipsis for i in key):
        return None
    used = sum(
        i.ndim if isinstance(i, np.ndarray) and i.dtype == bool else 1
        for i in key
        if i is not None and i is not Ellipsis and not isinstance(i, (bool, np.bool_))
    )
    if used == rank and sum(i is Ellipsis for i in key) == 1:
        return tuple(i for i in key if i is not Ellipsis)
    return key


def given_form(r: random.Random, item: Any) -> Any:
    """The item as the user may write it: arrays, lists, Tensors of int32 or int64."""
    if not isinstance(item, np.ndarray):
        return item
    form = r.random()
    if form < 0.2:
        return item
    if form < 0.4 and item.ndim and (item.size or item.dtype != bool):
        return item.tolist() if item.size else item
    if form < 0.6 and item.dtype != bool:
        return proa.to_tensor(item.astype(r.choice(["int32", "int8"])))
    return proa.to_tensor(item)


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except KINDS as error:
        return error


def agree(want: Any, got: Any) -> bool:
    """True if both gave an array; asserts that they failed alike if one failed."""
    failed = isinstance(want, Exception), isinstance(got, Exception)
    assert failed[0] == failed[1], f"{want!r} {got!r}"
    if failed[0]:
        kind: Any = next(k for k in KINDS if isinstance(want, k))
        if " step" in f"{want} {got}":  # with another mistake either may come first
            kind = (IndexError, ValueError)
        assert isinstance(got, kind), f"{want!r} {got!r}"
        assert isinstance(got, proa.errors.Error), repr(got)
    return not failed[0]


def a_value(r: random.Random, shape: tuple[int, ...]) -> Array:
    """What broadcasts to the shape, and now and then what does not."""
    if not shape:  # NumPy sets a single element to a number alone
        return np.asarray(float(r.randint(1, 1000)))
    sizes = [1 if r.random() < 0.2 else n for n in shape[r.choice([0, 0, 1]) :]]
    if r.random() < 0.05:
        sizes.append(r.choice([3, 7]))
    if r.random() < 0.1:
        sizes = [1] * (len(shape) - len(sizes) + 1) + sizes
    generator = np.random.default_rng(r.getrandbits(32))
    return generator.integers(1, 1000, sizes).astype(np.float64)


def weights(shape: tuple[int, ...]) -> Array:
    return np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)


def gradient(
    run: Callable[..., proa.Tensor], *arrays: Array
) -> tuple[proa.Tensor, list[Array]]:
    """The result of `run` and the gradients of its sum with `weights`."""
    inputs = [proa.to_tensor(a, stop_gradient=False) for a in arrays]
    y = run(*inputs)
    (y * proa.to_tensor(weights(tuple(y.shape)))).sum().backward()
    return y, [
        np.zeros(a.shape) if t.grad is None else t.grad.numpy()
        for a, t in zip(arrays, inputs, strict=True)
    ]


def check_get(a: Array, key: Any, given: Any) -> Array | None:
    """Reading; returns the flat places read, or None where the index is refused."""
    want = outcome(lambda: a[key])
    if not agree(want, outcome(lambda: proa.to_tensor(a)[given])):
        return None
    places: Array = np.arange(a.size).reshape(a.shape)[key]
    y, (dx,) = gradient(lambda x: x[given], a)
    assert tuple(y.shape) == want.shape
    np.testing.assert_array_equal(y.numpy(), want)
    expected = np.bincount(places.ravel(), weights(want.shape).ravel(), a.size)
    np.testing.assert_array_equal(dx, expected.reshape(a.shape))
    return places


def check_set(a: Array, key: Any, given: Any, value: Array, places: Array) -> None:
    want, x = a.copy(), proa.to_tensor(a)
    refused = outcome(lambda: want.__setitem__(key, value))
    done = outcome(lambda: x.__setitem__(given, proa.to_tensor(value)))
    if isinstance(refused, TypeError) and "boolean" in str(refused):
        return  # NumPy broadcasts first axes of size 1 but where a mask is alone
    if not agree(refused, done):
        np.testing.assert_array_equal(x.numpy(), a)
        return

    def broadcast(
        values: Array,
    ) -> Array:  # as assignment does: first axes of size 1 go
        first = max(values.ndim - places.ndim, 0)
        return np.broadcast_to(values.reshape(values.shape[first:]), places.shape)

    spread = broadcast(value)
    unique = np.unique(places).size == places.size
    if unique:
        np.testing.assert_array_equal(x.numpy(), want)
    else:  # of equal places any one of the values
        pairs = set(zip(places.ravel().tolist(), spread.ravel().tolist(), strict=True))
        found = x.numpy().ravel()
        assert all((p, found[p]) in pairs for p in np.unique(places))
        others = np.setdiff1d(np.arange(a.size), places)
        np.testing.assert_array_equal(found[others], a.ravel()[others])

    def write(x: proa.Tensor, v: proa.Tensor) -> proa.Tensor:
        y = x * 1
        y[given] = v
        return y

    _, (dx, dv) = gradient(write, a, value)
    w = weights(a.shape)
    expected = w.copy().ravel()
    expected[places.ravel()] = 0
    np.testing.assert_array_equal(dx, expected.reshape(a.shape))
    if unique:
        source = broadcast(np.arange(value.size).reshape(value.shape))
        back = np.bincount(source.ravel(), w.ravel()[places.ravel()], value.size)
        np.testing.assert_array_equal(dv, back.reshape(value.shape))


@pytest.mark.fuzz
@pytest.mark.parametrize(("seed", "count"), RUNS)
def test_any_index_does_what_numpy_does(seed: int, count: int) -> None:
    for i in range(count):
        r = random.Random(f"{seed} {i}")
        shape = tuple(r.choice([0, 1, 2, 3, 4]) for _ in range(r.randint(0, 4)))
        a = np.random.default_rng(i).normal(size=shape)
        key = a_key(r, shape)
        forms = tuple(given_form(r, item) for item in key)
        want = expected_key(key, len(shape))
        if want is None:
            continue
        if len(forms) == 1 and r.random() < 0.7:
            forms = forms[0]
        try:
            places = check_get(a, want, forms)
            if places is not None and places.ndim < 7:
                check_set(a, want, forms, a_value(r, places.shape), places)
        except BaseException as error:
            error.add_note(f"seed {seed}, case {i}: shape {shape}, key {key!r}")
            raise
