"""Optimizers whose recorded steps compute in 16 bits, with scaled losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn, optimizer
from proa.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from proa.jit import to_static
from proa.static import amp
from proa.static.amp import bf16

INF = float("inf")
RNG = np.random.default_rng(3)
X = RNG.normal(size=(16, 6)).astype("float32")
Y = RNG.normal(size=(16, 2)).astype("float32")


def _weight(values: Any = (1.0, 2.0)) -> Any:
    p = proa.create_parameter([len(values)], "float32")
    p.set_value(np.asarray(values, "float32"))
    return p


def _steps(result: Any, p: Any, recorded: bool) -> Callable[[float], float]:
    """A step on sum(p * factor); the scale after it."""

    def step(factor: Any) -> Any:
        loss = (p * factor).sum()
        result.minimize(loss)
        return loss

    run = to_static(step) if recorded else step

    def by(factor: float) -> float:
        run(proa.to_tensor(np.float32(factor)))
        scale: float = result.get_loss_scaling().item()
        return scale

    return by


@pytest.mark.feature("L123")
def test_the_package_exports_all_interfaces() -> None:
    names = {
        "AutoMixedPrecisionLists", "CustomOpLists", "bf16", "cast_model_to_fp16",
        "cast_parameters_to_fp16", "decorate", "fp16_guard",
    }  # fmt: skip
    low = {
        "AutoMixedPrecisionListsBF16", "bf16_guard", "cast_model_to_bf16",
        "cast_parameters_to_bf16", "convert_float_to_uint16", "decorate_bf16",
        "rewrite_program_bf16",
    }  # fmt: skip
    assert names <= set(amp.__all__) and low <= set(bf16.__all__)
    assert all(hasattr(amp, n) for n in names) and all(hasattr(bf16, n) for n in low)


@pytest.mark.feature("L123")
@pytest.mark.parametrize("recorded", [False, True])
def test_the_scale_falls_and_grows_by_how_steps_go(recorded: bool) -> None:
    p = _weight()
    result = amp.decorate(
        optimizer.SGD(0.1, [p]), init_loss_scaling=8.0, incr_every_n_steps=3,
        decr_every_n_nan_or_inf=2, decr_ratio=0.5,
    )  # fmt: skip
    run = _steps(result, p, recorded)
    assert [run(INF) for _ in range(4)] == [8, 4, 4, 2]
    assert p.tolist() == [1, 2]
    assert [run(1.0) for _ in range(7)] == [2, 2, 4, 4, 4, 8, 8]
    assert run(INF) == 8
    assert [run(1.0) for _ in range(3)] == [8, 8, 16]
    assert [run(f) for f in (INF, 1.0, float("nan"), INF)] == [16, 16, 16, 8]
    np.testing.assert_allclose(p.numpy(), [-0.1, 0.9], atol=1e-6)  # 11 steps of 0.1


@pytest.mark.feature("L123")
@pytest.mark.parametrize("recorded", [False, True])
def test_an_infinite_gradient_steps_as_zeros(recorded: bool) -> None:
    p = _weight()
    result = amp.decorate(optimizer.Momentum(0.1, 0.5, [p], weight_decay=0.1))
    run = _steps(result, p, recorded)
    weights, velocity = np.array([1.0, 2.0]), np.zeros(2)
    for factor, grad in ((3.0, 3.0), (INF, 0.0), (INF, 0.0), (1.0, 1.0)):
        run(factor)
        velocity = 0.5 * velocity + grad + 0.1 * weights
        weights = weights - 0.1 * velocity
        np.testing.assert_allclose(p.numpy(), weights, rtol=1e-6)
    assert result.get_loss_scaling().item() == pytest.approx(2**15 * 0.8)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    ("first", "dynamic", "after"), [(1.5, True, 1.0), (8.0, False, 8.0), (1, False, 1)]
)
def test_a_scale_stays_above_one_and_if_fixed_as_it_is(
    recorded: bool, first: float, dynamic: bool, after: float
) -> None:
    p = _weight()
    result = amp.decorate(
        optimizer.SGD(0.1, [p]), init_loss_scaling=first, decr_ratio=0.5,
        use_dynamic_loss_scaling=dynamic, decr_every_n_nan_or_inf=1,
    )  # fmt: skip
    run = _steps(result, p, recorded)
    run(1.0)
    np.testing.assert_allclose(p.numpy(), [0.9, 1.9], rtol=1e-6)
    assert [run(INF) for _ in range(2)] == [after] * 2


def test_the_parts_of_a_step_can_be_called_alone() -> None:
    p, q = _weight(), _weight()
    result = amp.decorate(optimizer.SGD(0.1, [p, q]), init_loss_scaling=4.0)
    pairs = result.backward((p * q * 3).sum(), no_grad_set={q})
    assert result.get_scaled_loss().item() == 4 * 15
    assert [(x is p, g.tolist()) for x, g in pairs] == [(True, [12, 24])]
    assert p.grad is None
    assert result.apply_gradients(pairs) == []
    np.testing.assert_allclose(p.numpy(), [0.7, 1.4], rtol=1e-6)
    _, pairs = result.minimize((p * 2).sum(), parameter_list=[p])
    assert pairs[0][1].tolist() == [8, 8]
    np.testing.assert_allclose(p.numpy(), [0.5, 1.2], rtol=1e-6)


# --- what a recorded step computes in


def _net() -> Any:
    proa.seed(1)
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))


def _train(wrap: Any, steps: int = 40, guard: bool = False) -> tuple[Any, Any, Any]:
    """(losses, network, recorded step) of a regression."""
    net = _net()
    result = wrap(optimizer.Momentum(0.05, 0.9, net.parameters()))

    @to_static
    def step(x: Any, y: Any) -> Any:
        with amp.fp16_guard():
            hidden = net[1](net[0](x))
        loss = nn.functional.mse_loss(net[2](hidden), y)
        result.minimize(loss)
        if isinstance(result, optimizer.Optimizer):
            result.clear_grad()
        return loss

    x, y = proa.to_tensor(X), proa.to_tensor(Y)
    losses = [step(x, y).item() for _ in range(steps)]
    return np.array(losses), net, step


def _computed_in(program: Any, dtype: str) -> list[str]:
    """Ops that make a matrix product of that dtype, in order."""
    products = ("linear", "linear_grad_weight", "matmul")
    return [
        n.op
        for n in program.main.nodes
        if n.op in products and n.outputs[0].dtype == dtype
    ]


@pytest.mark.feature("L118")
@pytest.mark.feature("L123")
@pytest.mark.parametrize(
    ("wrap", "low"),
    [
        (amp.decorate, "float16"),
        (lambda o: amp.decorate(o, level="O2", use_amp_guard=False), "float16"),
        (lambda o: amp.decorate(o, dtype="bfloat16"), "bfloat16"),
        (bf16.decorate_bf16, "bfloat16"),
    ],
)
def test_a_recorded_step_trains_in_16_bits(wrap: Any, low: str) -> None:
    want, plain, _ = _train(lambda o: o)
    got, net, step = _train(wrap)
    near = {"float16": 1e-2, "bfloat16": 8e-2}[low]  # 20 units in the last place
    np.testing.assert_allclose(got, want, rtol=near)
    assert (got != want).any() and got[-1] < got[0] / 4
    # Both layers, and three of their four gradients: the input takes none.
    program = step.main_program
    assert len(_computed_in(program, low)) == 5, program
    assert _computed_in(program, "float32") == []
    assert {p.dtype.name for p in net.parameters()} == {"float32"}
    np.testing.assert_allclose(
        net[0].weight.numpy(), plain[0].weight.numpy(), atol=4 * near
    )


@pytest.mark.feature("L123")
def test_in_16_bits_small_gradients_are_there_because_of_the_scale() -> None:
    def trained(scale: float) -> Any:
        layer = nn.Linear(2, 1, bias_attr=False)
        layer.weight.set_value(np.zeros([2, 1], "float32"))
        result = amp.decorate(
            optimizer.SGD(2.0**28, layer.parameters()), init_loss_scaling=scale,
            use_dynamic_loss_scaling=False,
        )  # fmt: skip

        @to_static
        def step(x: Any) -> None:
            result.minimize(layer(x).sum() * 2.0**-28)

        step(proa.to_tensor([[1.0, 2.0]]))
        return layer.weight.tolist()

    assert trained(1.0) == [[0], [0]]  # 2**-28 is nothing in float16
    assert trained(2.0**15) == [[-1], [-2]]


@pytest.mark.feature("L123")
def test_at_level_2_the_guard_selects_ops_for_16_bits() -> None:
    want, _, _ = _train(lambda o: o)
    got, _, step = _train(lambda o: amp.decorate(o, use_pure_fp16=True))
    np.testing.assert_allclose(got, want, rtol=1e-2)
    # The first layer, and its weight's gradient.
    assert len(_computed_in(step.main_program, "float16")) == 2
    assert len(_computed_in(step.main_program, "float32")) == 3


def test_lists_move_operators() -> None:
    lists = amp.CustomOpLists(custom_black_list={"linear"})
    _, _, step = _train(lambda o: amp.decorate(o, lists), steps=1)
    assert "linear" not in _computed_in(step.main_program, "float16")
    named = amp.CustomOpLists(custom_black_varnames={"relu_0"})
    with pytest.raises(UnimplementedError, match=r"must name operators, got .*relu_0"):
        _train(lambda o: amp.decorate(o, named))


def test_a_step_is_retraced_once_and_then_cached() -> None:
    p, calls = _weight(), []
    result = amp.decorate(optimizer.SGD(0.1, [p]), use_dynamic_loss_scaling=False)

    @to_static
    def step(x: Any) -> None:
        calls.append(x)
        result.minimize((p * x).sum())

    for _ in range(3):
        step(proa.ones([2]))
    assert len(calls) == 2
    np.testing.assert_allclose(p.numpy(), [0.7, 1.7], rtol=1e-6)


@pytest.mark.feature("L123")
def test_weights_are_held_in_16_bits_and_trained_as_float32_copies() -> None:
    net = _net()
    sgd = optimizer.SGD(2.0**-12, net.parameters(), multi_precision=True)
    result = amp.decorate(sgd, use_pure_fp16=True, use_fp16_guard=False)
    program = proa.jit.TracedLayer.trace(net, [proa.to_tensor(X)])[1].program
    result.amp_init(None, test_program=program, use_fp16_test=True)
    assert [p.dtype.name for p in net.parameters()] == ["float16", "float32"] * 2
    assert _computed_in(program, "float16") == ["linear"] * 2
    first = net[2].weight.numpy().astype("float32")

    @to_static
    def step(x: Any) -> None:
        result.minimize(net(x).mean())

    for _ in range(4):
        step(proa.to_tensor(X))
    masters = sgd.state_dict()["master_weights"]
    assert len(masters) == 2 and net[2].weight.dtype == "float16"
    hidden = np.maximum(X @ net[0].weight.numpy().astype("f4") + net[0].bias.numpy(), 0)
    grad = np.repeat(hidden.sum(0)[:, None] / (2 * len(X)), 2, 1)
    moved = (masters[net[2].weight.name].numpy() - first) * 2.0**10  # 4 steps
    np.testing.assert_allclose(moved, -grad, rtol=2e-2, atol=2e-3)
    np.testing.assert_array_equal(
        net[2].weight.numpy(), masters[net[2].weight.name].numpy().astype("float16")
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"incr_ratio": 1.0}, "incr_ratio must be above 1, got 1.0"),
        ({"decr_ratio": 1.0}, "decr_ratio must be above 0 and below 1, got 1.0"),
        ({"incr_every_n_steps": 0}, "incr_every_n_steps must be above 0, got 0"),
        ({"level": "O3"}, "level must be one of O0, O1, O2, got 'O3'"),
        ({"dtype": "float32"}, "dtype must be float16 or bfloat16"),
    ],
)
def test_invalid_arguments_are_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        amp.decorate(optimizer.SGD(0.1, [_weight()]), **change)
    with pytest.raises(InvalidTypeError, match="optimizer must be an Optimizer, got N"):
        amp.decorate(None)
    with pytest.raises(InvalidArgumentError, match="must be a recorded Program or Non"):
        amp.decorate(optimizer.SGD(0.1, [_weight()])).amp_init(test_program=3)
