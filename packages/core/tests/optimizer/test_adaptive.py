"""RMSProp and Lamb by their formulas, what is kept and how it is named, settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import optimizer
from proa.errors import InvalidArgumentError

RNG = np.random.RandomState(1)
START = RNG.randn(4, 3)
GRADS = [RNG.randn(4, 3) for _ in range(6)]


def parameter(name: str = "p", dtype: str = "float64") -> Any:
    p = proa.create_parameter([4, 3], dtype, name)
    p.set_value(START)
    return p


def train(output: Any, p: Any, grads: Any = GRADS) -> np.ndarray:
    for g in grads:
        p.grad = proa.to_tensor(g, dtype=p.dtype)
        output.step()
        output.clear_grad()
    result: np.ndarray = p.numpy()
    return result


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rmsprop(momentum: float, centered: bool) -> None:
    p = parameter()
    prop = optimizer.RMSProp(0.01, 0.9, 1e-3, momentum, centered, [p], 0.1)
    got = train(prop, p)
    w = START.copy()
    square, mean, velocity = (np.zeros_like(w) for _ in range(3))
    for grad in GRADS:
        g = grad + 0.1 * w
        square = 0.9 * square + 0.1 * g * g
        mean = 0.9 * mean + 0.1 * g
        spread = square - mean**2 if centered else square
        velocity = momentum * velocity + 0.01 * g / np.sqrt(spread + 1e-3)
        w = w - velocity
    np.testing.assert_allclose(got, w, rtol=1e-10)


@pytest.mark.parametrize("excluded", [False, True])
@pytest.mark.parametrize("always", [False, True])
def test_lamb(excluded: bool, always: bool) -> None:
    p = parameter("w")
    lamb = optimizer.Lamb(
        0.1, 0.05, 0.9, 0.99, 1e-6, [p], always_adapt=always,
        exclude_from_weight_decay_fn=lambda q: excluded and q.name == "w",
    )  # fmt: skip
    got = train(lamb, p)
    decay = 0.0 if excluded else 0.05
    w = START.copy()
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(GRADS, 1):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        r = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.99**t)) + 1e-6) + decay * w
        adapts = always or not excluded
        ratio = np.linalg.norm(w) / np.linalg.norm(r) if adapts else 1.0
        w = w - 0.1 * ratio * r
    np.testing.assert_allclose(got, w, rtol=1e-6)


MAKERS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "SGD": (lambda p: optimizer.SGD(0.1, p), []),
    "Momentum": (lambda p: optimizer.Momentum(0.1, parameters=p), ["velocity"]),
    "Adam": (
        lambda p: optimizer.Adam(0.1, parameters=p),
        ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"],
    ),
    "AdamW": (
        lambda p: optimizer.AdamW(0.1, parameters=p),
        ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"],
    ),
    "Adagrad": (lambda p: optimizer.Adagrad(0.1, parameters=p), ["moment"]),
    "Adamax": (
        lambda p: optimizer.Adamax(0.1, parameters=p),
        ["moment", "inf_norm", "beta1_pow_acc"],
    ),
    "RMSProp": (
        lambda p: optimizer.RMSProp(0.1, parameters=p),
        ["mean_square", "momentum", "mean_grad"],
    ),
    "Adadelta": (
        lambda p: optimizer.Adadelta(0.1, parameters=p),
        ["_avg_squared_grad", "_avg_squared_update"],
    ),
    "Lamb": (
        lambda p: optimizer.Lamb(0.1, parameters=p),
        ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"],
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_state_has_the_names_of_paddle(name: str) -> None:
    make, slots = MAKERS[name]
    result = make([parameter("w")])
    assert result.get_opti_var_name_list() == []
    train(result, result._parameter_list[0], GRADS[:3])
    assert result.get_opti_var_name_list() == [f"w_{s}_0" for s in slots]
    state = result.state_dict()
    for slot in slots:
        power = slot.endswith("pow_acc")
        assert state[f"w_{slot}_0"].shape == ([1] if power else [4, 3])
    if "beta1_pow_acc" in slots:
        np.testing.assert_allclose(state["w_beta1_pow_acc_0"].item(), 0.9**4, rtol=1e-6)


@pytest.mark.parametrize("steps", [1, 7, 30_000, 10**6])
def test_step_counts_are_derived_from_beta_powers(steps: int) -> None:
    adam = optimizer.Adam(0.1, parameters=[parameter("w")])
    train(adam, adam._parameter_list[0], GRADS[:1])
    adam._state["w"]["step"] = steps
    again = optimizer.Adam(0.1, parameters=[parameter("w")])
    again.set_state_dict(adam.state_dict())
    count = again._state["w"]["step"]
    assert count == steps if steps < 10**5 else 0.999**count == 0.999**steps < 1e-30


@pytest.mark.feature("L109")
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_float32_copies_train_as_float32_does(name: str, dtype: str) -> None:
    make, slots = MAKERS[name]
    low, full = parameter("low", dtype), parameter("full", "float32")
    full.set_value(low.astype("float32"))
    ours, reference = make([low]), make([full])
    ours._multi_precision = True
    grads = [proa.to_tensor(g).astype(dtype).astype("float32").numpy() for g in GRADS]
    train(ours, low, grads)
    train(reference, full, grads)
    state = ours.state_dict()
    assert low.dtype.name == dtype
    np.testing.assert_array_equal(state["master_weights"]["low"].numpy(), full.numpy())
    expected = full.astype(dtype).astype("float32")
    np.testing.assert_array_equal(low.astype("float32").numpy(), expected.numpy())
    assert {state[f"low_{s}_0"].dtype.name for s in slots} <= {"float32"}


@pytest.mark.feature("L109")
def test_small_steps_are_not_lost_with_float32_copies() -> None:
    low = proa.create_parameter([1], "bfloat16", "low")
    low.set_value([1.0])
    result = optimizer.AdamW(
        1e-4, parameters=[low], weight_decay=1.0, multi_precision=True
    )
    for _ in range(1000):
        low.grad = proa.zeros([1], "bfloat16")
        result.step()
    # Decay by 1 - 1e-4 a thousand times; steps of bfloat16 near 1 are 2 ** -8.
    np.testing.assert_allclose(low.item(), (1 - 1e-4) ** 1000, rtol=2**-8)
    again = optimizer.AdamW(parameters=[low], multi_precision=True)
    again.set_state_dict(result.state_dict())
    assert again.state_dict()["master_weights"]["low"].dtype.name == "float32"
    np.testing.assert_allclose(again._masters["low"].item(), 0.9048, rtol=1e-3)


@pytest.mark.feature("L141")
@pytest.mark.feature("L113")
@pytest.mark.parametrize("name", MAKERS)
def test_pure_bfloat16(name: str) -> None:
    make, slots = MAKERS[name]
    p = parameter("w", "bfloat16")
    result = make([p])
    train(result, p, GRADS[:1])
    state = result.state_dict()
    moments = [s for s in slots if not s.endswith("pow_acc")]
    assert {state[f"w_{s}_0"].dtype.name for s in moments} <= {"bfloat16"}
    reference = parameter("r", "float32")
    train(make([reference]), reference, GRADS[:1])
    np.testing.assert_allclose(
        p.astype("float32").numpy(), reference.numpy(), rtol=0.02, atol=0.02
    )


def test_gradients_can_be_set() -> None:
    a, b = parameter("a"), parameter("b")
    result = optimizer.SGD(
        0.5, [{"params": [a]}, {"params": [b], "learning_rate": 0.1}]
    )
    ones = proa.ones([4, 3], "float64")
    assert result.apply_gradients([(a, ones), (b, ones), (a, None)]) == []
    np.testing.assert_allclose(a.numpy(), START - 0.5)
    np.testing.assert_allclose(b.numpy(), START - 0.05)


@pytest.mark.feature("L112")
def test_decay_can_be_added_to_gradients() -> None:
    a, b = parameter("a"), parameter("b")
    a.regularizer = proa.regularizer.L1Decay(0.5)
    result = optimizer.SGD(0.1, [a, b])
    zero = proa.zeros([4, 3], "float64")
    pairs = result.append_regularization_ops(
        [(a, zero), (b, zero), (b, None)], proa.regularizer.L2Decay(0.2)
    )
    np.testing.assert_allclose(pairs[0][1].numpy(), 0.5 * np.sign(START))
    np.testing.assert_allclose(pairs[1][1].numpy(), 0.2 * START)
    assert pairs[2] == (b, None)


def test_adamw_adds_a_parameters_own_penalty_to_its_gradient() -> None:
    p, q = parameter("p"), parameter("q")
    p.regularizer = proa.regularizer.L2Decay(0.3)
    train(optimizer.AdamW(0.1, parameters=[p], weight_decay=0.0), p)
    adam = optimizer.Adam(0.1, parameters=[q], weight_decay=0.3)
    np.testing.assert_allclose(p.numpy(), train(adam, q), rtol=1e-12)


def test_minimize_takes_some_parameters() -> None:
    a, b, c = (parameter(n) for n in "abc")
    result = optimizer.SGD(1.0, [a, b, c])
    loss = (a + b + c).sum()
    _, pairs = result.minimize(loss, parameters=[a, b], no_grad_set={b})
    assert [p.name for p, _ in pairs] == ["a"]
    np.testing.assert_allclose(a.numpy(), START - 1)
    np.testing.assert_allclose(b.numpy(), START)


def test_schedulers_can_be_set() -> None:
    new_optimizer: optimizer.Optimizer = optimizer.SGD(1.0, [parameter()])
    new_optimizer.set_lr_scheduler(optimizer.lr.StepDecay(0.5, 1, 0.1))
    assert new_optimizer.get_lr() == 0.5
    with pytest.raises(InvalidArgumentError, match="expected an LRScheduler"):
        new_optimizer.set_lr_scheduler(0.1)  # type: ignore[arg-type]  # on purpose
    assert optimizer.SGD(proa.to_tensor(0.25), [parameter()]).get_lr() == 0.25  # type: ignore[arg-type]  # a tensor


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: optimizer.RMSProp(0.1, 1.0, parameters=[]), r"rho must be in"),
        (lambda: optimizer.RMSProp(0.1, momentum=-1, parameters=[]), "momentum must"),
        (lambda: optimizer.Adagrad(0.1, -1.0, parameters=[]), "epsilon must not"),
        (lambda: optimizer.Adamax(0.1, 2.0, parameters=[]), "beta1 must be in"),
        (lambda: optimizer.Lamb(0.1, beta2=1.0, parameters=[]), "beta2 must be in"),
        (lambda: optimizer.Adadelta(0.1, rho=-1.0, parameters=[]), "rho must be in"),
    ],
)
def test_invalid_settings_are_rejected(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        make()
