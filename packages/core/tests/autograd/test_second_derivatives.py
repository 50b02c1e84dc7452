"""Second derivatives and starting gradients that users of Paddle rely on."""

from __future__ import annotations

import numpy as np
import pytest

import proa
from proa import nn
from proa.nn import functional as F


@pytest.mark.feature("L050")
def test_elu_has_a_second_derivative():
    a = np.array([-2.0, -0.5, 0.3, 2.0])
    x = proa.to_tensor(a, stop_gradient=False)
    first = proa.grad([F.elu(x, 1.5).sum()], [x], create_graph=True)[0]
    np.testing.assert_allclose(first.numpy(), np.where(a > 0, 1, 1.5 * np.exp(a)))
    first.sum().backward()
    want = np.where(a > 0, 0, 1.5 * np.exp(a))
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6)


@pytest.mark.feature("L051")
def test_a_gradient_penalty_trains():
    proa.seed(0)
    critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = proa.optimizer.Adam(0.02, parameters=critic.parameters())
    draw = np.random.default_rng(0)
    penalties = []
    for _ in range(60):
        x = proa.to_tensor(draw.normal(size=(32, 2)).astype("float32"))
        x.stop_gradient = False
        slope = proa.grad([critic(x).sum()], [x], create_graph=True)[0]
        penalty = ((proa.sqrt((slope * slope).sum(axis=1) + 1e-12) - 1) ** 2).mean()
        penalty.backward()
        optimizer.step()
        optimizer.clear_grad()
        penalties.append(float(penalty))
    assert penalties[-1] < 0.1 * penalties[0]


@pytest.mark.feature("L051")
def test_a_gan_with_a_gradient_penalty_learns_a_distribution():
    """WGAN-GP (Gulrajani et al., 2017): numbers of mean 3 and deviation 0.5."""
    proa.seed(1)
    make = nn.Linear(1, 1)
    critic = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    slow, fast = (
        proa.optimizer.Adam(rate, 0.0, 0.9, parameters=net.parameters())
        for rate, net in ((0.01, make), (0.02, critic))
    )
    for _ in range(800):
        for _ in range(5):
            real, false = 3 + 0.5 * proa.randn([64, 1]), make(proa.randn([64, 1]))
            share = proa.rand([64, 1])
            mixed = (share * real + (1 - share) * false).detach()
            mixed.stop_gradient = False
            (slope,) = proa.grad([critic(mixed).sum()], [mixed], create_graph=True)
            penalty = ((slope.abs() - 1) ** 2).mean()
            false = false.detach()
            loss = critic(false).mean() - critic(real).mean() + penalty
            loss.backward()
            fast.step()
            fast.clear_grad()
        (-critic(make(proa.randn([64, 1]))).mean()).backward()
        slow.step()
        slow.clear_grad()
        critic.clear_gradients()
    result = make(proa.randn([2000, 1])).numpy()
    assert abs(result.mean() - 3) < 0.5
    assert 0.3 < result.std() < 0.7


@pytest.mark.feature("L054")
def test_backward_accepts_initial_gradients():
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    y, z = x * x, x * 3
    start = [proa.to_tensor([1.0, 10.0]), None]
    proa.autograd.backward([y, z], start)
    assert x.grad.tolist() == [2 * 1 + 3, 4 * 10 + 3]


@pytest.mark.feature("L004")
def test_tensors_and_arrays_share_their_memory():
    x = proa.ones([2, 3])
    a = x.numpy()
    a[0, 0] = 5
    x[1, 1] = 7
    assert float(x[0, 0]) == 5 and a[1, 1] == 7
    assert x.numpy(False).ctypes.data == x.data_ptr() == a.ctypes.data
