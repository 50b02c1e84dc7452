"""Optimizers against torch step by step; groups, decay, clipping, state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError

from ..torch_reference import torch

RNG = np.random.RandomState(0)
START = [RNG.randn(4, 3).astype(np.float32), RNG.randn(3).astype(np.float32)]
GRADS = [[RNG.randn(*a.shape).astype(np.float32) for a in START] for _ in range(5)]


def parameters() -> list[Any]:
    results = []
    for a in START:
        p = proa.create_parameter(list(a.shape))
        p.set_value(a)
        results.append(p)
    return results


def take_steps(optimizer: Any, params: list[Any]) -> None:
    for grads in GRADS:
        for p, g in zip(params, grads, strict=True):
            p.grad = proa.to_tensor(g)
        optimizer.step()
        optimizer.clear_grad()


def torch_result(make: Callable[[list[Any]], Any]) -> list[np.ndarray]:
    params = [torch.tensor(a, requires_grad=True) for a in START]
    optimizer = make(params)
    for grads in GRADS:
        for p, g in zip(params, grads, strict=True):
            p.grad = torch.tensor(g)
        optimizer.step()
    return [p.detach().numpy() for p in params]


CASES = {
    "sgd": (lambda p: proa.optimizer.SGD(0.1, p), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd_decay": (
        lambda p: proa.optimizer.SGD(0.1, p, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01),
    ),
    "momentum": (
        lambda p: proa.optimizer.Momentum(0.1, 0.9, p),
        lambda p: torch.optim.SGD(p, 0.1, 0.9),
    ),
    "nesterov": (
        lambda p: proa.optimizer.Momentum(
            0.1, 0.9, p, True, proa.regularizer.L2Decay(0.05)
        ),
        lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True, weight_decay=0.05),
    ),
    "adam": (
        lambda p: proa.optimizer.Adam(0.01, parameters=p),
        lambda p: torch.optim.Adam(p, 0.01),
    ),
    "adam_decay": (
        lambda p: proa.optimizer.Adam(0.01, 0.8, 0.99, 1e-6, p, 0.1),
        lambda p: torch.optim.Adam(p, 0.01, (0.8, 0.99), 1e-6, 0.1),
    ),
    "adamw": (
        lambda p: proa.optimizer.AdamW(0.01, parameters=p, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1),
    ),
    "adagrad": (
        lambda p: proa.optimizer.Adagrad(
            0.1, 1e-6, p, 0.01, initial_accumulator_value=0.1
        ),
        lambda p: torch.optim.Adagrad(
            p, 0.1, weight_decay=0.01, initial_accumulator_value=0.1, eps=1e-6
        ),
    ),
    "adamax": (
        lambda p: proa.optimizer.Adamax(0.01, parameters=p, weight_decay=0.1),
        lambda p: torch.optim.Adamax(p, 0.01, weight_decay=0.1),
    ),
    "adadelta": (
        lambda p: proa.optimizer.Adadelta(0.5, 1e-6, 0.9, p, 0.01),
        lambda p: torch.optim.Adadelta(p, 0.5, 0.9, 1e-6, 0.01),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_steps_follow_torch(name: str) -> None:
    ours, theirs = CASES[name]
    params = parameters()
    take_steps(ours(params), params)
    for p, expected in zip(params, torch_result(theirs), strict=True):
        np.testing.assert_allclose(p.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.feature("L106")
@pytest.mark.parametrize("kind", ["value", "norm", "global"])
def test_clipping(kind: str) -> None:
    clip = {
        "value": nn.ClipGradByValue(0.3),
        "norm": nn.ClipGradByNorm(0.5),
        "global": nn.ClipGradByGlobalNorm(0.5),
    }[kind]
    params = parameters()
    for p, g in zip(params, GRADS[0], strict=True):
        p.grad = proa.to_tensor(g)
    before = [p.grad.numpy().copy() for p in params]
    proa.optimizer.SGD(1.0, params, grad_clip=clip).step()
    total = np.sqrt(sum((g**2).sum() for g in GRADS[0]))
    for p, a, g, grad in zip(params, START, GRADS[0], before, strict=True):
        expected = {
            "value": np.clip(g, -0.3, 0.3),
            "norm": g * min(1, 0.5 / np.linalg.norm(g)),
            "global": g * min(1, 0.5 / total),
        }[kind]
        np.testing.assert_allclose(a - p.numpy(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(p.grad.numpy(), grad)


@pytest.mark.feature("L106")
def test_clipping_is_set_at_the_optimizer_alone() -> None:
    with pytest.raises(TypeError, match="grad_clip"):
        proa.ParamAttr(grad_clip=nn.ClipGradByValue(0.3))
    assert not hasattr(nn, "set_gradient_clip")
    assert not hasattr(nn.Linear(2, 2).weight, "grad_clip")


@pytest.mark.feature("L108")
def test_clipping_zeros_returns_zeros() -> None:
    zero = proa.zeros([3])
    for clip in (nn.ClipGradByNorm(1.0), nn.ClipGradByGlobalNorm(1.0)):
        ((_, g),) = clip([(None, zero)])
        assert g.tolist() == [0, 0, 0]
    assert nn.ClipGradByGlobalNorm(1.0)([]) == []


@pytest.mark.feature("L106")
def test_parameters_may_stay_out_of_clipping_and_decay() -> None:
    attr = nn.ParamAttr(need_clip=False, regularizer=proa.regularizer.L2Decay(0.0))
    p = proa.create_parameter(
        [2], attr=attr, default_initializer=nn.initializer.Constant(1.0)
    )
    p.grad = proa.to_tensor([3.0, 4.0])
    proa.optimizer.SGD(
        1.0, [p], weight_decay=10.0, grad_clip=nn.ClipGradByGlobalNorm(1.0)
    ).step()
    assert p.tolist() == [-2, -3]


@pytest.mark.feature("L112")
def test_l1_decay() -> None:
    (p, _) = parameters()
    p.grad = proa.to_tensor(GRADS[0][0])
    proa.optimizer.SGD(0.1, [p], weight_decay=proa.regularizer.L1Decay(0.5)).step()
    expected = START[0] - 0.1 * (GRADS[0][0] + 0.5 * np.sign(START[0]))
    np.testing.assert_allclose(p.numpy(), expected, rtol=1e-5)


def test_groups_have_settings_of_their_own() -> None:
    a, b = parameters()
    optimizer = proa.optimizer.Momentum(
        0.1, parameters=[
            {"params": [a], "momentum": 0.0},
            {"params": [b], "learning_rate": 0.5, "weight_decay": 0.2},
        ],
    )  # fmt: skip
    take_steps(optimizer, [a, b])
    first = torch_result(lambda p: torch.optim.SGD(p, 0.1))[0]
    second = torch_result(lambda p: torch.optim.SGD(p, 0.05, 0.9, weight_decay=0.2))[1]
    np.testing.assert_allclose(a.numpy(), first, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(b.numpy(), second, rtol=1e-5, atol=1e-6)


def test_settings_of_a_group_are_checked() -> None:
    (a, _) = parameters()
    with pytest.raises(InvalidArgumentError, match="keys must be among"):
        proa.optimizer.SGD(0.1, [{"params": [a], "beta": 1}])


def test_adamw_decays_and_scales_by_parameter() -> None:
    a, b = parameters()
    a.name, b.name = "weight", "bias"
    take_steps(
        proa.optimizer.AdamW(
            0.01, parameters=[a, b], weight_decay=0.5,
            apply_decay_param_fun=lambda name: name == "weight",
            lr_ratio=lambda p: 0.5 if p.name == "bias" else 1.0,
        ),
        [a, b],
    )  # fmt: skip
    first = torch_result(lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.5))[0]
    second = torch_result(lambda p: torch.optim.AdamW(p, 0.005, weight_decay=0.0))[1]
    np.testing.assert_allclose(a.numpy(), first, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(b.numpy(), second, rtol=1e-5, atol=1e-6)


@pytest.mark.feature("L110")
def test_the_learning_rate_can_be_set() -> None:
    (p, _) = parameters()
    optimizer = proa.optimizer.SGD(0.1, [p])
    assert optimizer.get_lr() == 0.1
    optimizer.set_lr(1.0)
    p.grad = proa.ones([4, 3])
    optimizer.step()
    np.testing.assert_allclose(p.numpy(), START[0] - 1, rtol=1e-6)
    scheduled = proa.optimizer.SGD(proa.optimizer.lr.StepDecay(0.1, 1), [p])
    with pytest.raises(PreconditionNotMetError, match="LRScheduler"):
        scheduled.set_lr(1.0)


@pytest.mark.feature("L046")
def test_parameters_without_gradient_are_left_alone() -> None:
    a, b = parameters()
    a.grad = proa.ones([4, 3])
    proa.optimizer.Adam(0.1, parameters=[a, b]).step()
    np.testing.assert_array_equal(b.numpy(), START[1])
    assert not np.array_equal(a.numpy(), START[0])


@pytest.mark.feature("L111")
def test_plain_tensors_can_be_optimized() -> None:
    x = proa.to_tensor([1.0, 2.0], stop_gradient=False)
    optimizer = proa.optimizer.Adam(0.1, parameters=[x])
    for _ in range(200):
        loss = (x * x).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    assert np.abs(x.numpy()).max() < 0.05


@pytest.mark.feature("L113")
def test_accumulators_have_the_dtype_of_the_parameter() -> None:
    p = proa.create_parameter([3], "float64")
    p.grad = proa.ones([3], "float64")
    optimizer = proa.optimizer.Adam(0.1, parameters=[p])
    optimizer.step()
    state = optimizer.state_dict()
    moments = [state[f"{p.name}_moment{i}_0"] for i in (1, 2)]
    assert [v.dtype.name for v in moments] == ["float64", "float64"]


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("sgd", "sgd_decay")])
def test_training_resumes_from_saved_state(name: str, tmp_path: Any) -> None:
    make = CASES[name][0]
    whole = parameters()
    take_steps(make(whole), whole)
    params = parameters()
    for i, p in enumerate(params):
        p.name = f"p{i}"
    first = make(params)
    for grads in GRADS[:2]:
        for p, g in zip(params, grads, strict=True):
            p.grad = proa.to_tensor(g)
        first.step()
    proa.save(first.state_dict(), tmp_path / "x.pdopt")
    second = make(params)
    second.set_state_dict(proa.load(tmp_path / "x.pdopt"))
    for grads in GRADS[2:]:
        for p, g in zip(params, grads, strict=True):
            p.grad = proa.to_tensor(g)
        second.step()
    for p, q in zip(params, whole, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())
    state = first.state_dict()
    if len(state) > len(params):
        last = list(state)[-1]
        del state[last]
        with pytest.raises(NotFoundError, match=last):
            make(params).set_state_dict(state)


@pytest.mark.feature("L048")
def test_gradients_add_up_until_cleared() -> None:
    net = nn.Linear(2, 1)
    x = proa.ones([1, 2])
    net(x).sum().backward()
    net(x).sum().backward()
    assert net.weight.grad.tolist() == [[2], [2]]
    optimizer = proa.optimizer.SGD(0.1, net.parameters())
    optimizer.clear_grad()
    assert net.weight.grad.tolist() == [[0], [0]]
    optimizer.clear_grad(set_to_zero=False)
    assert net.weight.grad is None


def test_minimize_computes_gradients_and_steps() -> None:
    x = proa.to_tensor([3.0], stop_gradient=False)
    optimizer = proa.optimizer.SGD(0.5, [x])
    _, pairs = optimizer.minimize((x * x).sum())
    assert x.item() == 0.0
    assert pairs[0][1].item() == 6.0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: proa.optimizer.SGD(0.1), "parameters must be a list"),
        (lambda: proa.optimizer.SGD("fast", []), "learning_rate must be a number"),
        (lambda: proa.optimizer.SGD(0.1, [1]), "parameters must be tensors"),
        (lambda: proa.optimizer.Adam(0.1, 1.5, parameters=[]), r"beta1 must be in"),
        (lambda: proa.optimizer.SGD(0.1, [], weight_decay="x"), "weight_decay must be"),
    ],
)
def test_invalid_settings_are_rejected(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        make()


@pytest.mark.feature("L107")
def test_sgd_steps_through_very_large_parameters() -> None:
    size = 30_000_001
    p = proa.zeros([size])
    p.stop_gradient = False
    p.grad = proa.ones([size])
    p.grad[-1] = 3.0
    proa.optimizer.SGD(0.5, [p]).step()
    assert p[:2].tolist() == [-0.5, -0.5]
    assert p[-2:].tolist() == [-0.5, -1.5]
    assert p.sum().item() == pytest.approx(-0.5 * (size - 1) - 1.5, rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("SGD", "learning_rate parameters weight_decay grad_clip name"),
        ("Momentum", "learning_rate momentum parameters use_nesterov weight_decay "
         "grad_clip name"),
        ("Adam", "learning_rate beta1 beta2 epsilon parameters weight_decay grad_clip "
         "name lazy_mode"),
        ("AdamW", "learning_rate beta1 beta2 epsilon parameters weight_decay "
         "apply_decay_param_fun grad_clip lazy_mode name"),
        ("Lamb", "learning_rate lamb_weight_decay beta1 beta2 epsilon parameters "
         "grad_clip exclude_from_weight_decay_fn name"),
    ],
)  # fmt: skip
def test_arguments_have_the_order_of_paddle_2_1(kind: str, order: str) -> None:
    import inspect

    names = list(inspect.signature(getattr(proa.optimizer, kind)).parameters)
    assert names[: len(order.split())] == order.split()
