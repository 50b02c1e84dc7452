"""Layers and functions against torch (values and gradients) and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn import functional as F

from ..torch_reference import torch

TF = torch.nn.functional
RNG = np.random.RandomState(0)


def array(*shape: int) -> np.ndarray:
    return RNG.randn(*shape).astype(np.float32)


def check(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    *inputs: np.ndarray,
    tol: float = 2e-5,
) -> None:
    """Values and gradients of floating inputs agree."""
    xs = [proa.to_tensor(a, stop_gradient=a.dtype.kind != "f") for a in inputs]
    ts = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in inputs]
    y, t = ours(*xs), theirs(*ts)
    assert list(y.shape) == list(t.shape)
    np.testing.assert_allclose(y.numpy(), t.detach().numpy(), rtol=tol, atol=tol)
    weight = np.asarray(np.random.RandomState(1).randn(*t.shape), np.float32)
    (y * proa.to_tensor(weight)).sum().backward()
    (t * torch.tensor(weight)).sum().backward()
    for x, s in zip(xs, ts, strict=True):
        if s.requires_grad:
            np.testing.assert_allclose(
                x.grad.numpy(), s.grad.numpy(), rtol=tol, atol=5 * tol
            )


ACTIVATIONS = {
    "relu": TF.relu, "relu6": TF.relu6, "elu": TF.elu, "celu": TF.celu, "selu": TF.selu,
    "gelu": TF.gelu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "silu": TF.silu,
    "swish": TF.silu, "mish": TF.mish, "hardswish": TF.hardswish,
    "leaky_relu": TF.leaky_relu, "softplus": TF.softplus, "softsign": TF.softsign,
    "log_sigmoid": TF.logsigmoid, "tanhshrink": TF.tanhshrink,
    "hardshrink": TF.hardshrink, "softshrink": TF.softshrink, "hardtanh": TF.hardtanh,
    "hardsigmoid": TF.hardsigmoid, "glu": TF.glu,
    "softmax": lambda x: TF.softmax(x, -1),
    "log_softmax": lambda x: TF.log_softmax(x, -1),
    "thresholded_relu": lambda x: TF.threshold(x, 1.0, 0.0),
}  # fmt: skip


@pytest.mark.feature("L077", "L083")
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    check(getattr(F, name), ACTIVATIONS[name], array(3, 4) * 2)


@pytest.mark.parametrize(
    ("layer", "theirs"),
    [
        (nn.ReLU(), TF.relu), (nn.ReLU6(), TF.relu6), (nn.GELU(), TF.gelu),
        (nn.GELU(True), lambda x: TF.gelu(x, approximate="tanh")),
        (nn.ELU(0.5), lambda x: TF.elu(x, 0.5)), (nn.CELU(), TF.celu),
        (nn.SELU(), TF.selu), (nn.LeakyReLU(0.2), lambda x: TF.leaky_relu(x, 0.2)),
        (nn.Sigmoid(), torch.sigmoid), (nn.Tanh(), torch.tanh), (nn.Silu(), TF.silu),
        (nn.Swish(), TF.silu), (nn.Mish(), TF.mish), (nn.Hardswish(), TF.hardswish),
        (nn.Hardsigmoid(), TF.hardsigmoid), (nn.Hardtanh(), TF.hardtanh),
        (nn.Softplus(), TF.softplus), (nn.Softsign(), TF.softsign),
        (nn.Softshrink(), TF.softshrink), (nn.Hardshrink(), TF.hardshrink),
        (nn.LogSigmoid(), TF.logsigmoid), (nn.Tanhshrink(), TF.tanhshrink),
        (nn.Softmax(0), lambda x: TF.softmax(x, 0)), (nn.GLU(), TF.glu),
        (nn.LogSoftmax(1), lambda x: TF.log_softmax(x, 1)),
        (nn.PReLU(), lambda x: TF.leaky_relu(x, 0.25)),
        (nn.Identity(3, b=4), lambda x: x * 1),
        (nn.Flatten(), lambda x: x.flatten(1)),
        (nn.Maxout(2), lambda x: x.reshape(3, 2, 2).amax(2)),
        (nn.ThresholdedReLU(), lambda x: TF.threshold(x, 1.0, 0.0)),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Layer) else "",
)  # fmt: skip
def test_activation_layers(layer: nn.Layer, theirs: Callable[..., Any]) -> None:
    check(layer, theirs, array(3, 4) * 2)
    assert type(layer).__name__ in repr(layer)


def test_elu_of_nan_is_nan() -> None:
    assert np.isnan(nn.ELU()(proa.to_tensor([float("nan")])).numpy()).all()


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 0, 3)])
def test_linear_takes_a_vector_as_weight(shape: tuple[int, ...]) -> None:
    x, w = RNG.randn(*shape), RNG.randn(3)
    y = F.linear(proa.to_tensor(x), proa.to_tensor(w))
    np.testing.assert_allclose(y.numpy(), x @ w, rtol=1e-12)
    shifted = F.linear(
        proa.to_tensor(x), proa.to_tensor(w), proa.to_tensor([0.5], "float64")
    )
    np.testing.assert_allclose(shifted.numpy(), x @ w + np.full(1, 0.5), rtol=1e-12)


def test_linear_takes_any_rank() -> None:
    w, b = array(4, 5), array(5)
    for shape in ((4,), (3, 4), (2, 3, 4)):
        check(F.linear, lambda x, w, b: x @ w + b, array(*shape), w, b)
    check(F.linear, lambda x, w: x @ w, array(2, 4), w)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 1), ([2, 1], [1, 2], 1, 1), (1, 2, 2, 1), (1, 1, 1, 2),
     (1, "same", 1, 1), (1, "valid", 1, 1)],
)  # fmt: skip
def test_conv2d(stride: Any, padding: Any, dilation: Any, groups: int) -> None:
    x, w, b = array(2, 4, 7, 8), array(6, 4 // groups, 3, 3), array(6)
    check(
        lambda x, w, b: F.conv2d(x, w, b, stride, padding, dilation, groups),
        lambda x, w, b: TF.conv2d(x, w, b, stride, padding, dilation, groups),
        x, w, b, tol=1e-4,
    )  # fmt: skip


def test_conv2d_padding_forms_agree() -> None:
    x, w = proa.to_tensor(array(1, 2, 6, 6)), proa.to_tensor(array(3, 2, 3, 3))
    a = F.conv2d(x, w, padding=[1, 2]).numpy()
    for form in ([1, 1, 2, 2], [[0, 0], [0, 0], [1, 1], [2, 2]]):
        np.testing.assert_array_equal(F.conv2d(x, w, padding=form).numpy(), a)
    last = proa.transpose(x, [0, 2, 3, 1])
    b = F.conv2d(last, w, padding=[1, 2], data_format="NHWC")
    np.testing.assert_allclose(b.numpy(), a.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-5)
    layer = nn.Conv2D(2, 3, 3, padding=1, padding_mode="reflect")
    assert layer(x).shape == [1, 3, 6, 6]
    with pytest.raises(InvalidArgumentError, match="groups must divide"):
        nn.Conv2D(3, 4, 3, groups=2)
    with pytest.raises(ShapeError, match="rank 4"):
        F.conv2d(x[0], w)


def test_conv1d_and_conv2d_transpose() -> None:
    check(
        lambda x, w, b: F.conv1d(x, w, b, 2, 1),
        lambda x, w, b: TF.conv1d(x, w, b, 2, 1),
        array(2, 3, 9), array(4, 3, 3), array(4), tol=1e-4,
    )  # fmt: skip
    x, w, b = array(2, 4, 5, 5), array(4, 3, 3, 3), array(3)
    y = F.conv2d_transpose(
        proa.to_tensor(x), proa.to_tensor(w), proa.to_tensor(b), 2, 1, output_padding=1
    )
    t = TF.conv_transpose2d(
        torch.tensor(x), torch.tensor(w), torch.tensor(b), 2, 1, output_padding=1
    )
    np.testing.assert_allclose(y.numpy(), t.numpy(), rtol=1e-4, atol=1e-4)


def test_sizes_of_convolutions() -> None:
    assert nn.Conv2DTranspose(4, 3, 3, 2)(proa.ones([2, 4, 5, 5])).shape == [
        2,
        3,
        11,
        11,
    ]
    assert nn.Conv1D(3, 4, 3, padding=1)(proa.ones([2, 3, 9])).shape == [2, 4, 9]


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(2, None, 0), (3, 2, 1), ([2, 3], 1, 1)]
)
@pytest.mark.parametrize("ceil", [False, True])
def test_pooling(kernel: Any, stride: Any, padding: int, ceil: bool) -> None:
    x = RNG.permutation(2 * 3 * 7 * 8).reshape(2, 3, 7, 8).astype(np.float32) / 50
    check(
        lambda x: F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil),
        lambda x: TF.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil), x,
    )  # fmt: skip
    check(
        lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, exclusive=True),
        lambda x: TF.avg_pool2d(
            x, kernel, stride, padding, ceil, count_include_pad=False
        ), x,
    )  # fmt: skip


def test_more_pooling() -> None:
    x = array(2, 3, 8, 6)
    for size in (1, (2, 3), (3, 4), (None, 2)):
        check(
            lambda x, size=size: F.adaptive_avg_pool2d(x, size),
            lambda x, size=size: TF.adaptive_avg_pool2d(x, size), x,
        )  # fmt: skip
    y, index = F.max_pool2d(proa.to_tensor(x), 2, return_mask=True)
    t, ti = TF.max_pool2d(torch.tensor(x), 2, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), t.numpy())
    np.testing.assert_array_equal(index.numpy(), ti.numpy())
    line = array(2, 3, 9)
    check(lambda x: F.max_pool1d(x, 3, 2, 1), lambda x: TF.max_pool1d(x, 3, 2, 1), line)
    check(lambda x: F.avg_pool1d(x, 3), lambda x: TF.avg_pool1d(x, 3), line)
    check(
        lambda x: F.adaptive_avg_pool1d(x, 4),
        lambda x: TF.adaptive_avg_pool1d(x, 4),
        line,
    )


def test_sizes_of_pooling() -> None:
    x = proa.to_tensor(array(2, 3, 8, 6))
    for layer in (nn.MaxPool2D(2), nn.AvgPool2D(2), nn.AdaptiveAvgPool2D([4, 3])):
        assert layer(x).shape == [2, 3, 4, 3]


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 5)])
def test_batch_norm_keeps_running_statistics(shape: tuple[int, ...]) -> None:
    kinds = {2: nn.BatchNorm1D, 3: nn.BatchNorm1D, 4: nn.BatchNorm2D}
    layer, x = kinds[len(shape)](3), array(*shape)
    layer(proa.to_tensor(x))
    axes = tuple(i for i in range(len(shape)) if i != 1)
    np.testing.assert_allclose(layer._mean.numpy(), 0.1 * x.mean(axes), atol=1e-5)
    np.testing.assert_allclose(
        layer._variance.numpy(), 0.9 + 0.1 * x.var(axes), rtol=1e-5
    )


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 5)])
def test_batch_norm_trains_and_is_used(shape: tuple[int, ...]) -> None:
    kinds = {2: nn.BatchNorm1D, 3: nn.BatchNorm1D, 4: nn.BatchNorm2D}
    layer = kinds[len(shape)](3)
    scale, shift = array(3), array(3)
    layer.weight.set_value(scale)
    layer.bias.set_value(shift)
    x = array(*shape)
    check(
        layer,
        lambda x: TF.batch_norm(
            x, None, None, torch.tensor(scale), torch.tensor(shift), True
        ),
        x, tol=1e-4,
    )  # fmt: skip
    layer.eval()
    mean, var = layer._mean.numpy(), layer._variance.numpy()
    check(
        layer,
        lambda x: TF.batch_norm(
            x, torch.tensor(mean), torch.tensor(var), torch.tensor(scale),
            torch.tensor(shift),
        ),
        x, tol=1e-4,
    )  # fmt: skip


@pytest.mark.feature("L058")
def test_batch_norm_statistics_can_be_set_in_eval() -> None:
    layer = nn.BatchNorm2D(2)
    layer.eval()
    layer.set_state_dict({**layer.state_dict(), "_mean": proa.to_tensor([1.0, 2.0])})
    y = layer(proa.ones([1, 2, 1, 1]))
    np.testing.assert_allclose(y.numpy().ravel(), [0, -1], atol=1e-4)
    with pytest.raises(ShapeError, match="rank"):
        layer(proa.ones([2, 2]))
    with pytest.raises(ShapeError, match="channels"):
        layer(proa.ones([1, 3, 1, 1]))


@pytest.mark.feature("L082")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layer_norm(dtype: str) -> None:
    x, w, b = (a.astype(dtype) for a in (array(2, 3, 4), array(3, 4), array(3, 4)))
    check(
        lambda x, w, b: F.layer_norm(x, [3, 4], w, b),
        lambda x, w, b: TF.layer_norm(x, [3, 4], w, b),
        x, w, b,
    )  # fmt: skip


def test_layer_norm_keeps_shapes_and_names_the_axes() -> None:
    assert nn.LayerNorm(4)(proa.ones([2, 3, 4])).shape == [2, 3, 4]
    with pytest.raises(ShapeError, match="last axes"):
        nn.LayerNorm(5)(proa.ones([2, 4]))


def test_group_and_instance_norm() -> None:
    x, w, b = array(2, 4, 3, 5), array(4), array(4)
    check(
        lambda x, w, b: F.group_norm(x, 2, weight=w, bias=b),
        lambda x, w, b: TF.group_norm(x, 2, w, b), x, w, b, tol=1e-4,
    )  # fmt: skip
    check(
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        lambda x, w, b: TF.instance_norm(x, weight=w, bias=b), x, w, b, tol=1e-4,
    )  # fmt: skip


def test_group_and_instance_norm_keep_shapes() -> None:
    x = proa.ones([2, 4, 3, 5])
    assert nn.GroupNorm(2, 4)(x).shape == x.shape
    assert nn.InstanceNorm2D(4)(x).shape == x.shape


@pytest.mark.feature("L057")
def test_dropout() -> None:
    proa.seed(0)
    x = proa.ones([100, 100])
    layer = nn.Dropout(0.3)
    y = layer(x).numpy()
    assert abs((y == 0).mean() - 0.3) < 0.02
    np.testing.assert_allclose(y[y != 0], 1 / 0.7, rtol=1e-6)
    layer.eval()
    np.testing.assert_array_equal(layer(x).numpy(), x.numpy())
    low = nn.Dropout(0.3, mode="downscale_in_infer")
    assert set(np.unique(low(x).numpy())) == {0, 1}
    low.eval()
    np.testing.assert_allclose(low(x).numpy(), 0.7, rtol=1e-6)
    rows = F.dropout(x, 0.5, axis=0).numpy()
    assert all(len(set(r)) == 1 for r in rows.tolist())
    planes = F.dropout2d(proa.ones([4, 8, 3, 3])).numpy().reshape(32, 9)
    assert {len(set(p)) for p in planes.tolist()} == {1}
    assert F.dropout(x, 1.0).sum().item() == 0
    with pytest.raises(InvalidArgumentError, match="p must be in"):
        F.dropout(x, 1.5)


def test_dropout_gradient_uses_the_same_mask() -> None:
    x = proa.ones([50], "float32")
    x.stop_gradient = False
    y = F.dropout(x, 0.5)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.numpy())


def test_embedding() -> None:
    table, ids = array(6, 3), np.array([[1, 0], [5, 1]])
    check(
        lambda w: F.embedding(proa.to_tensor(ids), w),
        lambda w: TF.embedding(torch.tensor(ids), w), table,
    )  # fmt: skip


def test_an_embedding_leaves_padding_out() -> None:
    ids = np.array([[1, 0], [5, 1]])
    layer = nn.Embedding(6, 3, padding_idx=-1)
    y = layer(proa.to_tensor(ids))
    assert not y.numpy()[1, 0].any()
    y.sum().backward()
    assert not layer.weight.grad.numpy()[5].any()
    assert layer.weight.grad.numpy()[1].tolist() == [2, 2, 2]
    with pytest.raises(InvalidArgumentError, match="padding_idx must be in"):
        nn.Embedding(6, 3, padding_idx=6)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding(mode: str) -> None:
    x = array(2, 3, 5, 6)
    check(
        lambda x: F.pad(x, [1, 2, 3, 0], mode),
        lambda x: TF.pad(x, [1, 2, 3, 0], mode),
        x,
    )
    last = proa.to_tensor(x.transpose(0, 2, 3, 1).copy())
    y = F.pad(last, [1, 2, 3, 0], mode, data_format="NHWC")
    t = TF.pad(torch.tensor(x), [1, 2, 3, 0], mode).permute(0, 2, 3, 1)
    np.testing.assert_array_equal(y.numpy(), t.numpy())


def test_padding_every_axis() -> None:
    a = array(2, 3)
    y = F.pad(proa.to_tensor(a), [1, 0, 0, 2], value=7.0)
    np.testing.assert_array_equal(
        y.numpy(), np.pad(a, [(1, 0), (0, 2)], constant_values=7)
    )
    assert nn.Pad2D(1)(proa.ones([1, 1, 2, 2])).shape == [1, 1, 4, 4]
    assert nn.Pad1D([1, 2])(proa.ones([1, 1, 2])).shape == [1, 1, 5]
    assert nn.ZeroPad2D([1, 0, 2, 0])(proa.ones([1, 1, 2, 2])).shape == [1, 1, 4, 3]
    with pytest.raises(ShapeError, match="4 numbers"):
        F.pad(proa.ones([1, 1, 2, 2]), [1, 2, 3])


def test_other_functions() -> None:
    x = array(2, 3, 4, 5)
    check(
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: TF.interpolate(x, scale_factor=2),
        x,
    )
    check(
        lambda x: F.interpolate(x, size=[3, 7]),
        lambda x: TF.interpolate(x, size=[3, 7]),
        x,
    )
    assert nn.Upsample(scale_factor=2)(proa.to_tensor(x)).shape == [2, 3, 8, 10]
    check(lambda x: F.normalize(x), lambda x: TF.normalize(x), x)
    check(F.cosine_similarity, TF.cosine_similarity, array(3, 4), array(3, 4))
    check(
        lambda x: F.pixel_shuffle(x, 2),
        lambda x: TF.pixel_shuffle(x, 2),
        array(2, 8, 3, 3),
    )


def test_numbers_of_classes_and_lengths() -> None:
    ids = np.array([[0, 2], [1, 1]])
    np.testing.assert_array_equal(
        F.one_hot(proa.to_tensor(ids), 3).numpy(), np.eye(3)[ids]
    )
    np.testing.assert_array_equal(
        F.sequence_mask(proa.to_tensor([1, 3]), 4).numpy(), [[1, 0, 0, 0], [1, 1, 1, 0]]
    )
    smooth = F.label_smooth(F.one_hot(proa.to_tensor([1]), 4), epsilon=0.1).numpy()
    np.testing.assert_allclose(smooth, [[0.025, 0.925, 0.025, 0.025]], rtol=1e-6)
