"""What kernels promise beyond their values: checks, determinism, corner cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proa import _core, errors, schema

from ..threads import num_threads

ops = _core.ops


def tensor(array: Any) -> Any:
    return _core.from_numpy(np.asarray(array), True)


@pytest.mark.parametrize("bad", [4, -5, 2**40])
def test_an_index_outside_its_axis_is_an_error_and_writes_nothing(bad: int):
    x = tensor(np.zeros((4, 2), np.float32))
    index, v = tensor(np.array([0, bad])), tensor(np.ones((2, 2), np.float32))
    with pytest.raises(errors.OutOfRangeError):
        ops.gather(x, index, axis=0)
    with pytest.raises(errors.OutOfRangeError):
        ops.embedding(index, x, padding_idx=-1)
    with pytest.raises(errors.OutOfRangeError):
        ops.index_put_(x, tensor(np.array([[0], [bad]])), v)
    np.testing.assert_array_equal(x.numpy(), 0)


def test_the_extremum_of_nothing_is_an_error():
    empty = tensor(np.zeros((0, 3), np.float32))
    for name in ("max", "min"):
        with pytest.raises(errors.InvalidArgumentError):
            getattr(ops, name)(empty, axis=[0], keepdim=False)
    assert ops.max(empty, axis=[1], keepdim=False).shape == [0]


def on_threads(count: int, function: Any) -> Any:
    with num_threads(count):
        return function().numpy()


RNG = np.random.default_rng(3)
BIG = RNG.standard_normal((700, 300)).astype(np.float32)
IDS = RNG.integers(0, 50, 4000)
ROWS = RNG.standard_normal((4000, 24)).astype(np.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda: ops.sum(tensor(BIG), axis=[], keepdim=False),
        lambda: ops.sum(tensor(BIG.reshape(-1, 10)), axis=[0], keepdim=False),
        lambda: ops.logsumexp(tensor(BIG), axis=[1], keepdim=False),
        lambda: ops.embedding_grad(
            tensor(IDS), tensor(ROWS), tensor(ROWS[:50]), padding_idx=-1
        ),
        lambda: ops.gather_grad(tensor(ROWS), tensor(IDS), tensor(ROWS[:50]), axis=0),
        lambda: ops.dropout(tensor(BIG), p=0.3, seed=1, offset=2, upscale=True),
        lambda: ops.gaussian(
            shape=[70001], mean=0.0, std=1.0, dtype="float32", seed=1, offset=2
        ),
    ],
)
def test_results_do_not_depend_on_the_number_of_threads(function: Any):
    one = on_threads(1, function)
    np.testing.assert_array_equal(on_threads(3, function), one)


#: Numbers of every size: some in a vector are where a function is computed apart.
EXTREMES = np.array(
    [0.0, -0.0, 1e-45, -3e-39, 0.5, -1.25, 2.75, 88.9, -104.2, 7e3, -9e3, 3e7, 2e19,
     -1e38, np.inf, -np.inf, np.nan],
    np.float32,
)  # fmt: skip
ELEMENTWISE = sorted(
    row.name
    for row in schema.ROWS.values()
    if row.elementwise
    and "float32" in row.dtypes
    and 1 <= len(row.arrays) <= 2
    and not any(a.optional or a.variadic or a.shape_only for a in row.arrays)
    and not any(a.required for a in row.attributes)
    and not row.mutates
)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_element_has_the_same_bits_whatever_its_neighbours(name: str):
    function, count = getattr(ops, name), len(schema.ROWS[name].arrays)
    random = np.random.default_rng(7)
    arrays = [random.permutation(np.repeat(EXTREMES, 4)) for _ in range(count)]
    for i in range(0, arrays[0].size, 5):
        for x in arrays:
            x[i] = random.normal()  # where most vectors are computed as a whole
    together = function(*map(tensor, arrays)).numpy()
    alone = [
        function(*(tensor(x[i : i + 1]) for x in arrays)).numpy()
        for i in range(together.size)
    ]
    np.testing.assert_array_equal(
        together.view(np.uint8), np.concatenate(alone).view(np.uint8)
    )


def test_a_long_float_sum_keeps_its_accuracy():
    x = np.full(3_000_001, 0.1, np.float32)
    got = ops.sum(tensor(x), axis=[], keepdim=False).item()
    assert got == pytest.approx(x.astype(np.float64).sum(), rel=1e-7)


def test_integer_arithmetic_wraps_and_never_traps():
    smallest = np.array([-(2**31)], np.int32)
    one, zero = np.array([-1], np.int32), np.array([0], np.int32)
    pairs = {"floor_div": -(2**31), "mod": 0, "mul": -(2**31)}
    for name, want in pairs.items():
        assert getattr(ops, name)(tensor(smallest), tensor(one)).item() == want
    for name in ("floor_div", "mod"):
        assert getattr(ops, name)(tensor(smallest), tensor(zero)).item() == 0
    assert ops.abs(tensor(smallest)).item() == -(2**31)
    powers = ops.pow(
        tensor(np.array([2, 2, -1, 1])), tensor(np.array([63, -1, -3, -9]))
    )
    assert powers.numpy().tolist() == [-(2**63), 0, -1, 1]


def test_casts_are_defined_for_every_value():
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1.5, 300.0])
    got = ops.cast(tensor(x), dtype="int64").numpy()
    assert got.tolist() == [0, 2**63 - 1, -(2**63), 2**63 - 1, -1, 300]
    assert ops.cast(tensor(x[4:]), dtype="uint8").numpy().tolist() == [255, 44]
    # One rounding: by way of float32 this would come to the even neighbour, 1.
    tie = np.array([1 + 2.0**-11 + 2.0**-40])
    assert ops.cast(tensor(tie), dtype="float16").numpy()[0] == 1 + 2.0**-10


def test_broadcast_and_transposed_arrays_add_as_in_numpy():
    x = RNG.standard_normal((33, 1, 65)).astype(np.float32)
    y = RNG.standard_normal((65, 7, 1)).astype(np.float32)
    transposed_view = ops.transpose(tensor(y), perm=[2, 1, 0])
    got = ops.add(tensor(x), transposed_view).numpy()
    np.testing.assert_array_equal(got, x + y.transpose(2, 1, 0))


@pytest.mark.parametrize(
    "perm", [[1, 0, 2, 3], [3, 2, 1, 0], [0, 2, 3, 1], [0, 3, 1, 2]]
)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_a_copy_of_a_permuted_array_is_that_of_numpy(perm: list[int], dtype: str):
    x = RNG.integers(0, 200, (3, 37, 5, 66)).astype(dtype)
    got = ops.assign(ops.transpose(tensor(x), perm=perm))
    np.testing.assert_array_equal(got.numpy(), x.transpose(perm))


def test_dropout_draws_by_position_whatever_the_memory_order():
    x = RNG.standard_normal((40, 70)).astype(np.float32)
    key = {"p": 0.5, "seed": 5, "offset": 1, "upscale": False}
    transposed_view = ops.transpose(tensor(x.T), perm=[1, 0])
    want = ops.dropout(tensor(x), **key).numpy()
    np.testing.assert_array_equal(ops.dropout(transposed_view, **key).numpy(), want)
    assert 0.4 < (want == 0).mean() < 0.6


def test_random_numbers_have_the_moments_they_should():
    key = {"shape": [200_000], "dtype": "float32", "seed": 9, "offset": 4}
    normal = ops.gaussian(mean=1.0, std=2.0, **key).numpy()
    assert normal.mean() == pytest.approx(1, abs=0.02)
    assert normal.std() == pytest.approx(2, abs=0.02)
    uniform = ops.uniform(low=-1.0, high=1.0, **key).numpy()
    assert uniform.mean() == pytest.approx(0, abs=0.01)
    assert uniform.min() >= -1 and uniform.max() < 1
