"""Convolutions of one to three axes and their transposes against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn import functional as F

from .reference import channels_last, conv, conv_transpose, numbers, slopes_agree

LAST = {1: "NLC", 2: "NHWC", 3: "NDHWC"}
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSE = {1: F.conv1d_transpose, 2: F.conv2d_transpose, 3: F.conv3d_transpose}
LAYER = {1: nn.Conv1D, 2: nn.Conv2D, 3: nn.Conv3D}
LAYER_TRANSPOSE = {
    1: nn.Conv1DTranspose, 2: nn.Conv2DTranspose, 3: nn.Conv3DTranspose,
}  # fmt: skip
SIZE, KERNEL = (7, 6, 5), (3, 2, 3)
GEOMETRY: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1},
    {"dilation": 2, "padding": 2},
    {"groups": 2, "stride": 2},
]


def lists(axes: int, given: dict[str, Any]) -> dict[str, Any]:
    """Geometry as the reference takes it."""
    return {
        "stride": [given.get("stride", 1)] * axes,
        "padding": [given.get("padding", 0)] * (2 * axes),
        "dilation": [given.get("dilation", 1)] * axes,
        "groups": given.get("groups", 1),
    }


def close(got: Any, want: Any) -> None:
    assert list(got.shape) == list(want.shape)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("geometry", GEOMETRY)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolution_in_both_formats(axes: int, geometry: dict[str, Any]) -> None:
    groups = geometry.get("groups", 1)
    x = numbers(2, 4, *SIZE[:axes])
    w, b = numbers(6, 4 // groups, *KERNEL[:axes]), numbers(6)
    want = conv(x, w, **lists(axes, geometry)) + b.reshape(-1, *[1] * axes)
    xs = [proa.to_tensor(a) for a in (x, w, b)]
    close(CONV[axes](*xs, **geometry), want)
    last = proa.to_tensor(channels_last(x))
    y = CONV[axes](last, *xs[1:], **geometry, data_format=LAST[axes])
    close(y, channels_last(want))


@pytest.mark.parametrize("geometry", GEOMETRY)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_transpose_in_both_formats(axes: int, geometry: dict[str, Any]) -> None:
    groups = geometry.get("groups", 1)
    x = numbers(2, 4, *SIZE[:axes])
    w, b = numbers(4, 3, *KERNEL[:axes]), numbers(3 * groups)
    want = conv_transpose(x, w, **lists(axes, geometry)) + b.reshape(-1, *[1] * axes)
    xs = [proa.to_tensor(a) for a in (x, w, b)]
    close(TRANSPOSE[axes](*xs, **geometry), want)
    last = proa.to_tensor(channels_last(x))
    y = TRANSPOSE[axes](last, *xs[1:], **geometry, data_format=LAST[axes])
    close(y, channels_last(want))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_gradients_to_second_order(axes: int) -> None:
    size = (4, 3, 3)[:axes]
    x, b = numbers(1, 2, *size), numbers(2)
    w = numbers(2, 2, *[2] * axes)
    slopes_agree(lambda *a: CONV[axes](*a, stride=2, padding=1), x, w, b)
    slopes_agree(lambda *a: TRANSPOSE[axes](*a, stride=2, padding=1), x, w, b)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(
    ("padding", "want"),
    [
        (1, (1, 1)),
        ("valid", (0, 0)),
        ("VALID", (0, 0)),
        ("same", None),
        ("pair", (1, 2)),
        ("flat", (1, 2)),
        ("all", (1, 2)),
        ("all last", (1, 2)),
    ],
)
def test_forms_of_padding(axes: int, padding: Any, want: Any) -> None:
    x, w = numbers(1, 2, *SIZE[:axes]), numbers(3, 2, *KERNEL[:axes])
    flat = list(want) * axes if want else []
    for n, k in zip(SIZE[:axes], KERNEL[:axes], strict=True) if not want else ():
        total = max((-(-n // 2) - 1) * 2 + k - n, 0)
        flat += [total // 2, total - total // 2]
    pairs = [list(want or ())] * axes
    given = {
        "pair": pairs,
        "flat": flat,
        "all": [[0, 0], [0, 0], *pairs],
        "all last": [[0, 0], *pairs, [0, 0]],
    }.get(padding, padding)
    expected = conv(x, w, [2] * axes, flat, [1] * axes)
    if padding == "all last":
        y = CONV[axes](
            proa.to_tensor(channels_last(x)), proa.to_tensor(w), None, 2, given,
            data_format=LAST[axes],
        )  # fmt: skip
        close(y, channels_last(expected))
    else:
        close(
            CONV[axes](proa.to_tensor(x), proa.to_tensor(w), None, 2, given), expected
        )


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_same_keeps_the_size_at_stride_1(axes: int) -> None:
    x = proa.to_tensor(numbers(1, 2, *SIZE[:axes]))
    w = proa.to_tensor(numbers(3, 2, *KERNEL[:axes]))
    for dilation in (1, 2):
        y = CONV[axes](x, w, padding="SAME", dilation=dilation)
        assert y.shape[2:] == x.shape[2:]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_output_size_is_output_padding(axes: int) -> None:
    x, w = numbers(1, 2, *SIZE[:axes]), numbers(2, 3, *KERNEL[:axes])
    a, b = proa.to_tensor(x), proa.to_tensor(w)
    want = conv_transpose(x, w, [3] * axes, [1] * 2 * axes, [1] * axes, 1, [2] * axes)
    close(TRANSPOSE[axes](a, b, stride=3, padding=1, output_padding=2), want)
    size = list(want.shape[2:])
    close(TRANSPOSE[axes](a, b, stride=3, padding=1, output_size=size), want)
    layer = LAYER_TRANSPOSE[axes](2, 3, KERNEL[:axes], 3, 1, bias_attr=False)
    layer.weight.set_value(w.astype(np.float32))
    y = layer(a.astype("float32"), output_size=size)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-5)
    low = [n - 2 for n in size]
    with pytest.raises(InvalidArgumentError, match=r"output_size must be in \["):
        TRANSPOSE[axes](a, b, stride=3, padding=1, output_size=[n - 1 for n in low])
    with pytest.raises(InvalidArgumentError, match="output_padding must be in"):
        TRANSPOSE[axes](a, b, stride=3, output_padding=3)
    with pytest.raises(InvalidArgumentError, match="output_padding must be 0 where"):
        TRANSPOSE[axes](a, b, stride=3, output_padding=1, output_size=size)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_padding_modes_of_layers(axes: int, mode: str) -> None:
    kind = {"zeros": "constant", "replicate": "edge", "circular": "wrap"}.get(
        mode, mode
    )
    x = numbers(1, 2, *SIZE[:axes]).astype(np.float32)
    layer = LAYER[axes](2, 3, KERNEL[:axes], padding=1, padding_mode=mode)
    pads: Any = [(0, 0), (0, 0), *[(1, 1)] * axes]
    around = np.pad(x, pads, mode=kind)  # type: ignore[call-overload]
    want = conv(around, layer.weight.numpy(), [1] * axes, [0] * 2 * axes, [1] * axes)
    want = want + layer.bias.numpy().reshape(-1, *[1] * axes)
    got = layer(proa.to_tensor(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    last = LAYER[axes](
        2, 3, KERNEL[:axes], padding=1, padding_mode=mode, data_format=LAST[axes]
    )
    last.set_state_dict(layer.state_dict())
    got = last(proa.to_tensor(channels_last(x))).numpy()
    np.testing.assert_allclose(got, channels_last(want), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_layers_print_their_settings(axes: int) -> None:
    layer = LAYER[axes](2, 4, 3, stride=2, padding=1, groups=2)
    assert f"Conv{axes}D(2, 4, kernel_size=[3" in repr(layer)
    assert layer.weight.shape == [4, 1, *[3] * axes]
    layer = LAYER_TRANSPOSE[axes](2, 4, 3, 2, 1, 1, 2)  # output_padding, then groups
    assert layer.weight.shape == [2, 2, *[3] * axes]
    x = proa.to_tensor(numbers(1, 2, *SIZE[:axes]).astype(np.float32))
    assert layer(x).shape[2:] == [2 * n for n in SIZE[:axes]]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_recorded_with_an_unknown_batch(axes: int) -> None:
    class Both(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.down = LAYER[axes](2, 3, 3, 2, 1)
            self.up = LAYER_TRANSPOSE[axes](3, 2, 3, 2, 1)

        def forward(self, x: Any) -> Any:
            return self.up(self.down(x))

    net = Both()
    x = proa.to_tensor(numbers(3, 2, *SIZE[:axes]).astype(np.float32))
    spec = proa.static.InputSpec([None, 2, *SIZE[:axes]], "float32")
    want = net(x).numpy()
    got = proa.jit.to_static(net, input_spec=[spec])(x)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_errors_name_the_requirement(axes: int) -> None:
    name = f"conv{axes}d"
    x = proa.to_tensor(numbers(1, 2, *SIZE[:axes]))
    w = proa.to_tensor(numbers(3, 2, *KERNEL[:axes]))
    with pytest.raises(InvalidArgumentError, match=rf"\[{name}\] data_format must be"):
        CONV[axes](x, w, data_format="NWC")
    with pytest.raises(ShapeError, match=rf"\[{name}\] x must have rank {axes + 2}"):
        CONV[axes](x[0], w)
    with pytest.raises(ShapeError, match="weight must have rank"):
        CONV[axes](x, w[0])
    with pytest.raises(
        ShapeError, match=r"in_channels=2, groups=2, weight.shape\[1\]=2"
    ):
        CONV[axes](x, w, groups=2)
    with pytest.raises(ShapeError, match=r"in_channels=2, weight.shape\[0\]=3"):
        TRANSPOSE[axes](x, w)
    with pytest.raises(InvalidArgumentError, match="stride must be one number or"):
        CONV[axes](x, w, stride=[1] * (axes + 1))
    for name in ("stride", "dilation", "groups"):
        with pytest.raises(InvalidArgumentError, match=f"{name} must be"):
            CONV[axes](x, w, **{name: 0})
        with pytest.raises(InvalidArgumentError, match=f"{name} must"):
            LAYER[axes](2, 4, 3, **{name: 0})
    with pytest.raises(InvalidArgumentError, match=r"padding must be .* at least 0"):
        CONV[axes](x, w, padding=-1)
    with pytest.raises(ShapeError, match=r"rank .* and not be empty"):
        CONV[axes](x[:, :0], w[:, :0])
    with pytest.raises(InvalidArgumentError, match="'same' or 'valid'"):
        CONV[axes](x, w, padding="full")
    with pytest.raises(InvalidArgumentError, match="batch and channel axes must be 0"):
        CONV[axes](x, w, padding=[[1, 1], *[[0, 0]] * (axes + 1)])
