"""GradScaler: scaling, steps left out, the scale's course, settings and state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import amp, nn, optimizer
from proa.errors import InvalidArgumentError, PreconditionNotMetError


def setting() -> tuple[Any, Any]:
    p = proa.create_parameter([2], "float32")
    p.set_value([1.0, 2.0])
    return p, optimizer.SGD(0.1, [p])


def loss_of(p: Any, factor: float = 1.0) -> Any:
    return (p * factor).sum()


def test_defaults_are_those_of_paddle_2_1() -> None:
    scaler = amp.GradScaler()
    assert scaler.is_enable()
    assert scaler.is_use_dynamic_loss_scaling()
    assert scaler.get_init_loss_scaling() == 32768.0
    assert (scaler.get_incr_ratio(), scaler.get_decr_ratio()) == (2.0, 0.5)
    assert scaler.get_incr_every_n_steps() == 1000
    assert scaler.get_decr_every_n_nan_or_inf() == 2


@pytest.mark.parametrize("by", ["step", "minimize", "unscale"])
def test_a_step_is_that_of_the_plain_loss(by: str) -> None:
    p, result = setting()
    scaler = amp.GradScaler(init_loss_scaling=1024.0)
    scaled = scaler.scale(loss_of(p, 3.0))
    assert scaled.item() == 1024 * 9
    scaled.backward()
    if by == "minimize":
        scaler.minimize(result, scaled)
    else:
        if by == "unscale":
            scaler.unscale_(result)
            assert p.grad.tolist() == [3, 3]
        scaler.step(result)
        scaler.update()
    np.testing.assert_allclose(p.numpy(), [0.7, 1.7], rtol=1e-6)


def run(scaler: Any, p: Any, result: Any, factor: float) -> float:
    scaler.scale(loss_of(p, factor)).backward()
    scaler.step(result)
    scaler.update()
    result.clear_grad()
    scale: float = scaler.state_dict()["scale"]
    return scale


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_bad_steps_are_left_out_and_the_scale_falls(bad: float) -> None:
    p, result = setting()
    scaler = amp.GradScaler(
        init_loss_scaling=8.0, incr_every_n_steps=3, decr_every_n_nan_or_inf=2
    )
    before = p.numpy().copy()
    assert [run(scaler, p, result, bad) for _ in range(4)] == [8, 4, 4, 2]
    np.testing.assert_array_equal(p.numpy(), before)
    assert [run(scaler, p, result, 1.0) for _ in range(7)] == [2, 2, 4, 4, 4, 8, 8]
    assert run(scaler, p, result, bad) == 8
    assert [run(scaler, p, result, 1.0) for _ in range(3)] == [8, 8, 16]
    assert (p.numpy() < before).all()


def test_the_scale_does_not_fall_below_one() -> None:
    p, result = setting()
    scaler = amp.GradScaler(init_loss_scaling=1.5, decr_every_n_nan_or_inf=1)
    assert [run(scaler, p, result, float("inf")) for _ in range(3)] == [1, 1, 1]


def test_a_fixed_scale_stays() -> None:
    p, result = setting()
    scaler = amp.GradScaler(
        init_loss_scaling=8.0, use_dynamic_loss_scaling=False, incr_every_n_steps=1,
        decr_every_n_nan_or_inf=1,
    )  # fmt: skip
    assert [run(scaler, p, result, f) for f in (1.0, float("inf"), 1.0)] == [8, 8, 8]


def test_a_disabled_scaler_changes_nothing() -> None:
    p, result = setting()
    scaler = amp.GradScaler(enable=False)
    loss = loss_of(p)
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(result)
    scaler.step(result)
    scaler.update()
    np.testing.assert_allclose(p.numpy(), [0.9, 1.9], rtol=1e-6)
    scaler.minimize(result, loss)
    assert scaler.state_dict() == {}
    scaler.load_state_dict({})


def test_clipping_sees_plain_gradients() -> None:
    p, _ = setting()
    result = optimizer.SGD(1.0, [p], grad_clip=nn.ClipGradByGlobalNorm(1.0))
    scaler = amp.GradScaler()
    scaler.scale(loss_of(p, 100.0)).backward()
    scaler.step(result)
    np.testing.assert_allclose(p.numpy(), np.array([1, 2]) - 0.5**0.5, rtol=1e-6)


def test_row_sparse_gradients_stay_sparse() -> None:
    from proa.tensor.row_sparse import parts

    layer = nn.Embedding(5, 2, sparse=True)
    layer.weight.set_value(proa.ones([5, 2]))
    result = optimizer.SGD(1.0, layer.parameters())
    scaler = amp.GradScaler()
    scaler.scale(layer(proa.to_tensor([1, 1])).sum()).backward()
    scaler.unscale_(result)
    assert parts(layer.weight.grad) is not None
    scaler.step(result)
    assert layer.weight.numpy()[:, 0].tolist() == [1, -1, 1, 1, 1]


def test_calls_out_of_order_are_rejected() -> None:
    p, result = setting()
    scaler = amp.GradScaler()
    scaler.scale(loss_of(p)).backward()
    scaler.unscale_(result)
    with pytest.raises(PreconditionNotMetError, match="got a second one"):
        scaler.unscale_(result)
    scaler.step(result)
    with pytest.raises(PreconditionNotMetError, match="before step"):
        scaler.unscale_(result)
    with pytest.raises(PreconditionNotMetError, match="expected update"):
        scaler.step(result)


def test_settings_can_be_changed_and_saved(tmp_path: Any) -> None:
    scaler = amp.AmpScaler()
    scaler.set_init_loss_scaling(64.0)
    scaler.set_incr_ratio(3.0)
    scaler.set_decr_ratio(0.25)
    scaler.set_incr_every_n_steps(5)
    scaler.set_decr_every_n_nan_or_inf(7)
    p, result = setting()
    for _ in range(7):
        run(scaler, p, result, 1.0)
    proa.save(scaler.state_dict(), tmp_path / "scaler")
    again = amp.GradScaler()
    again.load_state_dict(proa.load(tmp_path / "scaler"))
    assert again.state_dict() == scaler.state_dict()
    assert again.get_init_loss_scaling() == 64 * 3
    assert (again.get_incr_ratio(), again.get_decr_ratio()) == (3.0, 0.25)
    assert again.get_incr_every_n_steps() == 5
    assert again.get_decr_every_n_nan_or_inf() == 7
    with pytest.raises(InvalidArgumentError, match="expected a complete state"):
        again.load_state_dict({"scale": 2.0})


@pytest.mark.parametrize(
    "make",
    [
        lambda: amp.GradScaler(init_loss_scaling=0.0),
        lambda: amp.GradScaler(incr_ratio=1.0),
        lambda: amp.GradScaler(decr_ratio=1.0),
        lambda: amp.GradScaler(incr_every_n_steps=0),
        lambda: amp.GradScaler(decr_every_n_nan_or_inf="two"),  # type: ignore[arg-type]
    ],
)
def test_invalid_settings_are_rejected(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="must be"):
        make()
