"""Loops that programs write by hand, checked number by number against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa as paddle
from proa import nn
from proa.nn import functional as F

RNG = np.random.default_rng(0)
X = RNG.standard_normal((64, 4)).astype(np.float32)
Y = (X @ np.array([[1.0], [-2.0], [0.5], [3.0]]) + 0.25).astype(np.float32)


def line() -> Any:
    """A linear network that begins with zeros."""
    return nn.Linear(
        4, 1, weight_attr=nn.initializer.Constant(0.0), bias_attr=paddle.ParamAttr()
    )


def batches(size: int) -> list[tuple[Any, Any]]:
    return [
        (paddle.to_tensor(X[i : i + size]), paddle.to_tensor(Y[i : i + size]))
        for i in range(0, len(X), size)
    ]


def numpy_gradient(w: Any, b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    error = x @ w + b - y
    return 2 * x.T @ error / len(x), 2 * error.mean(0)


def test_gradients_of_small_batches_add_up_to_those_of_a_large_one() -> None:
    net = line()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    w, b = np.zeros((4, 1)), np.zeros(1)
    for _ in range(3):
        for i, (x, y) in enumerate(batches(16)):
            loss = F.mse_loss(net(x), y) / 4
            loss.backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.clear_grad()
        dw, db = numpy_gradient(w, b, X, Y)
        w, b = w - 0.1 * dw, b - 0.1 * db
        np.testing.assert_allclose(net.weight.numpy(), w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(net.bias.numpy(), b, rtol=1e-4, atol=1e-5)


def test_gradients_are_clipped_by_their_common_norm() -> None:
    net = line()
    clip = nn.ClipGradByGlobalNorm(clip_norm=0.5)
    optimizer = paddle.optimizer.Momentum(
        0.1, momentum=0.9, parameters=net.parameters(), grad_clip=clip
    )
    w, b, vw, vb = np.zeros((4, 1)), np.zeros(1), np.zeros((4, 1)), np.zeros(1)
    for x, y in batches(16):
        F.mse_loss(net(x), y).backward()
        optimizer.step()
        optimizer.clear_grad()
        dw, db = numpy_gradient(w, b, x.numpy(), y.numpy())
        norm = np.sqrt((dw**2).sum() + (db**2).sum())
        factor = 0.5 / max(norm, 0.5)
        vw, vb = 0.9 * vw + factor * dw, 0.9 * vb + factor * db
        w, b = w - 0.1 * vw, b - 0.1 * vb
    np.testing.assert_allclose(net.weight.numpy(), w, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(net.bias.numpy(), b, rtol=1e-4, atol=1e-6)


def test_the_rate_warms_up_and_then_decays() -> None:
    decay = paddle.optimizer.lr.PolynomialDecay(
        0.4, decay_steps=6, end_lr=0.1, power=2.0
    )
    rate = paddle.optimizer.lr.LinearWarmup(
        decay, warmup_steps=4, start_lr=0.0, end_lr=0.4
    )
    net = line()
    optimizer = paddle.optimizer.SGD(learning_rate=rate, parameters=net.parameters())
    seen = []
    for _ in range(12):
        seen.append(optimizer.get_lr())
        rate.step()
    want = [0.1 * i for i in range(4)]
    want += [0.3 * (1 - min(i, 6) / 6) ** 2 + 0.1 for i in range(8)]
    np.testing.assert_allclose(seen, want, rtol=1e-6, atol=1e-12)


def network_and_optimizer() -> tuple[Any, Any, Any]:
    paddle.seed(7)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.BatchNorm1D(8), nn.Linear(8, 1))
    rate = paddle.optimizer.lr.StepDecay(0.05, step_size=3, gamma=0.5)
    optimizer = paddle.optimizer.AdamW(
        learning_rate=rate, parameters=net.parameters(), weight_decay=0.01
    )
    return net, rate, optimizer


def train(net: Any, rate: Any, optimizer: Any, steps: range) -> list[float]:
    data, losses = batches(16), []
    for step in steps:
        x, y = data[step % len(data)]
        loss = F.smooth_l1_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        rate.step()
        losses.append(float(loss))
    return losses


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    with paddle.utils.unique_name.guard():  # as each process begins
        whole = train(*network_and_optimizer(), range(12))
    with paddle.utils.unique_name.guard():
        net, rate, optimizer = network_and_optimizer()
        before = train(net, rate, optimizer, range(5))
    paddle.save(net.state_dict(), str(tmp_path / "net.pdparams"))
    paddle.save(optimizer.state_dict(), str(tmp_path / "net.pdopt"))
    paddle.save({"step": 5, "losses": before}, str(tmp_path / "run.pdx"))
    with paddle.utils.unique_name.guard():
        net, rate, optimizer = network_and_optimizer()
    net.set_state_dict(paddle.load(str(tmp_path / "net.pdparams")))
    optimizer.set_state_dict(paddle.load(str(tmp_path / "net.pdopt")))
    run = paddle.load(str(tmp_path / "run.pdx"))
    assert rate.last_epoch == run["step"]
    after = train(net, rate, optimizer, range(run["step"], 12))
    np.testing.assert_array_equal(run["losses"] + after, whole)


def test_a_loop_in_mixed_precision_learns_and_lowers_its_scale() -> None:
    paddle.seed(1)
    net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.Adam(0.02, parameters=net.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024.0)
    for step in range(80):
        x, y = batches(32)[step % 2]
        with paddle.amp.auto_cast(dtype="bfloat16"):
            out = net(x)
            assert out.dtype == paddle.bfloat16
        loss = F.mse_loss(out.astype("float32"), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
    assert float(loss) < 0.2 < float((Y**2).mean())
    before = net[0].weight.numpy()
    (scaler.scale(net(x).sum()) * float("inf")).backward()
    scaler.minimize(optimizer, loss)
    np.testing.assert_array_equal(net[0].weight.numpy(), before)
    assert float(scaler.state_dict()["scale"]) <= 1024.0


def test_data_parallel_on_one_process_is_the_layer_itself() -> None:
    net = line()
    parallel = paddle.DataParallel(net)
    x, y = batches(64)[0]
    loss = F.mse_loss(parallel(x), y)
    loss = parallel.scale_loss(loss)
    loss.backward()
    parallel.apply_collective_grads()
    dw, _ = numpy_gradient(np.zeros((4, 1)), np.zeros(1), X, Y)
    np.testing.assert_allclose(net.weight.grad.numpy(), dw, rtol=1e-4, atol=1e-5)
    assert sorted(parallel.state_dict()) == ["bias", "weight"]


def test_frozen_parameters_stay_and_groups_have_rates_of_their_own() -> None:
    head, tail, frozen = line(), nn.Linear(1, 1), nn.Linear(4, 4)
    for parameter in frozen.parameters():
        parameter.trainable = False
    weight = tail.weight.numpy()
    optimizer = paddle.optimizer.SGD(
        learning_rate=0.1,
        parameters=[
            {"params": head.parameters(), "learning_rate": 0.5},
            {"params": tail.parameters()},
            {"params": frozen.parameters()},
        ],
    )
    x, y = batches(64)[0]
    fixed = frozen.weight.numpy()
    F.mse_loss(tail(head(frozen(x))), y).backward()
    grad = head.bias.grad.numpy()
    tail_grad = tail.bias.grad.numpy()
    optimizer.step()
    np.testing.assert_array_equal(frozen.weight.numpy(), fixed)
    np.testing.assert_allclose(head.bias.numpy(), -0.05 * grad, rtol=1e-5)
    np.testing.assert_allclose(tail.bias.numpy(), -0.1 * tail_grad, rtol=1e-5)
    assert tail.weight.shape == list(weight.shape)


@pytest.mark.parametrize("reduce", [True, False])
def test_a_gradient_penalty_has_its_second_derivative(reduce: bool) -> None:
    net = nn.Linear(4, 1)
    x = paddle.to_tensor(X[:8], stop_gradient=False)
    (grad,) = paddle.grad(net(x).sum(), [x], create_graph=True)
    norm = paddle.sqrt(paddle.sum(grad**2, axis=1))
    penalty = (norm - 1) ** 2
    (penalty.mean() if reduce else penalty.sum()).backward()
    w = net.weight.numpy()
    size = np.linalg.norm(w)  # each row's gradient is w
    want = 2 * (size - 1) * w / size * (1 if reduce else 8)
    np.testing.assert_allclose(net.weight.grad.numpy(), want, rtol=1e-4)
