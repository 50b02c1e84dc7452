"""The gradient of a batch norm and the relu after it, as one op of a recorded step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import _core, nn
from proa.jit import to_static

from ..threads import num_threads

Array = np.ndarray
ONE_OP, TWO_OPS = "batch_norm_relu_grad", "batch_norm_grad"


class Planes(nn.Layer):
    """Norms of a batch in the order it is given, and of what convolutions write."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.LayerList([nn.BatchNorm2D(c) for c in (3, 70, 70)])
        self.convs = nn.LayerList([nn.Conv2D(c, 70, 3) for c in (3, 70)])

    def forward(self, x: Any) -> Any:
        h = F.relu(self.norms[0](x))
        h = F.relu(self.norms[1](self.convs[0](h)))
        return F.relu(self.norms[2](self.convs[1](h))).mean([2, 3])


class Vectors(nn.Layer):
    """relu(batch_norm(x @ w + b))."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 70), nn.BatchNorm1D(70)

    def forward(self, x: Any) -> Any:
        return F.relu(self.norm(self.linear(x)))


def with_random_parameters(make: Callable[[], nn.Layer]) -> nn.Layer:
    net, random = make(), np.random.default_rng(1)
    for p in net.parameters():
        p.set_value(random.standard_normal(p.shape).astype(np.float32))
    return net


def train(
    make: Callable[[], nn.Layer], x: Array, t: Array, recorded: bool, rate: float = 0.1
) -> tuple[dict[str, Array], list[str]]:
    """State after two steps of SGD on sum(net(x) * t), and the ops recorded."""
    net = with_random_parameters(make)
    opt = proa.optimizer.SGD(rate, net.parameters())

    def step(x: Any, t: Any) -> None:
        (net(x) * t).sum().backward()
        opt.step()
        opt.clear_grad()

    run = to_static(step) if recorded else step
    for _ in range(2):
        run(proa.to_tensor(x), proa.to_tensor(t))
    state = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    if not recorded:
        return state, []
    ((compiled,),) = run._cache.values()
    return state, [n.op for n in compiled.program.main.nodes]


@pytest.mark.parametrize("threads", [1, 2])
def test_steps_have_the_bits_of_eager_ones(threads: int) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 3, 21, 19)).astype(np.float32)
    t = random.standard_normal((4, 70)).astype(np.float32)
    with num_threads(threads):
        want, _ = train(Planes, x, t, recorded=False)
        got, ops = train(Planes, x, t, recorded=True)
    assert ops.count(ONE_OP) == 3
    assert TWO_OPS not in ops
    assert "relu_grad" not in ops
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def test_the_gradients_are_those_of_the_formula() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((50, 6)).astype(np.float32)
    t = random.standard_normal((50, 70)).astype(np.float32)
    net = with_random_parameters(Vectors)
    w, b, scale, bias = (p.numpy().astype(np.float64) for p in net.parameters())
    for _ in range(2):
        h = x @ w + b
        r = 1 / np.sqrt(h.var(0) + 1e-5)
        xhat = (h - h.mean(0)) * r
        dy = t * (xhat * scale + bias > 0)
        dxhat = dy * scale
        dh = r * (dxhat - dxhat.mean(0) - xhat * (dxhat * xhat).mean(0))
        w, b = w - 0.01 * x.T @ dh, b - 0.01 * dh.sum(0)
        scale, bias = scale - 0.01 * (dy * xhat).sum(0), bias - 0.01 * dy.sum(0)
    got, ops = train(Vectors, x, t, recorded=True, rate=0.01)
    assert ONE_OP in ops
    want = {
        "linear.weight": w,
        "linear.bias": b,
        "norm.weight": scale,
        "norm.bias": bias,
    }
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4, err_msg=name)


class Shifted(Vectors):
    """The norm's bias changes in place when it has been used."""

    def forward(self, x: Any) -> Any:
        y = super().forward(x)
        with proa.no_grad():
            _core.ops.sgd_(self.norm.bias, proa.ones([70]), lr=3.0)
        return y


class Watched(Vectors):
    """The norm's result is read by more than the relu."""

    def forward(self, x: Any) -> Any:
        h = self.norm(self.linear(x))
        return F.relu(h) + 0.1 * h


def test_what_is_read_elsewhere_stays_two_ops() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((50, 6)).astype(np.float32)
    t = random.standard_normal((50, 70)).astype(np.float32)
    want, _ = train(Watched, x, t, recorded=False)
    got, ops = train(Watched, x, t, recorded=True)
    assert TWO_OPS in ops
    assert ONE_OP not in ops
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def test_a_bias_that_changes_in_between_leaves_two_ops() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((50, 6)).astype(np.float32)
    t = random.standard_normal((50, 70)).astype(np.float32)
    want, _ = train(Shifted, x, t, recorded=False)
    got, ops = train(Shifted, x, t, recorded=True)
    assert TWO_OPS in ops
    assert ONE_OP not in ops
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def test_a_bias_may_change_before_a_layers_backward() -> None:
    """A recorded Layer's gradients are taken later, so its norms stay two ops."""
    random = np.random.default_rng(0)
    x = proa.to_tensor(random.standard_normal((50, 6)).astype(np.float32))
    grads = []
    for recorded in (False, True):
        net = with_random_parameters(Vectors)
        model = to_static(net) if recorded else net
        loss = model(x).sum()
        net.norm.bias.set_value(net.norm.bias + 3.0)
        loss.backward()
        grads.append([p.grad.numpy() for p in net.parameters()])
    for got, want in zip(grads[1], grads[0], strict=True):
        np.testing.assert_array_equal(got, want)
