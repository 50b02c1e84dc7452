"""Static programs train as dynamic mode does: the same bits for a program and seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import nn, optimizer, static
from proa.nn import initializer as I

RNG = np.random.default_rng(0)
#: Batches of two sizes, so that a program is planned for both.
BATCHES = [
    (RNG.random((n, 1, 28, 28), dtype="float32"), RNG.integers(0, 10, (n, 1)))
    for n in (8, 8, 5)
]

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: optimizer.SGD(
        optimizer.lr.StepDecay(0.1, 1), p, weight_decay=1e-3
    ),
    "Adam": lambda p: optimizer.Adam(
        0.01, parameters=p, weight_decay=1e-3, grad_clip=nn.ClipGradByGlobalNorm(1.0)
    ),
    "Momentum": lambda p: optimizer.Momentum(
        0.01, parameters=p, weight_decay=proa.regularizer.L1Decay(1e-3)
    ),
    "AdamW": lambda p: optimizer.AdamW(0.01, parameters=p),
}


def lenet() -> nn.Layer:
    """LeNet with what is apt to differ: statistics, masks, initializers in NumPy."""
    return nn.Sequential(
        nn.Conv2D(1, 6, 5), nn.BatchNorm2D(6), nn.ReLU(), nn.MaxPool2D(2),
        nn.Conv2D(6, 16, 5, bias_attr=proa.ParamAttr(learning_rate=2.0)), nn.ReLU(),
        nn.MaxPool2D(2), nn.Flatten(),
        nn.Linear(256, 84, weight_attr=I.Orthogonal()), nn.Dropout(0.5), nn.ReLU(),
        nn.Linear(84, 10, weight_attr=I.TruncatedNormal()),
    )  # fmt: skip


def _step_rate(opt: Any) -> None:
    if isinstance(opt._learning_rate, optimizer.lr.LRScheduler):
        opt._learning_rate.step()


def _dynamic(make: Callable[[Any], Any]) -> tuple[list[Any], list[Any], Any]:
    net = lenet()
    opt, losses = make(net.parameters()), []
    for x, y in BATCHES:
        loss = F.cross_entropy(net(proa.to_tensor(x)), proa.to_tensor(y))
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(loss.numpy())
        _step_rate(opt)
    net.eval()
    scores = net(proa.to_tensor(BATCHES[0][0])).numpy()
    return losses, [t.numpy() for t in net.state_dict().values()], scores


def _static(
    make: Callable[[Any], Any], main: static.Program, startup: static.Program
) -> tuple[list[Any], list[Any], Any]:
    x = static.data("x", [None, 1, 28, 28])
    y = static.data("y", [-1, 1], "int64")
    net = lenet()
    scores = net(x)
    loss = F.cross_entropy(scores, y)
    test = main.clone(for_test=True)
    opt = make(None)
    opt.minimize(loss)
    exe, losses = static.Executor(proa.CPUPlace()), []
    exe.run(startup)
    for images, labels in BATCHES:
        losses += exe.run(feed={"x": images, "y": labels}, fetch_list=[loss])
        _step_rate(opt)
    found = exe.run(test, feed={"x": BATCHES[0][0]}, fetch_list=[scores])[0]
    state = [t.get_value().numpy() for t in net.state_dict().values()]
    return losses, state, found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_both_modes_train_to_the_same_bits(
    name: str, static_mode: tuple[static.Program, static.Program]
) -> None:
    proa.seed(7)
    losses, state, scores = _static(OPTIMIZERS[name], *static_mode)
    proa.disable_static()
    proa.seed(7)
    want = _dynamic(OPTIMIZERS[name])
    np.testing.assert_array_equal(losses, want[0])
    assert losses[0] != losses[1]
    for found, expected in zip(state, want[1], strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(scores, want[2])


def test_a_step_of_gradient_descent_is_numpys(
    static_mode: tuple[static.Program, static.Program],
) -> None:
    x = static.data("x", [None, 3], "float64")
    w = static.create_parameter([3, 2], "float64", name="w")
    loss = (proa.matmul(x, w) ** 2).mean()
    _, pairs = optimizer.SGD(0.5).minimize(loss)
    assert [(p.name, g.name) for p, g in pairs] == [("w", "w@GRAD")]
    exe = static.Executor()
    exe.run(static_mode[1])
    before = w.get_value().numpy().copy()
    array = RNG.normal(size=(4, 3))
    found, gradient, after = exe.run(
        feed={"x": array}, fetch_list=[loss, "w@GRAD", "w"]
    )
    product = array @ before
    want = array.T @ (2 * product) / product.size
    np.testing.assert_allclose(found, (product**2).mean(), rtol=1e-12)
    np.testing.assert_allclose(gradient, want, rtol=1e-12)
    np.testing.assert_allclose(after, before - 0.5 * want, rtol=1e-12)
    held = static.global_scope().find_var("w").get_tensor()
    np.testing.assert_array_equal(np.array(held), after)


def test_lamb_and_embeddings_train_as_in_dynamic_mode(
    static_mode: tuple[static.Program, static.Program],
) -> None:
    """Lamb's ratio of norms is a tensor here, a number there."""

    def loss_of(net: nn.Layer, words: Any) -> Any:
        return (net(words) ** 2).mean()

    def network() -> nn.Layer:
        return nn.Sequential(nn.Embedding(9, 4, padding_idx=3), nn.Linear(4, 2))

    words = RNG.integers(0, 9, (5, 3))
    proa.seed(2)
    net = network()
    loss = loss_of(net, static.data("words", [None, 3], "int64"))
    optimizer.Lamb(0.1).minimize(loss)
    exe = static.Executor()
    exe.run(static_mode[1])
    table = net[0].weight.get_value().numpy()
    assert not table[3].any() and table[4].all()
    found = [exe.run(feed={"words": words}, fetch_list=[loss])[0] for _ in range(4)]
    proa.disable_static()
    proa.seed(2)
    net = network()
    np.testing.assert_array_equal(net[0].weight.numpy(), table)
    opt, want = optimizer.Lamb(0.1, parameters=net.parameters()), []
    for _ in range(4):
        loss = loss_of(net, proa.to_tensor(words))
        loss.backward()
        opt.step()
        opt.clear_grad()
        want.append(loss.numpy())
    np.testing.assert_allclose(found, want, rtol=1e-5)
    assert found[3] < found[0]
