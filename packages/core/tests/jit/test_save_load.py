"""jit.save and jit.load: one file, the same results, weights that train further."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

import proa
from proa._core import ops
from proa.errors import InvalidArgumentError, NotFoundError
from proa.ir import describe, read
from proa.jit import InputSpec, load, save, to_static

from .dense import Dense, close, tensor


@pytest.mark.feature("L206")
def test_a_saved_layer_is_loaded_and_gives_the_same(tmp_path: Path) -> None:
    layer = Dense()
    save(layer, tmp_path / "dense", [InputSpec([None, 4], name="image")])
    assert layer.training
    assert os.listdir(tmp_path) == ["dense.proa"]
    loaded = load(tmp_path / "dense")
    for n in (1, 7):
        x = tensor(n, 4)
        with proa.no_grad():
            close(loaded(x), layer.want(x))
    with safe_open(tmp_path / "dense.proa", "np") as file:
        np.testing.assert_array_equal(file.get_tensor("fc.weight"), layer.w.numpy())
    program = read(tmp_path / "dense.proa")
    spec = json.loads(program.metadata["input_spec"])
    assert spec == [["image", "float32", [-1, 4]]]
    assert "dropout" not in describe(tmp_path / "dense.proa")
    assert [name for name, _ in loaded.named_parameters()] == ["fc.weight", "fc.bias"]


@pytest.mark.feature("L203")
@pytest.mark.parametrize(
    "wrap",
    [
        lambda net: net,
        lambda net: to_static(net, input_spec=[InputSpec([None, 4])]),
        proa.DataParallel,
    ],
    ids=["plain", "converted", "parallel"],
)
def test_layers_are_saved_whether_converted_or_not(tmp_path: Path, wrap: Any) -> None:
    net = proa.nn.Linear(4, 3)
    save(wrap(net), tmp_path / "net", [InputSpec([None, 4])])
    x = tensor(5, 4)
    want = x.numpy() @ net.weight.numpy() + net.bias.numpy()
    close(load(tmp_path / "net")(x), want)
    assert not hasattr(proa.jit.ProgramTranslator, "save_inference_model")


@pytest.mark.feature("L204")
@pytest.mark.parametrize("writer", ["jit", "traced", "static"])
def test_saved_models_are_loaded_to_infer_and_to_train(
    tmp_path: Path, writer: str
) -> None:
    net, x = proa.nn.Linear(4, 1), tensor(8, 4)
    path = str(tmp_path / "net")
    if writer == "jit":
        save(net, path, [InputSpec([8, 4])])
    else:
        _, traced = proa.jit.TracedLayer.trace(net, [x])
        if writer == "traced":
            traced.save_inference_model(path)
        else:
            main = traced.program.main
            proa.static.save_inference_model(
                path, main.inputs, main.outputs, program=traced.program
            )
    loaded = load(path)
    w, b = net.weight.numpy().copy(), net.bias.numpy().copy()
    with proa.no_grad():
        close(loaded(x), x.numpy() @ w + b)
    loaded.train()
    descent = proa.optimizer.SGD(0.1, parameters=loaded.parameters())
    for _ in range(2):
        error = x.numpy() @ w + b - 1
        (0.5 * (loaded(x) - 1) ** 2).mean().backward()
        descent.step()
        descent.clear_grad()
        w, b = w - 0.1 * x.numpy().T @ error / 8, b - 0.1 * error.mean()
    close(dict(loaded.named_parameters())["weight"], w)
    with proa.no_grad():
        close(loaded(x), x.numpy() @ w + b)


def test_a_path_that_ends_in_proa_is_not_changed(tmp_path: Path) -> None:
    save(Dense(), tmp_path / "a.proa", [tensor(2, 4)])
    assert os.listdir(tmp_path) == ["a.proa"]


@pytest.mark.feature("L209")
def test_a_function_without_parameters_is_saved(tmp_path: Path) -> None:
    def f(x: Any, y: Any) -> Any:
        return ops.add(x, y), [ops.mul(x, y)]

    save(f, tmp_path / "f", [InputSpec([None]), InputSpec([None])])
    x, y = tensor(5), tensor(5, seed=1)
    total, (product,) = load(tmp_path / "f")(x, y)
    close(total, x.numpy() + y.numpy())
    close(product, x.numpy() * y.numpy())
    assert [v.name for v in read(tmp_path / "f.proa").main.inputs] == ["x", "y"]


def test_a_loaded_model_trains_further(tmp_path: Path) -> None:
    layer = Dense()
    save(layer, tmp_path / "m", [InputSpec([None, 4])])
    loaded = load(tmp_path / "m")
    loaded.train()
    x = tensor(3, 4)
    ops.sum(loaded(x)).backward()
    weight = dict(loaded.named_parameters())["fc.weight"]
    slope = 1 - layer.want(x) ** 2
    want = x.numpy().T @ slope
    np.testing.assert_allclose(weight.grad.numpy(), want, rtol=1e-4, atol=1e-5)
    loaded.eval()
    loaded.set_state_dict({"fc.bias": tensor(3, seed=8)})
    layer.b = tensor(3, seed=8)
    with proa.no_grad():
        close(loaded(x), layer.want(x))
    with pytest.raises(
        InvalidArgumentError, match=r"expected a name of .*got 'fc\.speed'"
    ):
        loaded.set_state_dict({"fc.speed": tensor(3)})
    with pytest.raises(InvalidArgumentError, match=r"fc\.bias must be .*\(4,\)"):
        loaded.set_state_dict({"fc.bias": tensor(4)})


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_a_loaded_recurrent_model_differentiates_twice(tmp_path: Path, kind: str):
    proa.seed(0)
    layer = getattr(proa.nn, kind)(3, 4)
    x = proa.to_tensor(np.random.default_rng(0).standard_normal((2, 5, 3)), "float32")
    save(layer, tmp_path / "r", [InputSpec([2, 5, 3])])
    seconds = []
    for model in (layer, load(tmp_path / "r")):
        inner = x.detach()
        inner.stop_gradient = False
        out = model(inner)[0].square().sum()
        (first,) = proa.grad(out, inner, create_graph=True)
        (second,) = proa.grad(first.square().sum(), inner)
        seconds.append(second.numpy())
    # tests/nn/test_rnn.py holds the layer's own against finite differences.
    np.testing.assert_allclose(seconds[1], seconds[0], rtol=1e-5, atol=1e-7)


@pytest.mark.feature("L205")
def test_a_loaded_model_shows_its_program(tmp_path: Path) -> None:
    save(Dense(), tmp_path / "m", [InputSpec([None, 4])])
    text = str(load(tmp_path / "m").program())
    assert "input %x: float32[?, 4]" in text
    assert "linear(%x, %fc.weight, %fc.bias)" in text


def test_saving_needs_to_know_the_shapes(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="expected input_spec with"):
        save(Dense(), tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no such file: .*none\.proa"):
        load(tmp_path / "none")


class _Decorated(proa.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.fc = proa.nn.Linear(3, 2)

    @proa.jit.to_static
    def forward(self, x: Any, double: bool = False) -> Any:
        y = self.fc(x)
        return y * 2 if double else y


@pytest.mark.parametrize("double", [False, True])
def test_a_decorated_forward_trains_and_is_saved_as_it_was_called(
    tmp_path: Path, double: bool
) -> None:
    net, x = _Decorated(), tensor(4, 3)
    with pytest.raises(InvalidArgumentError, match="expected an input_spec or"):
        proa.jit.save(net, tmp_path / "never_called")
    sgd = proa.optimizer.SGD(0.1, net.parameters())
    for _ in range(2):
        net(x, double=double).square().sum().backward()
        sgd.step()
        sgd.clear_grad()
    proa.jit.save(net, tmp_path / "net")
    loaded = proa.jit.load(tmp_path / "net")
    w, b = net.fc.weight.numpy(), net.fc.bias.numpy()
    want = (x.numpy() @ w + b) * (2 if double else 1)
    np.testing.assert_allclose(loaded(x).numpy(), want, rtol=1e-5, atol=1e-6)
    with pytest.raises(InvalidArgumentError, match=r"shape \(4, 3\), got \(7, 3\)"):
        loaded(tensor(7, 3))


def test_a_function_is_saved_as_it_was_called(tmp_path: Path) -> None:
    f = proa.jit.to_static(lambda x, y: proa.tanh(x) - y)
    x, y = tensor(2, 3), tensor(2, 3, seed=1)
    want = f(x, y).numpy()
    proa.jit.save(f, tmp_path / "f")
    found = proa.jit.load(tmp_path / "f")(x, y)
    np.testing.assert_allclose(found.numpy(), np.tanh(x.numpy()) - y.numpy(), atol=1e-6)
    np.testing.assert_array_equal(found.numpy(), want)
