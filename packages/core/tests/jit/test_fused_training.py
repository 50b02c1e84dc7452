"""What is fused in a recorded step is there in its program, and changes no bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import nn
from proa.jit import to_static
from proa.jit.static_function import StaticFunction

Array = np.ndarray


class Gated(nn.Layer):
    """Elementwise ops with a bias, a mask and a shortcut, between two products."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 256), nn.Linear(256, 8)
        self.gain = self.create_parameter([256])

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        g = F.sigmoid(h * self.gain) * h
        g = F.relu(g * 1.5 - 0.25) + h
        return self.last(g * F.dropout(proa.ones_like(g), 0.3))


def compiled_of(function: Any) -> Any:
    """The one recording of a function."""
    assert isinstance(function, StaticFunction)
    (found,) = [c for recordings in function._cache.values() for c in recordings]
    return found


def train(
    make: Callable[[], nn.Layer], shape: tuple[int, ...], how: str, steps: int = 3
) -> tuple[dict[str, Array], Any]:
    """State after some steps, and the recording if there is one."""
    proa.seed(3)
    random = np.random.default_rng(0)
    net = make()
    opt = proa.optimizer.Momentum(0.05, parameters=net.parameters())
    model = to_static(net) if how == "layer" else net

    def step(x: Any, y: Any) -> Any:
        loss = (model(x) * y).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    run = to_static(step) if how == "step" else step
    for _ in range(steps):
        x = proa.to_tensor(random.standard_normal(shape).astype(np.float32))
        y = proa.to_tensor(random.standard_normal((shape[0], 8)).astype(np.float32))
        run(x, y)
    state = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    if how == "eager":
        return state, None
    return state, compiled_of(run if how == "step" else net.forward)


def same(got: dict[str, Array], want: dict[str, Array]) -> None:
    assert got.keys() == want.keys()
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.feature("L180", how="mechanism")
@pytest.mark.parametrize("how", ["layer", "step"])
def test_chains_forward_and_backward(how: str) -> None:
    want, _ = train(Gated, (400, 64), "eager")
    got, compiled = train(Gated, (400, 64), how)
    same(got, want)
    chains = [n.op for n in compiled.program.main.nodes if n.chain]
    assert {"sigmoid", "relu", "add"} < set(chains)  # forward
    assert {"sigmoid_grad", "relu_grad"} < set(chains)  # backward


class Normed(nn.Layer):
    """Convolutions with batch norm and an activation, the second with a shortcut."""

    def __init__(self, act: Callable[[Any], Any] = F.relu) -> None:
        super().__init__()
        self.act = act
        self.convs = nn.LayerList([nn.Conv2D(c, 64, 3, padding=1) for c in (3, 64)])
        self.norms = nn.LayerList([nn.BatchNorm2D(64) for _ in range(2)])
        self.last = nn.Linear(64, 8)

    def forward(self, x: Any) -> Any:
        h = self.act(self.norms[0](self.convs[0](x)))
        h = self.act(self.norms[1](self.convs[1](h)) + h)
        return self.last(h.mean([2, 3]))


def chains_of(compiled: Any) -> list[list[str]]:
    """The ops of each chain."""
    chains: dict[int, list[str]] = {}
    for node in compiled.program.main.nodes:
        if node.chain:
            chains.setdefault(node.chain, []).append(node.op)
    return list(chains.values())


@pytest.mark.feature("L177", "L181", how="mechanism")
@pytest.mark.parametrize("how", ["layer", "step"])
@pytest.mark.parametrize("act", ["relu", "sigmoid", "hardswish"])
def test_batch_norm_with_shortcut_and_activation_is_one_pass(act: str, how: str):
    """Forward; their statistics, which go before, are a pass of their own."""
    want, _ = train(lambda: Normed(getattr(F, act)), (4, 3, 17, 17), "eager")
    got, compiled = train(lambda: Normed(getattr(F, act)), (4, 3, 17, 17), how)
    same(got, want)
    name = {"hardswish": "hard_swish"}.get(act, act)
    chains = chains_of(compiled)
    assert any(c[:2] == ["normalise_by", name] for c in chains)  # norm + act
    assert any(
        c[:3] == ["normalise_by", "add", name] for c in chains
    )  # norm + add + act
    assert "batch_norm" not in [n.op for n in compiled.program.main.nodes]


class Rectified(nn.Layer):
    """Products with a relu after them, one of which is read elsewhere, too."""

    def __init__(self, kernel: int, groups: int) -> None:
        super().__init__()
        self.first = nn.Conv2D(32, 64, 1)
        self.conv = nn.Conv2D(64, 64, kernel, padding=kernel // 2, groups=groups)
        self.middle, self.last = nn.Linear(64, 32), nn.Linear(32, 8)

    def forward(self, x: Any) -> Any:
        h = F.relu(self.conv(self.first(x)))
        h = self.middle(h.mean([2, 3]))
        return F.relu(self.last(F.relu(h) - h))


@pytest.mark.parametrize("how", ["layer", "step"])
@pytest.mark.parametrize(("kernel", "groups"), [(1, 1), (3, 1), (3, 64), (5, 1)])
@pytest.mark.parametrize("batch", [1, 4])
def test_products_end_with_the_relu_after_them(
    batch: int, kernel: int, groups: int, how: str
) -> None:
    want, _ = train(lambda: Rectified(kernel, groups), (batch, 32, 14, 14), "eager")
    got, compiled = train(lambda: Rectified(kernel, groups), (batch, 32, 14, 14), how)
    same(got, want)
    ops = [n.op for n in compiled.program.main.nodes]
    for op in ("conv2d", "conv2d_act", "linear", "linear_act", "relu"):
        assert ops.count(op) == 1, op


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_no_number_or_minus_zero_stays_so(dtype: str) -> None:
    net = nn.Linear(1, 1)
    net.weight.set_value(np.ones((1, 1), np.float32))
    net.bias.set_value(np.array([-0.0], np.float32))
    x = proa.to_tensor(np.array([[np.nan], [-0.0], [-1], [1], [np.inf]], np.float32))

    def run(x: Any) -> Any:
        with proa.amp.auto_cast(dtype == "bfloat16", dtype="bfloat16"):
            return F.relu(net(x)).astype("float32")

    want, got = run(x).numpy(), to_static(run)(x).numpy()
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def test_a_chain_runs_in_the_step_and_not_only_in_its_program() -> None:
    _, compiled = train(Normed, (4, 3, 17, 17), "step")
    x = proa.zeros([4, 3, 17, 17])
    y = proa.zeros([4, 8])
    steps = compiled.engine.profile(
        compiled._inputs.read([x, y]), compiled.graph.scalars.next_values()
    )
    ops = [op for op, _, _ in steps]
    assert ops.count("chain") >= 2 and "normalise_by" not in ops


class Transposed(nn.Layer):
    """Weights that are kept (out, in), and whose gradient an LSTM takes as well."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.create_parameter([40, 20])
        self.lstm, self.last = nn.LSTM(40, 24), nn.Linear(24, 8)

    def forward(self, x: Any) -> Any:
        h = F.linear(x, self.weight.transpose([1, 0]))
        return self.last(self.lstm(h)[0][:, -1])


@pytest.mark.parametrize("how", ["layer", "step"])
def test_gradients_of_transposed_weights_have_the_layout_of_these(how: str) -> None:
    shape = (11, 9, 20)
    want, _ = train(Transposed, shape, "eager")
    got, compiled = train(Transposed, shape, how)
    same(got, want)
    nodes = compiled.program.main.nodes
    transposed = [n.inputs[0] for n in nodes if n.op == "swap_last"]
    products = [n.outputs[0] for n in nodes if n.op == "linear_grad_weight"]
    assert [40, 20] in [list(v.shape) for v in products]
    assert [96, 40] in [list(v.shape) for v in products]
    assert not set(transposed) & set(products)


def test_gradients_of_transposed_weights_are_those_of_the_formula() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((300, 20)).astype(np.float32)
    t = random.standard_normal((300, 40)).astype(np.float32)
    weight = proa.to_tensor(np.ones((40, 20), np.float32), stop_gradient=False)
    opt = proa.optimizer.SGD(0.01, [weight])

    @to_static
    def step(x: Any, t: Any) -> None:
        (F.linear(x, weight.transpose([1, 0])) * t).sum().backward()
        opt.step()
        opt.clear_grad()

    step(proa.to_tensor(x), proa.to_tensor(t))
    want = 1 - 0.01 * (t.astype(np.float64).T @ x)
    np.testing.assert_allclose(weight.numpy(), want, rtol=1e-5, atol=1e-5)
