"""Layers written as Paddle models: what paddlepaddle and we read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import nn
from proa.static import InputSpec
from proa.vision import models

from . import wheel

pytestmark = pytest.mark.full

rng = np.random.default_rng(0)


def f(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


class Computed(nn.Layer):
    """A function's results, and a parameter: the predictor takes no model without."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        ones = nn.initializer.Constant(1.0)
        self.one = self.create_parameter([1], default_initializer=ones)

    def forward(self, *inputs: Any) -> Any:
        found = self.function(*inputs)
        return (*(found if isinstance(found, tuple) else (found,)), self.one * 2)


class Tagger(nn.Layer):
    def __init__(self, kind: Any, directions: int) -> None:
        super().__init__()
        direction = "bidirect" if directions == 2 else "forward"
        self.layers = kind(4, 5, num_layers=2, direction=direction)
        self.out = nn.Linear(5 * directions, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.layers(x)[0])


class Encoder(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, ids: Any) -> Any:
        mask = (ids != 0).astype("float32").unsqueeze([1, 2])
        x = self.encoder(self.embedding(ids), (mask - 1) * 1e4)
        return x, x[:, 0]


def branch(x: Any) -> Any:
    return x * 2 if x.mean() > 0 else x - 1


def loop(n: Any, x: Any) -> Any:
    i = proa.zeros([1], "int64")
    while i < n:
        x = x * 2 + i.astype("float32")
        i = i + 1
    return x, i


ACTIVATIONS = (
    F.relu, F.relu6, F.gelu, F.silu, F.mish, F.elu, F.selu, F.celu, F.hardswish,
    F.hardsigmoid, F.hardtanh, F.hardshrink, F.softshrink, F.softplus, F.softsign,
    F.tanhshrink, F.log_sigmoid, F.leaky_relu, F.log_softmax, F.thresholded_relu,
)  # fmt: skip

#: name: what makes the Layer, its inputs, and their shapes if some sizes are open
CASES: dict[str, tuple[Callable[[], nn.Layer], list[Any], Any]] = {
    "resnet": (models.resnet18, [f(1, 3, 96, 96)], [[-1, 3, None, None]]),
    "mobilenet_v2": (models.mobilenet_v2, [f(1, 3, 96, 96)], [[-1, 3, None, None]]),
    "mobilenet_v3": (models.mobilenet_v3_small, [f(1, 3, 96, 96)], None),
    "squeezenet": (models.squeezenet1_1, [f(1, 3, 96, 96)], None),
    "shufflenet": (models.shufflenet_v2_x0_5, [f(1, 3, 96, 96)], None),
    "encoder": (Encoder, [rng.integers(0, 10, (2, 5))], [[-1, -1]]),
    "conv1d": (lambda: nn.Conv1D(3, 4, 3, padding=1), [f(2, 3, 8)], None),
    "conv3d": (lambda: nn.Conv3D(2, 3, 3), [f(1, 2, 5, 5, 5)], None),
    "conv_transpose": (
        lambda: nn.Conv2DTranspose(
            4, 6, 3, stride=2, padding=1, output_padding=1, groups=2
        ), [f(1, 4, 5, 5)], None,
    ),
}  # fmt: skip
for _kind in (nn.LSTM, nn.GRU, nn.SimpleRNN):
    for _directions in (1, 2):
        CASES[f"{_kind.__name__}_{_directions}"] = (
            lambda k=_kind, d=_directions: Tagger(k, d), [f(2, 6, 4)], [[-1, 6, 4]]
        )  # fmt: skip


def case(name: str, function: Any, *inputs: Any, spec: Any = None) -> None:
    CASES[name] = (lambda: Computed(function), list(inputs), spec)


case("activations", lambda x: tuple(g(x) for g in ACTIVATIONS), f(2, 5))
case("arithmetic", lambda x, y: (
    x + y, x - y, x * y, x / y, x**2, proa.maximum(x, y), x % y, x // y, -x, x.exp(),
    proa.atan2(x, y), x > y, proa.logical_and(x > 0, y > 0), proa.clip(x, -0.5, 0.5),
    x.astype("int32"), proa.erf(x), proa.sign(x), proa.floor(x),
), f(3, 4), f(3, 4))  # fmt: skip
case("integers", lambda x: (
    x + 1, x * 2, x // 2, x % 3, proa.clip(x, 1, 3), x.sum(), F.one_hot(x, 5),
), np.array([[0, 1, 2], [3, 4, 1]]))  # fmt: skip
case("reductions", lambda x: (
    x.sum(1), x.mean(), x.max([0, 2], keepdim=True), x.prod(-1), proa.logsumexp(x, 1),
    (x > 0).any(1), proa.argmax(x, 1), proa.argmin(x, -1, keepdim=True),
), f(2, 3, 4))  # fmt: skip
case("order", lambda x: (
    proa.sort(x, 1), proa.argsort(x, 1, True), *proa.topk(x, 2, 1), proa.cumsum(x, 1),
), f(3, 5))  # fmt: skip
case("shapes", lambda x: (
    x.reshape([x.shape[0] * x.shape[1], -1]), proa.tile(x, [2, 1, 1]),
    proa.stack([x, x], 1), proa.concat([x, x], -1), x.flatten(1),
    proa.expand(x.unsqueeze(0), [2, -1, -1, -1]), proa.transpose(x, [2, 0, 1]),
    proa.tril(x), proa.split(x, 2, -1)[1], proa.roll(x, 1, 2),
), f(2, 3, 4), spec=[[-1, -1, 4]])  # fmt: skip
case("slices", lambda x: (x[:, 1:, ::-2], x[:, -1], x[:, ::2, 1:-1]),
     f(2, 5, 6), spec=[[-1, 5, 6]])  # fmt: skip
case("padding", lambda x: (
    F.pad(x, [1, 2, 0, 1]), F.pad(x, [1, 2, 0, 1], "reflect"),
    F.pad(x, [1, 2, 0, 1], "replicate"),
), f(1, 2, 5, 6))  # fmt: skip
case("norms", lambda x: (
    F.normalize(x), F.instance_norm(x), F.group_norm(x, 2), F.local_response_norm(x, 3)
), f(2, 4, 5, 5))  # fmt: skip
case("resizing", lambda x: (
    F.interpolate(x, [7, 9]), F.interpolate(x, None, 2.0),
    F.interpolate(x, [7, 9], mode="bilinear"),
    F.interpolate(x, None, 2, mode="bilinear", align_corners=True),
    F.interpolate(x, [7, 9], mode="bicubic"),
), f(1, 2, 5, 6))  # fmt: skip
case("pooling", lambda x: (
    F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, exclusive=False),
    F.avg_pool2d(x, 2, ceil_mode=True), F.adaptive_avg_pool2d(x, [3, 2]),
    F.adaptive_max_pool2d(x, 2), F.max_pool2d(x, 2, return_mask=True)[1],
), f(1, 2, 7, 6))  # fmt: skip
case("indices", lambda x, i: (proa.gather(x, i, 1), proa.where(x > 0, x, x[:1])),
     f(3, 4), np.array([2, 0, 1]), spec=[[-1, 4], [3]])  # fmt: skip
case("gather_nd", proa.gather_nd, f(3, 4), np.array([[2, 0], [1, 1]]))
case("einsum", lambda x, y: proa.einsum("bij,bjk->bik", x, y), f(2, 3, 4), f(2, 4, 5))
case("shuffle", lambda x: (F.pixel_shuffle(x, 2), F.unfold(x, 3)), f(1, 4, 4, 4))
case("branch_then", branch, np.abs(f(3)))
case("branch_else", branch, -np.abs(f(3)))
case("loop", loop, np.array([4]), f(3))


def _listed(found: Any) -> list[Any]:
    return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]


def _compare(found: list[Any], expected: list[Any], name: str) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        size = np.abs(theirs).max(initial=1.0) if theirs.dtype.kind == "f" else 1.0
        np.testing.assert_allclose(
            ours, theirs, rtol=1e-3, atol=1e-5 * size, err_msg=name
        )
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, name


def test_saved_layers_are_run_by_paddlepaddle(tmp_path: Path) -> None:
    proa.seed(0)
    expected, arguments = {}, []
    for name, (make, inputs, shapes) in CASES.items():
        layer, prefix = make(), tmp_path / name
        layer.eval()
        tensors = [proa.to_tensor(a) for a in inputs]
        specs = [
            InputSpec(list(a.shape) if shapes is None else shapes[i], str(a.dtype))
            for i, a in enumerate(inputs)
        ]
        proa.jit.save(layer, prefix, specs, format="paddle")
        with proa.no_grad():
            expected[name] = _listed(layer(*tensors))
            _compare(_listed(proa.jit.load(prefix)(*tensors)), expected[name], name)
        np.savez(f"{prefix}.given.npz", *inputs)
        arguments += [str(prefix), f"{prefix}.given.npz", f"{prefix}.made.npz"]
    for python in wheel.interpreters():
        wheel.run("predict.py", *arguments, python=python)
        for name, arrays in expected.items():
            with np.load(tmp_path / f"{name}.made.npz") as result:
                found = [result[key] for key in result.files]
            _compare(found, arrays, f"{name} by {python}")
