"""A refused call says which expectation it did not meet, with the values that show it,
and all it was given: each array by name, dtype and shape, and each attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import proa
from proa.errors import InvalidArgumentError, OutOfRangeError

ones = proa.ones
CALLS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "matmul": (
        lambda: proa.matmul(ones([2, 3]), ones([2, 3], "float64").astype("float32")),
        "expected x's last axis as long as y's last but one, got x.shape[-1]=3, "
        "y.shape[-2]=2",
        "(x float32 (2, 3), y float32 (2, 3))",
    ),
    "add": (
        lambda: ones([2, 3]) + ones([4]),
        "expected shapes that broadcast, got x.shape=(2, 3), y.shape=(4,)",
        "(x float32 (2, 3), y float32 (4,))",
    ),
    "reshape": (
        lambda: ones([6]).reshape([4, -1]),
        "expected a shape with as many elements as x, which the other sizes divide, "
        "got shape=[4, -1], x.shape=(6,)",
        "(x float32 (6,), shape=[4, -1])",
    ),
    "concat": (
        lambda: proa.concat([ones([2, 3]), ones([2, 4])]),
        "expected equal sizes along all axes but `axis`, got axis=0, "
        "xs[0].shape=(2, 3), xs[1].shape=(2, 4)",
        "(xs[0] float32 (2, 3), xs[1] float32 (2, 4), axis=0)",
    ),
    "topk": (
        lambda: proa.topk(ones([3]), 5),
        "expected k from 0 to the length of the axis, got k=5, axis=-1, x.shape=(3,)",
        "(x float32 (3,), k=5, axis=-1, largest=True)",
    ),
    "pad": (
        lambda: proa._core.ops.pad(ones([2]), low=[1, 1], high=[0], mode="reflect"),
        "expected low and high with a number for each axis of x, got low=[1, 1], "
        "high=[0], x.shape=(2,)",
        "(x float32 (2,), low=[1, 1], high=[0], mode='reflect', value=0)",
    ),
    "conv2d": (
        lambda: proa.nn.functional.conv2d(ones([1, 3, 4, 4]), ones([2, 3, 5, 5])),
        "expected a kernel no larger than the padded image, got kernel_height=5, "
        "padded_height=4",
        "(x float32 (1, 3, 4, 4), w float32 (2, 3, 5, 5), stride=[1, 1], "
        "padding=[0, 0, 0, 0], dilation=[1, 1], groups=1)",
    ),
}


F = proa.nn.functional
raw = proa._core.ops
#: One expectation each, and the values that do not meet it.
UNMET: dict[str, tuple[Callable[[], Any], str]] = {
    "conv2d in_channels": (
        lambda: raw.conv2d(ones([1, 8, 4, 4]), ones([6, 2, 3, 3]), groups=3),
        "[conv2d] expected in_channels divisible by groups, got in_channels=8, "
        "groups=3",
    ),
    "conv2d groups": (
        lambda: F.conv2d(ones([1, 8, 4, 4]), ones([6, 2, 3, 3]), groups=3),
        "[conv2d] expected in_channels divisible by groups, got in_channels=8, "
        "groups=3",
    ),
    "conv1d kernels": (
        lambda: F.conv1d(ones([1, 8, 4]), ones([6, 3, 3]), groups=2),
        "[conv1d] expected in_channels equal to groups * weight.shape[1], got "
        "in_channels=8, groups=2, weight.shape[1]=3",
    ),
    "conv2d_transpose kernels": (
        lambda: F.conv2d_transpose(ones([1, 8, 4, 4]), ones([6, 3, 3, 3])),
        "[conv2d_transpose] expected in_channels equal to weight.shape[0], got "
        "in_channels=8, weight.shape[0]=6",
    ),
    "where": (
        lambda: proa.where(ones([2, 3]) > 0, ones([2, 1]), ones([4])),
        "[where] expected shapes that broadcast, got shape=(2, 3), y.shape=(4,)",
    ),
    "conv2d out_channels": (
        lambda: F.conv2d(ones([1, 4, 4, 4]), ones([3, 2, 3, 3]), groups=2),
        "[conv2d] expected out_channels divisible by groups, got out_channels=3, "
        "groups=2",
    ),
    "conv2d weight": (
        lambda: raw.conv2d(ones([1, 8, 4, 4]), ones([6, 3, 3, 3]), groups=2),
        "[conv2d] expected in_channels equal to groups * w.shape[1], got "
        "in_channels=8, groups=2, w.shape[1]=3",
    ),
    "conv2d bias": (
        lambda: F.conv2d(ones([1, 3, 4, 4]), ones([6, 3, 3, 3]), bias=ones([5])),
        "[conv2d] expected one element for each output channel, got bias.shape=(5,), "
        "out_channels=6",
    ),
    "conv2d_transpose": (
        lambda: F.conv2d_transpose(ones([1, 4, 4, 4]), ones([4, 2, 3, 3]), groups=3),
        "[conv2d_transpose] expected in_channels divisible by groups, got "
        "in_channels=4, groups=3",
    ),
    "matmul batch": (
        lambda: proa.matmul(ones([2, 2, 3]), ones([3, 3, 3])),
        "[matmul] expected leading axes of x and y that broadcast, got "
        "x.shape=(2, 2, 3), y.shape=(3, 3, 3)",
    ),
    "linear": (
        lambda: F.linear(ones([2, 3]), ones([2, 3])),
        "[linear] expected in_features equal to w.shape[0], got in_features=3, "
        "w.shape[0]=2",
    ),
    "linear bias": (
        lambda: F.linear(ones([2, 3]), ones([3, 4]), ones([3])),
        "[linear] expected one element for each output channel, got bias.shape=(3,), "
        "out_channels=4",
    ),
    "pool": (
        lambda: F.avg_pool2d(ones([1, 1, 4, 3]), [2, 5]),
        "[avg_pool2d] expected a kernel no larger than the padded image, got "
        "kernel_width=5, padded_width=3",
    ),
    "group_norm": (
        lambda: raw.group_norm(ones([1, 3, 4]), ones([3]), ones([3]), groups=2),
        "[group_norm] expected channels divisible by groups, got channels=3, groups=2",
    ),
}


@pytest.mark.parametrize("name", UNMET)
def test_an_error_says_which_expectation_is_not_met(name: str):
    call, text = UNMET[name]
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize("name", CALLS)
def test_an_error_states_the_requirement_and_the_values(name):
    call, must, got = CALLS[name]
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(f"[{name}] ")
    assert must in message
    assert got in message


def test_an_index_out_of_range_is_reported_with_the_arrays():
    with pytest.raises(
        OutOfRangeError, match=r"ids int64 \(1,\), weight float32 \(4, 2"
    ):
        proa.nn.functional.embedding(proa.to_tensor([9]), ones([4, 2]))


def test_an_error_lists_only_some_of_many_arrays():
    arrays = [ones([2])] * 20 + [ones([3])]
    with pytest.raises(
        InvalidArgumentError, match=r"xs\[7\] float32 \(2,\), \.\., axis"
    ):
        proa.concat([*arrays, ones([2, 2])])


def test_an_irregular_list_is_rejected():
    with pytest.raises(InvalidArgumentError, match=r"nested numbers, got \[\[1, 2\]"):
        proa.to_tensor([[1, 2], [3]])


def test_an_invalid_axis_is_reported_as_it_was_passed():
    with pytest.raises(InvalidArgumentError, match=r"\[flip\] .* got 3"):
        proa.flip(ones([2]), 3)
