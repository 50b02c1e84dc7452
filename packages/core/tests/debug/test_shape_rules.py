"""Each shape rule says which of its expectations a call did not meet, and the values
that show it; so do gradients and kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import proa
from proa.errors import InvalidArgumentError, OutOfRangeError
from proa.schema import ROWS

#: Rules that return a shape for whatever they receive.
NEVER_REFUSE = {"like", "same", "scalar"}
_OF_GRADIENTS = re.compile(r"_grad(_input|_weight)?$|_scatter$|_dot$")
#: Rules of gradients: they hold for what the forward operator admitted.
OF_GRADIENTS = {"expand_reduced", "scatter_nd_like", "sum_to"}

ones = proa.ones
raw = proa._core.ops


def _i(*shape: int) -> Any:
    return proa.zeros(list(shape), "int64")


#: For each shape rule a call that it refuses, and what the error says.
BY_RULE: dict[str, tuple[Callable[[], Any], str]] = {
    "adaptive_pool2d": (
        lambda: raw.adaptive_avg_pool2d(ones([1, 2, 4]), size=[2, 2]),
        "expected x with 4 axes, got x.shape=(1, 2, 4)",
    ),
    "along_axis": (
        lambda: raw.softmax(ones([2, 3]), axis=2),
        "expected axis within the axes of x, got axis=2, x.shape=(2, 3)",
    ),
    "arange": (
        lambda: raw.arange(start=0, step=1, count=-2, dtype="float32"),
        "expected count of at least 0, got count=-2",
    ),
    "attention": (
        lambda: raw.attention(*(ones([2, n, 4, 8]) for n in (3, 5, 6)), scale=1.0),
        "expected k and v of one length, got k.shape=(2, 5, 4, 8), "
        "v.shape=(2, 6, 4, 8)",
    ),
    "attr": (
        lambda: raw.full(shape=[2, -2], value=1, dtype="float32"),
        "expected sizes of at least 0, got shape=[2, -2]",
    ),
    "batch_norm": (
        lambda: raw.batch_norm(ones([2, 3]), ones([3]), ones([4])),
        "expected a vector of shape (channels,), got bias.shape=(4,), channels=3",
    ),
    "batch_norm_infer": (
        lambda: raw.batch_norm_infer(ones([2, 3]), *[ones([3])] * 3, ones([1, 3])),
        "expected a vector of shape (channels,), got bias.shape=(1, 3), channels=3",
    ),
    "blend_rows": (
        lambda: raw.blend_rows(ones([2, 3]), _i(4), ones([4])),
        "expected x and index with 2 axes, got x.shape=(2, 3), index.shape=(4,)",
    ),
    "broadcast": (
        lambda: ones([2, 3]) * ones([2]),
        "expected shapes that broadcast, got x.shape=(2, 3), y.shape=(2,)",
    ),
    "broadcast_channels": (
        lambda: raw.broadcast_channels(ones([4]), ones([2, 3, 5])),
        "expected x with an element for each channel of `like`, got x.shape=(4,), "
        "like.shape=(2, 3, 5)",
    ),
    "broadcast_like": (
        lambda: raw.broadcast_like(ones([4]), ones([2, 3])),
        "expected x that broadcasts to the shape, got x.shape=(4,), shape=(2, 3)",
    ),
    "broadcast_to": (
        lambda: raw.broadcast_to(ones([2, 4]), shape=[3, 4]),
        "expected x that broadcasts to the shape, got x.shape=(2, 4), shape=(3, 4)",
    ),
    "channel_moments": (
        lambda: raw.channel_moments(ones([2, 3]), ones([2])),
        "expected a vector of shape (channels,), got scale.shape=(2,), channels=3",
    ),
    "concat": (
        lambda: proa.concat([ones([2, 3]), ones([2])]),
        "expected arrays with equal numbers of axes, got xs[0].shape=(2, 3), "
        "xs[1].shape=(2,)",
    ),
    "conv2d": (
        lambda: raw.conv2d(ones([1, 2, 4, 4]), ones([3, 2, 2, 2]), stride=[0, 1]),
        "expected stride of 2 numbers of at least 1, got stride=[0, 1]",
    ),
    "conv2d_norm": (
        lambda: raw.conv2d_norm(
            ones([1, 2, 4, 4]), ones([3, 2, 2, 2]), ones([3]), ones([2]), ones([3])
        ),
        "expected one element for each output channel, got factor.shape=(2,), "
        "out_channels=3",
    ),
    "conv2d_transpose": (
        lambda: raw.conv2d_transpose(
            ones([1, 2, 4, 4]), ones([2, 3, 2, 2]), output_padding=[0, 1]
        ),
        "expected output_padding less than stride, got output_padding=1, stride=1",
    ),
    "det": (
        lambda: raw.det(ones([2, 3])),
        "expected square matrices, the last two axes of x of one size, got "
        "x.shape=(2, 3)",
    ),
    "diagonal": (
        lambda: raw.diagonal(ones([2, 3]), axis1=1, axis2=-1),
        "expected axis1 and axis2 of x that differ, got axis1=1, axis2=-1, "
        "x.shape=(2, 3)",
    ),
    "eig": (lambda: raw.eigh(ones([2, 3])), "got x.shape=(2, 3)"),
    "embedding": (
        lambda: raw.embedding(_i(2), ones([3])),
        "expected weight with 2 axes (ids, features), got weight.shape=(3,)",
    ),
    "expand_last": (
        lambda: raw.expand_last(ones([3]), ones([2, 4]), axes=1),
        "expected x of the shape of the first axes of `like`, got x.shape=(3,), "
        "like.shape=(2, 4)",
    ),
    "eye": (
        lambda: raw.eye(rows=2, columns=-1, dtype="float32"),
        "expected rows and columns of at least 0, got rows=2, columns=-1",
    ),
    "flatten": (
        lambda: raw.flatten(ones([2, 3]), start_axis=1, stop_axis=0),
        "expected start_axis and stop_axis of x, in this order, got start_axis=1, "
        "stop_axis=0, x.shape=(2, 3)",
    ),
    "gather": (
        lambda: raw.gather(ones([2, 3]), _i(2), axis=2),
        "expected axis within the axes of x, got axis=2, x.shape=(2, 3)",
    ),
    "gather_nd": (
        lambda: raw.gather_nd(ones([2, 3]), _i(4, 3)),
        "expected index whose last axis is no longer than x has axes, got "
        "index.shape=(4, 3), x.shape=(2, 3)",
    ),
    "group_norm": (
        lambda: raw.group_norm(ones([2, 4]), ones([4]), ones([2]), groups=2),
        "expected a vector of shape (channels,), got bias.shape=(2,), channels=4",
    ),
    "index_put": (
        lambda: raw.index_put(ones([2, 3]), _i(4, 1), ones([4, 2])),
        "expected v of the shape of the elements that index names, got "
        "v.shape=(4, 2), elements.shape=(4, 3)",
    ),
    "inplace": (
        lambda: raw.sgd_(ones([2]), ones([3]), lr=0.1),
        "expected gradient and states of the parameter's shape, got param.shape=(2,), "
        "grad.shape=(3,)",
    ),
    "inplace_rows": (
        lambda: raw.put_rows_(ones([4, 2]), _i(3), ones([3, 5])),
        "expected a row of the table's shape for each row number, got "
        "table.shape=(4, 2), rows.shape=(3,), values.shape=(3, 5)",
    ),
    "label_gather": (
        lambda: raw.label_gather(_i(2), ones([3, 5]), ignore_index=-1),
        "expected logits and label with equal sizes, got label.shape=(2,), "
        "x.shape=(3, 5)",
    ),
    "label_mask": (
        lambda: raw.label_mask(_i(*[1] * 8), ones([1]), ignore_index=-1),
        "expected label with at most 7 axes, got label.shape=(1, 1, 1, 1, 1, 1, 1, 1)",
    ),
    "layer_norm": (
        lambda: raw.layer_norm(ones([2, 4]), ones([4]), ones([2])),
        "expected scale and bias of the shape of the last axes of x, got "
        "bias.shape=(2,), axes=1, x.shape=(2, 4)",
    ),
    "linear": (
        lambda: raw.linear(ones([2, 3]), ones([3])),
        "expected w with 2 axes (in_features, out_features), got w.shape=(3,)",
    ),
    "linear_dynamic": (
        lambda: raw.linear_dynamic(
            ones([2, 3]), proa.zeros([4, 5], "int8"), ones([5])
        ),
        "expected in_features equal to w.shape[0], got in_features=3, w.shape[0]=4",
    ),
    "linear_recurrence": (
        lambda: raw.linear_recurrence(ones([2, 3]), ones([2, 3]), axis=2),
        "expected axis within the arrays' axes, got axis=2, shape=(2, 3)",
    ),
    "linear_weight_only": (
        lambda: raw.linear_weight_only(
            ones([2, 8]), proa.zeros([5, 7], "uint8"), ones([5, 1]), bits=4, group=8
        ),
        "expected whole groups in each row of w, got in_features=8, group=8, "
        "w.shape=(5, 7)",
    ),
    "linspace": (
        lambda: raw.linspace(start=0.0, stop=1.0, count=-1, dtype="float32"),
        "expected count of at least 0, got count=-1",
    ),
    "lu": (lambda: raw.lu(ones([2])), "expected x with at least 2 axes, got"),
    "mask_scores": (
        lambda: raw.mask_scores(ones([1, 2, 3, 4]), ones([3])),
        "expected a mask that broadcasts to the scores, got mask.shape=(3,), "
        "scores.shape=(1, 2, 3, 4)",
    ),
    "matmul": (
        lambda: raw.matmul(ones([2]), ones([2, 3])),
        "expected x and y with at least 2 axes, got x.shape=(2,), y.shape=(2, 3)",
    ),
    "mean_last": (
        lambda: raw.mean_last(ones([2, 3]), axes=3),
        "expected axes from 0 to the number of axes of x, got axes=3, x.shape=(2, 3)",
    ),
    "merge_rows": (
        lambda: raw.merge_rows(_i(2), ones([3, 4])),
        "expected a row of values for each row number, got rows.shape=(2,), "
        "values.shape=(3, 4)",
    ),
    "nonzero": (
        lambda: raw.nonzero(ones([2]), count=-1),
        "expected count of at least 0, got count=-1",
    ),
    "one_hot": (
        lambda: raw.one_hot(_i(2), depth=0),
        "expected depth of at least 1, got depth=0",
    ),
    "pad": (
        lambda: raw.pad(ones([3]), low=[3], high=[0], mode="reflect"),
        "expected padding that x has elements for (reflect: less than the axis, "
        "circular: no more than it), got low=[3], high=[0], x.shape=(3,)",
    ),
    "permute_rows": (
        lambda: raw.permute_rows(ones([2, 3]), proa.zeros([4], "int32")),
        "expected no more pivots than x has rows, got rows=2, pivots=4",
    ),
    "planes": (
        lambda: raw.tril(ones([2])),
        "expected x with at least 2 axes, got x.shape=(2,)",
    ),
    "pool2d": (
        lambda: raw.max_pool2d(
            ones([1, 1, 4, 4]), kernel=[2, 2], stride=[1, 1], padding=[0, 2, 0, 0]
        ),
        "expected padding less than the kernel, got padding=[0, 2, 0, 0], "
        "kernel=[2, 2]",
    ),
    "pool_gather": (
        lambda: raw.pool_gather(
            ones([1, 2, 4, 4]), proa.zeros([1, 3, 2, 2], "int32")
        ),
        "expected index with x's batch and channels, got x.shape=(1, 2, 4, 4), "
        "index.shape=(1, 3, 2, 2)",
    ),
    "put_along_axis": (
        lambda: raw.put_along_axis(ones([2, 3]), _i(1, 4), ones([1, 4]), axis=0),
        "expected index no longer than x along all axes but `axis`, got axis=0, "
        "index.shape=(1, 4), x.shape=(2, 3)",
    ),
    "gate_int8": (
        lambda: raw.gate_int8(
            ones([2, 3, 4, 4]).astype("int8"), ones([2, 3]), x_scale=1, out_scale=1
        ),
        "expected gate of shape (n, c, 1, 1) in float32, got gate.shape=(2, 3)",
    ),
    "mean_int8": (
        lambda: raw.mean_int8(ones([2, 3, 0, 4]).astype("int8"), scale=1),
        "expected x of 4 axes (n, c, h, w) with pixels, got x.shape=(2, 3, 0, 4)",
    ),
    "conv2d_int8": (
        lambda: raw.conv2d_int8(
            ones([1, 2, 3, 3]).astype("int8"), ones([4, 2, 1, 1]).astype("int8"),
            ones([4]), None, None, dtype="int8", out_scale=1.0, out_zero=200,
        ),
        "expected out_zero and low within int8, got out_zero=200, low=-127",
    ),
    "linear_int8": (
        lambda: raw.linear_int8(
            ones([2, 3]).astype("int8"), ones([3, 4]).astype("int8"),
            ones([4]), None, None, dtype="int8", out_scale=1.0, low=-129,
        ),
        "expected out_zero and low within int8, got out_zero=0, low=-129",
    ),
    "matmul_int8": (
        lambda: raw.matmul_int8(
            ones([2, 3]).astype("int8"), ones([3, 4]).astype("int8"),
            scale=1.0, y_zero=-200, dtype="float32",
        ),
        "expected x_zero and y_zero within int8, got x_zero=0, y_zero=-200",
    ),
    "attention_int8": (
        lambda: raw.attention_int8(
            *[ones([2, 3, 4, 5]).astype("int8")] * 2,
            ones([2, 6, 4, 5]).astype("int8"), scale=1.0, v_scale=1.0, dtype="int8",
        ),
        "expected k and v of one length, got k.shape=(2, 3, 4, 5), "
        "v.shape=(2, 6, 4, 5)",
    ),
    "quantize_affine": (
        lambda: raw.quantize_affine(ones([2]), ones([1]), zero_point=200),
        "expected zero_point and low within int8, got zero_point=200, low=-128",
    ),
    "binary_int8": (
        lambda: raw.add_int8(
            ones([2, 3]).astype("int8"), ones([3]).astype("int8"),
            x_scale=1.0, y_scale=1.0, out_scale=1.0,
        ),
        "expected arrays of one shape, got x.shape=(2, 3), y.shape=(3,)",
    ),
    "recurrent_int8": (
        lambda: raw.recurrent_int8(
            ones([5, 2, 6]), ones([6, 2]), ones([6]), ones([2, 2]),
            cell="gru", h_scale=0.1,
        ),
        "expected w of int8, got w.dtype=float32",
    ),
    "qr": (lambda: raw.qr(ones([2])), "expected x with at least 2 axes, got"),
    "qr_complete": (
        lambda: raw.qr_complete(ones([2])),
        "expected x with at least 2 axes, got x.shape=(2,)",
    ),
    "quantize": (
        lambda: raw.quantize(ones([2, 3]), ones([2]), axis=1),
        "expected scale with one element, or one for each index of `axis`, got "
        "scale.shape=(2,), axis=1, x.shape=(2, 3)",
    ),
    "randperm": (
        lambda: raw.randperm(count=-1, dtype="int64", seed=0, offset=0),
        "expected count of at least 0, got count=-1",
    ),
    "recurrent": (
        lambda: raw.recurrent(
            ones([5, 2, 8]), ones([8, 2]), ones([3, 2]), ones([2, 2]), cell="lstm"
        ),
        "expected h0 of shape (batch, hidden), got h0.shape=(3, 2), batch=2, hidden=2",
    ),
    "reduce": (
        lambda: raw.sum(ones([2, 3]), axis=[0, -2]),
        "expected axes of x, each named once, got axis=[0, -2], x.shape=(2, 3)",
    ),
    "reduce_keep": (
        lambda: raw.sum_axis(ones([2, 3]), axis=2),
        "expected axis within the axes of x, got axis=2, x.shape=(2, 3)",
    ),
    "reduce_one": (
        lambda: raw.argmax(ones([2, 3]), axis=-3),
        "expected axis within the axes of x, got axis=-3, x.shape=(2, 3)",
    ),
    "reshape": (
        lambda: raw.reshape(ones([6]), shape=[-1, -1]),
        "expected at most one size of -1, got shape=[-1, -1]",
    ),
    "reshape_like": (
        lambda: raw.reshape_like(ones([6]), ones([2, 4])),
        "expected a shape with as many elements as x, got shape=(2, 4), x.shape=(6,)",
    ),
    "resize_axis": (
        lambda: raw.resize_axis(ones([2, 0]), axis=1, size=4),
        "expected an axis of 1 to 2147483647 elements, got axis=1, x.shape=(2, 0)",
    ),
    "roi_max_index": (
        lambda: raw.roi_max_index(ones([1, 2, 4, 4]), ones([3, 5]), _i(3), size=[2, 2]),
        "expected boxes of shape (n, 4), got boxes.shape=(3, 5)",
    ),
    "box_suppress": (
        lambda: raw.box_suppress(
            ones([2, 3, 4]), ones([2, 4]).astype("bool"), threshold=0.5
        ),
        "expected valid of shape (n, k), got boxes.shape=(2, 3, 4), valid.shape=(2, 4)",
    ),
    "same_all": (
        lambda: raw.relu_grad(ones([2]), ones([3])),
        "expected arrays of one shape, got dy.shape=(2,), y.shape=(3,)",
    ),
    "select": (
        lambda: raw.select(ones([2, 3]), axis=2, index=0),
        "expected axis within the axes of x, got axis=2, x.shape=(2, 3)",
    ),
    "sized": (
        lambda: raw.sized(
            ones([6]), sizes=[4, -1], axes=[-1, -1], divisors=[1, 1], extras=[0, 0],
            plus=[-1, -1],
        ),
        "expected as many elements as the first array, which the other sizes divide, "
        "got elements=6, others=4",
    ),
    "slice": (
        lambda: raw.slice(ones([2, 3]), axes=[0], starts=[0], ends=[1], steps=[0]),
        "expected steps other than 0, got steps=[0]",
    ),
    "slice_assign": (
        lambda: raw.slice_assign(
            ones([2, 3]), ones([2]), axes=[0], starts=[0], ends=[1], steps=[1]
        ),
        "expected v that broadcasts to the shape of the slice, got v.shape=(2,), "
        "slice.shape=(1, 3)",
    ),
    "softmax_cross_entropy": (
        lambda: raw.softmax_cross_entropy(_i(2), ones([2])),
        "expected logits with the axes of label and one of classes, got "
        "label.shape=(2,), logits.shape=(2,)",
    ),
    "solve": (
        lambda: raw.solve(ones([2, 2]), ones([3, 1])),
        "expected y's last axis but one as long as x's last, got x.shape=(2, 2), "
        "y.shape=(3, 1)",
    ),
    "sort": (
        lambda: raw.sort(ones([2]), axis=1),
        "expected axis within the axes of x, got axis=1, x.shape=(2,)",
    ),
    "square": (
        lambda: raw.cholesky(ones([2, 3])),
        "expected square matrices, the last two axes of x of one size, got "
        "x.shape=(2, 3)",
    ),
    "squeeze": (
        lambda: raw.squeeze(ones([2, 1]), axis=[2]),
        "expected axes of x, each named once, got axis=[2], x.shape=(2, 1)",
    ),
    "stack": (
        lambda: proa.stack([ones([2]), ones([3])]),
        "expected arrays of one shape, got xs[0].shape=(2,), xs[1].shape=(3,)",
    ),
    "sum_channels": (
        lambda: raw.sum_channels(ones([2])),
        "expected x with at least 2 axes, got x.shape=(2,)",
    ),
    "sum_leading": (
        lambda: raw.sum_leading(ones([])),
        "expected x with at least 1 axis, got x.shape=()",
    ),
    "svd": (lambda: raw.svd(ones([2])), "expected x with at least 2 axes, got"),
    "svd_full": (
        lambda: raw.svd_full(ones([2])),
        "expected x with at least 2 axes, got x.shape=(2,)",
    ),
    "swap_last": (
        lambda: raw.swap_last(ones([2])),
        "expected x with at least 2 axes, got x.shape=(2,)",
    ),
    "take_along_axis": (
        lambda: raw.take_along_axis(ones([2, 3]), _i(2), axis=0),
        "expected index with as many axes as x, got index.shape=(2,), x.shape=(2, 3)",
    ),
    "tile": (
        lambda: raw.tile(ones([2]), repeats=[-1]),
        "expected repeats of at least 0, got repeats=[-1]",
    ),
    "topk": (
        lambda: raw.topk(ones([3]), k=-1),
        "expected k from 0 to the length of the axis, got k=-1, axis=-1, x.shape=(3,)",
    ),
    "transpose": (
        lambda: raw.transpose(ones([2, 3]), perm=[0, 0]),
        "expected perm that names every axis of x once, got perm=[0, 0], "
        "x.shape=(2, 3)",
    ),
    "unsqueeze": (
        lambda: raw.unsqueeze(ones([2]), axis=[3]),
        "expected axes of the result, each named once, got axis=[3], x.shape=(2,)",
    ),
    "windows": (
        lambda: raw.windows(ones([3]), axis=0, size=4),
        "expected an axis at least as long as a window, got window=4, axis=0, "
        "x.shape=(3,)",
    ),
}  # fmt: skip


def test_every_rule_that_refuses_has_a_call_here() -> None:
    rules = {row.shape for row in ROWS.values()}
    gradients = {rule for rule in rules if _OF_GRADIENTS.search(rule)} | OF_GRADIENTS
    assert set(BY_RULE) == rules - gradients - NEVER_REFUSE


@pytest.mark.parametrize("rule", BY_RULE)
def test_a_rule_says_which_expectation_is_not_met(rule: str) -> None:
    call, text = BY_RULE[rule]
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert text in str(caught.value)


#: The same of gradients, kernels and an index.
OTHERS: dict[str, tuple[Callable[[], Any], str]] = {
    "gradient": (
        lambda: raw.slice_grad(
            ones([4]), ones([6]), axes=[0], starts=[0], ends=[3], steps=[1]
        ),
        "[slice_grad] expected dy of the shape of the forward result, got "
        "dy.shape=(4,), result.shape=(3,)",
    ),
    "gradient of a call that was refused": (
        lambda: raw.slice_grad(
            ones([4]), ones([6]), axes=[1], starts=[0], ends=[3], steps=[1]
        ),
        "[slice_grad] expected arrays that the forward operator accepts",
    ),
    "number of limits": (
        lambda: raw.sized(
            ones([6]), sizes=[4, 2], axes=[-1, -1], divisors=[1, 1], extras=[0, 0],
            plus=[-1, -1], limits=[0],
        ),
        "expected lists of one length, got sizes=[4, 2], axes=[-1, -1]",
    ),
    "limit by no axis": (
        lambda: raw.sized(
            ones([6]), sizes=[4], axes=[-1], divisors=[1], extras=[0], plus=[-1],
            limits=[1],
        ),
        "expected sizes of at least 0, of axes that the arrays have, got sizes=[4]",
    ),
    "slice from no axis": (
        lambda: raw.sized(
            ones([6]), sizes=[4], axes=[-1], divisors=[1], extras=[0], plus=[-1],
            limits=[-(2**63)],
        ),
        "expected sizes of at least 0, of axes that the arrays have, got sizes=[4]",
    ),
    "kernel": (
        lambda: proa.max(ones([0, 3]), axis=0),
        "[max] expected x with elements to choose from, got x.shape=(0, 3), axis=[0]",
    ),
    "random": (
        lambda: raw.randint(
            shape=[2], low=3, high=3, dtype="int64", seed=0, offset=0
        ),
        "[randint] expected low less than high, got low=3, high=3",
    ),
    "index": (
        lambda: raw.select(ones([2, 3]), axis=1, index=3),
        "[select] expected index within its axis, got index=3, axis=1, x.shape=(2, 3)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_gradients_and_kernels_say_which_expectation_is_not_met(name: str) -> None:
    call, text = OTHERS[name]
    with pytest.raises((InvalidArgumentError, OutOfRangeError)) as caught:
        call()
    assert text in str(caught.value)
