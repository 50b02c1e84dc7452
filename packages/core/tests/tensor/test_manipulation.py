"""Shapes, joining, cutting, indices: against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError

RNG = np.random.RandomState(1)
A = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)


def same(x: Any, expected: Any) -> None:
    """x equals the array, shape included."""
    array = np.asarray(expected)
    assert list(x.shape) == list(array.shape)
    np.testing.assert_array_equal(x.numpy(), array)


def test_reshape_and_its_relatives() -> None:
    x = proa.to_tensor(A)
    same(proa.reshape(x, [4, -1]), A.reshape(4, -1))
    same(x.reshape([0, -1]), A.reshape(2, -1))
    same(x.reshape([proa.to_tensor(6), 4]), A.reshape(6, 4))
    same(proa.flatten(x, 1, 2), A.reshape(2, 12))
    same(proa.flatten(proa.to_tensor(1.0)), [1.0])
    same(proa.unsqueeze(x, [0, 2]), A[None, :, None])
    same(proa.squeeze(proa.ones([1, 3, 1]), 0), np.ones((3, 1)))
    same(proa.squeeze(proa.ones([1, 3, 1])), np.ones(3))
    same(proa.transpose(x, [2, 0, 1]), A.transpose(2, 0, 1))
    same(x.T, A.T)
    same(proa.t(x[0]), A[0].T)
    same(proa.moveaxis(x, [0, 1], [2, 0]), np.moveaxis(A, [0, 1], [2, 0]))
    same(proa.swapaxes(x, 0, 2), A.swapaxes(0, 2))


@pytest.mark.feature("L033")
def test_views_share_memory() -> None:
    x = proa.to_tensor(A)
    y = x.reshape([6, 4])
    y[0] = 0.0
    assert x.numpy()[0, 0].tolist() == [0, 0, 0, 0]
    z = x.transpose([2, 1, 0])
    x[1, 2, 3] = -1.0
    assert z.numpy()[3, 2, 1] == -1


def test_broadcasting_and_repeating() -> None:
    x = proa.to_tensor(A[:, :1])
    same(proa.expand(x, [2, 3, 4]), np.broadcast_to(A[:, :1], (2, 3, 4)))
    same(proa.expand(x, [5, -1, 3, -1]), np.broadcast_to(A[:, :1], (5, 2, 3, 4)))
    same(proa.expand_as(x, proa.to_tensor(A)), np.broadcast_to(A[:, :1], A.shape))
    same(proa.tile(x, [2, 1, 2]), np.tile(A[:, :1], (2, 1, 2)))
    same(proa.repeat_interleave(x, 2, axis=2), np.repeat(A[:, :1], 2, 2))
    same(proa.repeat_interleave(proa.arange(3), proa.to_tensor([1, 0, 2])), [0, 2, 2])
    p, q = proa.broadcast_tensors([x, proa.ones([3, 1])])
    assert p.shape == q.shape == [2, 3, 4]
    assert proa.broadcast_shape([2, 1], [3]) == [2, 3]


def test_joining_and_cutting() -> None:
    x, y = proa.to_tensor(A), proa.to_tensor(-A)
    same(proa.concat([x, y], axis=-1), np.concatenate([A, -A], -1))
    same(proa.stack([x, y], axis=1), np.stack([A, -A], 1))
    for ours, theirs in zip(proa.split(x, 2, axis=2), np.split(A, 2, 2), strict=True):
        same(ours, theirs)
    first, second = proa.split(x, [1, -1], axis=1)
    same(first, A[:, :1])
    same(second, A[:, 1:])
    assert [c.shape for c in proa.chunk(x, 3, 1)] == [[2, 1, 4]] * 3
    same(proa.unbind(x, 1)[2], A[:, 2])
    with pytest.raises(InvalidArgumentError, match="that divides the size 3, got 2"):
        proa.split(x, 2, axis=1)
    with pytest.raises(InvalidArgumentError, match="add up to 3"):
        proa.split(x, [1, 1], axis=1)


def test_joined_0d_tensors_make_a_vector() -> None:
    numbers = [proa.to_tensor(n) for n in (3, 5)]
    same(proa.concat(numbers), [3, 5])
    same(proa.concat(numbers, axis=-1), [3, 5])
    same(proa.concat([proa.to_tensor([1, 2]), *numbers]), [1, 2, 3, 5])
    with pytest.raises(InvalidArgumentError):
        proa.concat([numbers[0], proa.to_tensor([[1]])])


def test_stack_takes_many_tensors_and_refuses_none() -> None:
    many = [proa.full([3], i) for i in range(200)]
    same(proa.stack(many), np.repeat(np.arange(200), 3).reshape(200, 3))
    with pytest.raises(InvalidArgumentError):
        proa.stack([])


@pytest.mark.feature("L039")
def test_stack_reads_and_writes_within_bounds() -> None:
    arrays = [RNG.randn(2, 3).astype(np.float32) for _ in range(4)]
    tensors = [proa.to_tensor(a) for a in arrays]
    for axis in range(-3, 3):
        same(proa.stack(tensors, axis), np.stack(arrays, axis))
    strided = [proa.to_tensor(np.float32(a.T)).t() for a in arrays]
    same(proa.stack(strided, 1), np.stack(arrays, 1))
    same(proa.stack([proa.zeros([0, 3])] * 2), np.zeros((2, 0, 3)))
    for axis in (3, -4, 2**40):
        with pytest.raises(ValueError, match=r"\[stack\].*axis"):
            proa.stack(tensors, axis)
    for other in ([2, 2], [3, 3], [6], [1, 2, 3]):
        with pytest.raises(ValueError, match=r"\[stack\]"):
            proa.stack([*tensors, proa.zeros(other)])


@pytest.mark.feature("L016")
def test_flip_rot90_and_roll() -> None:
    x = proa.to_tensor(A)
    same(proa.flip(x, [0, 2]), np.flip(A, (0, 2)))
    same(proa.t(x[0]), A[0].T)
    same(proa.roll(x, 1), np.roll(A, 1))
    same(proa.roll(x, [1, -2], [0, 2]), np.roll(A, (1, -2), (0, 2)))
    for k in range(-1, 5):
        same(proa.rot90(x[0], k), np.rot90(A[0], k))


def test_slices_by_function() -> None:
    x = proa.to_tensor(A)
    same(proa.slice(x, [0, 2], [0, 1], [1, 3]), A[0:1, :, 1:3])
    same(proa.slice(x, [1], [-2], [100]), A[:, -2:])
    same(proa.strided_slice(x, [2], [3], [0], [-2]), A[:, :, 3:0:-2])
    same(proa.crop(x, [1, -1, 2], [1, 1, 0]), A[1:2, 1:, 0:2])


@pytest.mark.feature("L013")
def test_sorting_and_searching() -> None:
    a = RNG.randn(3, 5).astype(np.float32)
    x = proa.to_tensor(a)
    same(proa.sort(x, axis=0), np.sort(a, 0))
    same(proa.sort(x, descending=True), -np.sort(-a))
    same(proa.argsort(x), np.argsort(a))
    same(proa.argsort(x, descending=True), np.argsort(-a, kind="stable"))
    same(proa.argmax(x), a.argmax())
    same(proa.argmax(x, axis=1, keepdim=True), a.argmax(1)[:, None])
    same(proa.argmin(x, axis=0, dtype="int32"), a.argmin(0).astype(np.int32))
    values, index = proa.topk(x, 2)
    same(values, -np.sort(-a)[:, :2])
    same(index, np.argsort(-a)[:, :2])
    value, _ = proa.kthvalue(x, 2, axis=1)
    same(value, np.sort(a)[:, 1])
    modes, _ = proa.mode(proa.to_tensor([[1, 2, 2], [3, 3, 1]]))
    same(modes, [2, 3])
    line = np.array([1.0, 3, 5], np.float32)
    same(
        proa.searchsorted(proa.to_tensor(line), proa.to_tensor([0.0, 3.0, 6.0])),
        np.searchsorted(line, [0, 3, 6]),
    )
    same(
        proa.searchsorted(proa.to_tensor(line), proa.to_tensor([3.0]), right=True), [2]
    )


@pytest.mark.feature("L016")
def test_picking_by_index() -> None:
    x = proa.to_tensor(A)
    i = proa.to_tensor([2, 0])
    same(proa.index_select(x, i, axis=1), A[:, [2, 0]])
    same(proa.gather(x, proa.to_tensor([1, 1, 0])), A[[1, 1, 0]])
    same(proa.gather(x, i, axis=2), A[:, :, [2, 0]])
    same(proa.gather_nd(x, proa.to_tensor([[0, 1], [1, 2]])), A[[0, 1], [1, 2]])
    index = RNG.randint(0, 4, (2, 3, 2))
    same(
        proa.take_along_axis(x, proa.to_tensor(index), 2),
        np.take_along_axis(A, index, 2),
    )
    same(proa.index_sample(x[0], proa.to_tensor([[0], [3], [1]])), [[0], [7], [9]])
    same(proa.masked_select(x, x > 20), A[A > 20])
    same(proa.nonzero(x > 21), np.argwhere(A > 21))
    assert [p.shape for p in proa.nonzero(x, as_tuple=True)] == [[23, 1]] * 3
    same(proa.where(x > 5, x, proa.zeros_like(x)), np.where(A > 5, A, 0))
    same(proa.where(x > 5, x, -1.0), np.where(A > 5, A, -1))
    same(proa.masked_fill(x, x > 5, 9.0), np.where(A > 5, 9, A))


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (300,), (7, 33), (3, 4, 5, 6)])
def test_coordinates_of_what_is_not_zero(shape: tuple[int, ...]) -> None:
    array = RNG.random(shape) > 0.6
    same(proa.nonzero(proa.to_tensor(array)), np.argwhere(array))
    transposed_view = proa.to_tensor(array).transpose(list(range(len(shape)))[::-1])
    same(proa.nonzero(transposed_view), np.argwhere(array.T))
    count = int(np.count_nonzero(array))
    for wrong in (count + 1, count - 1):
        with pytest.raises(InvalidArgumentError):
            proa._core.ops.nonzero(transposed_view, count=wrong)


def test_putting_by_index() -> None:
    x = proa.zeros([3, 2])
    up = proa.to_tensor([[1.0, 1], [2, 2], [3, 3]])
    i = proa.to_tensor([2, 1, 2])
    same(proa.scatter(x, i, up), [[0, 0], [2, 2], [3, 3]])
    same(proa.scatter(x + 5, i, up, overwrite=False), [[5, 5], [2, 2], [4, 4]])
    nd = proa.scatter_nd_add(proa.ones([4]), proa.to_tensor([[1], [1]]), proa.ones([2]))
    same(nd, [1, 3, 1, 1])
    same(proa.scatter_nd(proa.to_tensor([[1], [3]]), proa.ones([2]), [4]), [0, 1, 0, 1])
    a = np.zeros((2, 3), np.float32)
    np.put_along_axis(a, np.array([[1], [2]]), 7, 1)
    same(proa.put_along_axis(proa.zeros([2, 3]), proa.to_tensor([[1], [2]]), 7.0, 1), a)
    added = proa.put_along_axis(
        proa.ones([2, 3]), proa.to_tensor([[1, 1], [2, 0]]), 1.0, 1, "add"
    )
    same(added, [[1, 3, 1], [2, 1, 2]])
    same(
        proa.index_add(proa.ones([3, 2]), proa.to_tensor([0, 0]), 0, proa.ones([2, 2])),
        [[3, 3], [1, 1], [1, 1]],
    )


def test_put_along_axis_multiplies_and_leaves_old_values_out():
    rng = np.random.default_rng(0)
    a, v = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 5, 2))
    index = rng.integers(-4, 4, (3, 5, 2))
    at = np.ix_(*map(np.arange, index.shape))
    at = (at[0], index, at[2])
    want = {"mul": a.copy(), "add": a.copy()}
    np.multiply.at(want["mul"], at, v)
    np.add.at(want["add"], at, v)
    reset = {"mul": a.copy(), "add": a.copy()}
    reset["mul"][at], reset["add"][at] = 1, 0
    np.multiply.at(reset["mul"], at, v)
    np.add.at(reset["add"], at, v)
    x, i, u = proa.to_tensor(a), proa.to_tensor(index), proa.to_tensor(v)
    for reduce in ("mul", "add"):
        got = proa.put_along_axis(x, i, u, 1, reduce)
        np.testing.assert_allclose(got.numpy(), want[reduce])
        got = proa.put_along_axis(x, i, u, 1, reduce, False)
        np.testing.assert_allclose(got.numpy(), reset[reduce])
    with pytest.raises(IndexError, match="put_along_axis"):
        proa.put_along_axis(x, i * 9, u, 1, "mul")


def test_put_along_axis_that_multiplies_has_the_gradient_of_differences():
    rng = np.random.default_rng(1)
    a, v = rng.standard_normal((3, 4)), rng.standard_normal((2, 4))
    v[0, 1] = 0  # a factor of 0 must not hide the others' gradients
    index = proa.to_tensor([[0, 1, 2, 0], [0, 2, 2, 1]])

    def value(a, v):
        x = proa.to_tensor(a, stop_gradient=False)
        u = proa.to_tensor(v, stop_gradient=False)
        return x, u, proa.put_along_axis(x, index, u, 0, "mul").square().sum()

    x, u, total = value(a, v)
    total.backward()
    for array, tensor in ((a, x), (v, u)):
        for at in np.ndindex(array.shape):
            sides = []
            for h in (1e-6, -1e-6):
                array[at] += h
                sides.append(value(a, v)[2].item())
                array[at] -= h
            slope = (sides[0] - sides[1]) / 2e-6
            assert tensor.grad.numpy()[at] == pytest.approx(slope, abs=1e-5)


def test_unique() -> None:
    x = proa.to_tensor([3, 1, 3, 2, 1])
    same(proa.unique(x), [1, 2, 3])
    values, index, inverse, counts = proa.unique(x, True, True, True)
    a = np.array([3, 1, 3, 2, 1])
    for ours, theirs in zip(
        (values, index, inverse, counts), np.unique(a, True, True, True), strict=True
    ):
        same(ours, theirs)
    out, back, times = proa.unique_consecutive(
        proa.to_tensor([1, 1, 2, 2, 1]), True, True
    )
    same(out, [1, 2, 1])
    same(back, [0, 0, 1, 1, 2])
    same(times, [2, 2, 1])
    same(proa.bincount(proa.to_tensor([1, 1, 3])), [0, 2, 0, 1])


def test_gradients_flow_through_movement() -> None:
    x = proa.to_tensor(A, stop_gradient=False)
    y = proa.concat([x[:, :, ::2], proa.flip(x, [2])[:, :, :1]], axis=2)
    proa.roll(y, 1, 2).sum().backward()
    expected = np.zeros_like(A)
    expected[:, :, ::2] += 1
    expected[:, :, 3] += 1
    same(x.grad, expected)


def test_concat_keeps_the_memory_order_of_channels_last_images():
    images = [np.random.rand(2, c, 5, 7).astype("float32") for c in (3, 1, 4)]
    tensors = [
        proa.to_tensor(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(
            [0, 3, 1, 2]
        )
        for x in images
    ]
    y = proa.concat(tensors, axis=1)
    assert y.strides == [5 * 7 * 8, 1, 7 * 8, 8]
    np.testing.assert_array_equal(y.numpy(), np.concatenate(images, 1))
    mixed = proa.concat([tensors[0], proa.to_tensor(images[1])], axis=1)
    assert mixed.strides == [5 * 7 * 4, 1, 7 * 4, 4]
    np.testing.assert_array_equal(mixed.numpy(), np.concatenate(images[:2], 1))
    rows = proa.concat([proa.to_tensor(images[0]), tensors[0]], axis=3)
    assert rows.is_contiguous()
    np.testing.assert_array_equal(rows.numpy(), np.concatenate([images[0]] * 2, 3))
