"""Recurrent networks against a step-by-step computation in NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError
from proa.jit import InputSpec, to_static

BATCH, TIME, INPUT, HIDDEN = 3, 6, 4, 5


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _step(kind: str, p: list[Any], x: Any, state: Any) -> tuple[Any, Any]:
    """One step of a cell with the parameters (w_ih, w_hh, b_ih, b_hh)."""
    h = state[0]
    a, b = x @ p[0].T + p[2], h @ p[1].T + p[3]
    if kind == "LSTM":
        i, f, g, o = np.split(a + b, 4, -1)
        c = _sigmoid(f) * state[1] + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        return h, (h, c)
    if kind == "GRU":
        (r, z, n), (rr, zz, nn_) = np.split(a, 3, -1), np.split(b, 3, -1)
        c = np.tanh(n + _sigmoid(r + rr) * nn_)
        z = _sigmoid(z + zz)
        h = z * h + (1 - z) * c
        return h, (h,)
    h = np.tanh(a + b) if kind == "SimpleRNN" else np.maximum(a + b, 0)
    return h, (h,)


def _layer(
    kind: str, p: list[Any], x: Any, state: Any, length: Any, reverse: bool
) -> tuple[Any, Any]:
    """x (batch, time, input) through one layer and direction."""
    out = np.zeros((*x.shape[:2], p[1].shape[1]))
    final = [np.array(s) for s in state]
    for b in range(x.shape[0]):
        s = tuple(part[b] for part in state)
        steps = range(length[b])
        for t in reversed(steps) if reverse else steps:
            out[b, t], s = _step(kind, p, x[b, t], s)
        for part, value in zip(final, s, strict=True):
            part[b] = value
    return out, final


def _reference(net: Any, kind: str, x: Any, states: Any, length: Any) -> Any:
    finals = []
    for i in range(net.num_layers):
        sides = []
        for d in range(net.num_directions):
            end = f"l{i}" + ("_reverse" if d else "")
            p = [
                getattr(net, f"{n}_{end}").numpy()
                for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            own = [s[len(finals)] for s in states]
            y, final = _layer(kind, p, x, own, length, bool(d))
            sides.append(y)
            finals.append(final)
        x = np.concatenate(sides, -1)
    return x, [np.stack(part) for part in zip(*finals, strict=True)]


def _network(kind: str, **options: Any) -> Any:
    if kind == "relu":
        return nn.SimpleRNN(INPUT, HIDDEN, activation="relu", **options)
    return getattr(nn, kind)(INPUT, HIDDEN, **options)


def _random(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


KINDS = ["SimpleRNN", "relu", "LSTM", "GRU"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers, direction", [(1, "forward"), (2, "bidirect")])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("with_length", [False, True])
def test_networks_equal_their_steps(
    kind: str, layers: int, direction: str, time_major: bool, with_length: bool
) -> None:
    net = _network(kind, num_layers=layers, direction=direction, time_major=time_major)
    x = _random(BATCH, TIME, INPUT)
    count = layers * net.num_directions
    states = [_random(count, BATCH, HIDDEN + k)[..., :HIDDEN] for k in range(2)]
    states = states[: net.state_components]
    length = [TIME, 1, 4] if with_length else [TIME] * BATCH
    given = tuple(map(proa.to_tensor, states))
    y, final = net(
        proa.to_tensor(x.swapaxes(0, 1) if time_major else x),
        given if kind == "LSTM" else given[0],
        proa.to_tensor(length) if with_length else None,
    )
    want, want_final = _reference(net, kind, x, states, length)
    got = y.numpy().swapaxes(0, 1) if time_major else y.numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    final = final if kind == "LSTM" else (final,)
    for a, b in zip(final, want_final, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_states_default_to_zeros(kind: str) -> None:
    net = _network(kind, num_layers=2)
    x = proa.to_tensor(_random(BATCH, TIME, INPUT))
    zero = proa.zeros([2, BATCH, HIDDEN])
    y, _ = net(x)
    z, _ = net(x, (zero, zero) if kind == "LSTM" else zero)
    np.testing.assert_array_equal(y.numpy(), z.numpy())


def _loss_of(net: Any, x: Any, length: Any) -> Any:
    y, final = net(x, None, length)
    parts = final if isinstance(final, tuple) else (final,)
    weights = proa.to_tensor(np.linspace(-1, 1, y.size).reshape(y.shape))
    return (y * weights).sum() + sum((s * s).sum() for s in parts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", ["forward", "bidirect"])
@pytest.mark.parametrize("with_length", [False, True])
def test_gradients_equal_finite_differences(
    kind: str, direction: str, with_length: bool
) -> None:
    proa.seed(7)
    net = _network(kind, direction=direction).astype("float64")
    value = np.random.default_rng(3).normal(size=(2, 4, INPUT))
    x = proa.to_tensor(value, stop_gradient=False)
    length = proa.to_tensor([4, 2]) if with_length else None
    _loss_of(net, x, length).backward()
    rng = np.random.default_rng(0)
    for p in [x, *net.parameters()]:
        base, delta = p.numpy().copy(), rng.normal(size=p.shape)
        sides = []
        for e in (1e-6, -1e-6):
            with proa.no_grad():
                p.set_value(base + e * delta)
                sides.append(float(_loss_of(net, x, length)))
                p.set_value(base)
        numeric = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(
            (p.grad.numpy() * delta).sum(), numeric, rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("kind", ["SimpleRNNCell", "LSTMCell", "GRUCell"])
def test_a_cell_is_one_step_of_its_network(kind: str) -> None:
    cell = getattr(nn, kind)(INPUT, HIDDEN)
    x = _random(BATCH, INPUT)
    out, states = cell(proa.to_tensor(x))
    p = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
    zero = np.zeros((BATCH, HIDDEN))
    name = kind.removesuffix("Cell")
    want, final = _step(name, [q.numpy() for q in p], x, (zero, zero))
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-5, atol=1e-6)
    states = states if isinstance(states, tuple) else (states,)
    for a, b in zip(states, final, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-6)


def test_parameters_have_the_names_of_saved_models() -> None:
    net = nn.GRU(INPUT, HIDDEN, num_layers=2, direction="bidirectional")
    flat = [
        f"{name}_l{i}{end}"
        for i in range(2)
        for end in ("", "_reverse")
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    assert [n for n, _ in net.named_parameters()] == flat
    state = net.state_dict()
    assert list(state)[:16] == flat
    assert state["1.cell_bw.weight_hh"] is state["weight_hh_l1_reverse"]
    assert net.weight_ih_l1.shape == [3 * HIDDEN, 2 * HIDDEN]
    assert "0.cell.bias_hh" in nn.LSTM(2, 2).state_dict()


@pytest.mark.feature("L079")
def test_making_networks_reports_no_repeated_parameters() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nets = [nn.LSTM(INPUT, HIDDEN, 2, "bidirect") for _ in range(2)]
        names = [p.name for net in nets for p in net.parameters()]
        assert len(set(names)) == len(names) == 32
        nets[0].flatten_parameters()
        nets[0](proa.ones([1, 2, INPUT]))


def test_a_cell_of_ones_own_runs_along_the_sequence() -> None:
    class Counter(nn.RNNCellBase):
        @property
        def state_shape(self) -> Any:
            return (1,)

        def forward(self, inputs: Any, states: Any, add: float = 0.0) -> Any:
            total = states + inputs.sum(-1, keepdim=True) + add
            return total, total

    x = _random(2, 3, 4)
    for reverse in (False, True):
        y, final = nn.RNN(Counter(), is_reverse=reverse)(proa.to_tensor(x), add=1.0)
        line = x.sum(-1)[:, ::-1] if reverse else x.sum(-1)
        want = (line + 1).cumsum(1)
        np.testing.assert_allclose(final.numpy()[:, 0], want[:, -1], rtol=1e-5)
        want = want[:, ::-1] if reverse else want
        np.testing.assert_allclose(y.numpy()[..., 0], want, rtol=1e-5)


def test_dropout_acts_between_layers_in_training_alone() -> None:
    net = nn.LSTM(INPUT, HIDDEN, num_layers=2, dropout=0.5)
    x = proa.to_tensor(_random(BATCH, TIME, INPUT))
    assert not np.array_equal(net(x)[0].numpy(), net(x)[0].numpy())
    net.eval()
    np.testing.assert_array_equal(net(x)[0].numpy(), net(x)[0].numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_networks_equal_eager_ones(kind: str) -> None:
    net = _network(kind, direction="bidirect")
    x = _random(BATCH, TIME, INPUT)
    want = net(proa.to_tensor(x))[0].numpy()
    recorded = to_static(net, input_spec=[InputSpec([None, None, INPUT], "float32")])
    got = recorded(proa.to_tensor(x))[0].numpy()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def _penalty(net: Any, x: Any, length: Any) -> Any:
    """A loss of first derivatives, as a gradient penalty is."""
    out, _ = net(x, None, length)
    inner = [x, *net.parameters()]
    grads = proa.grad((out * out * out).sum(), inner, create_graph=True)
    return sum((g * g).sum() for g in grads)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_length", [False, True])
def test_second_derivatives_equal_finite_differences(
    kind: str, with_length: bool
) -> None:
    proa.seed(11)
    net = _network(kind, direction="bidirect").astype("float64")
    value = np.random.default_rng(3).normal(size=(2, 3, INPUT))
    x = proa.to_tensor(value, stop_gradient=False)
    length = proa.to_tensor([3, 2]) if with_length else None
    _penalty(net, x, length).backward()
    rng = np.random.default_rng(0)
    for p in [x, *net.parameters()]:
        base, delta = p.numpy().copy(), rng.normal(size=p.shape)
        sides = []
        for e in (1e-6, -1e-6):
            p.set_value(base + e * delta)
            sides.append(_penalty(net, x, length).item())
        p.set_value(base)
        numeric = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(
            (p.grad.numpy() * delta).sum(), numeric, rtol=1e-5, atol=1e-5
        )


def test_a_state_that_depends_on_the_weight_counts_once() -> None:
    proa.seed(2)
    net = nn.GRU(INPUT, HIDDEN).astype("float64")
    x = proa.to_tensor(np.random.default_rng(1).normal(size=(2, 4, INPUT)))
    w = net.weight_hh_l0
    whole = net(x)[0].sum()
    first, state = net(x[:, :2])
    parts = first.sum() + net(x[:, 2:], state)[0].sum()
    want, got = (
        proa.grad(loss, [w], create_graph=True)[0].numpy() for loss in (whole, parts)
    )
    np.testing.assert_allclose(got, want, rtol=1e-10)


class _OwnLSTM(nn.LSTMCell):
    """Runs step by step, since it might compute anything."""


@pytest.mark.parametrize("reverse", [False, True])
def test_the_operator_equals_the_cell_step_by_step(reverse: bool) -> None:
    fused = nn.LSTMCell(INPUT, HIDDEN)
    own = _OwnLSTM(INPUT, HIDDEN)
    own.set_state_dict(fused.state_dict())
    assert fused.runs_fused and not own.runs_fused
    x, length = proa.to_tensor(_random(BATCH, TIME, INPUT)), proa.to_tensor([6, 2, 0])
    results = [
        nn.RNN(cell, is_reverse=reverse)(x, sequence_length=length)
        for cell in (fused, own)
    ]
    (y, (h, c)), (y2, (h2, c2)) = results
    for a, b in [(y, y2), (h, h2), (c, c2)]:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    fused.register_forward_post_hook(lambda layer, inputs, outputs: None)
    assert not fused.runs_fused


def test_fixed_weights_and_missing_biases() -> None:
    net = nn.GRU(INPUT, HIDDEN, bias_ih_attr=False, bias_hh_attr=False)
    assert [n for n, p in net.named_parameters() if not p.stop_gradient] == [
        "weight_ih_l0", "weight_hh_l0",
    ]  # fmt: skip
    cell = nn.SimpleRNNCell(2, 3, weight_ih_attr=False, bias_ih_attr=False)
    np.testing.assert_array_equal(cell.weight_ih.numpy(), np.ones((3, 2)))
    np.testing.assert_array_equal(cell.bias_ih.numpy(), np.zeros(3))
    assert cell.weight_ih.stop_gradient


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"\[LSTM\] direction must be"):
        nn.LSTM(2, 3, direction="sideways")
    with pytest.raises(InvalidArgumentError, match="hidden_size must be"):
        nn.GRUCell(2, 0)
    with pytest.raises(InvalidArgumentError, match="activation must be tanh or relu"):
        nn.SimpleRNN(2, 3, activation="gelu")
    with pytest.raises(ShapeError, match="last axis of inputs must be 2"):
        nn.GRU(2, 3)(proa.ones([1, 2, 5]))
    with pytest.raises(ShapeError, match=r"initial_states must be \(1, batch, 3\)"):
        nn.GRU(2, 3)(proa.ones([1, 2, 2]), proa.ones([2, 1, 3]))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_a_recorded_second_derivative_is_the_eager_one(kind):
    net = getattr(proa.nn, kind)(3, 4)

    def penalty(x):
        x = x * 1.0
        x.stop_gradient = False
        out = net(x)[0].square().sum()
        (slope,) = proa.grad(out, x, create_graph=True)
        loss = slope.square().sum()
        loss.backward()
        return loss

    x = proa.to_tensor(np.random.default_rng(0).standard_normal((2, 5, 3)), "float32")
    found = []
    for run in (penalty, proa.jit.to_static(penalty)):
        loss = run(x)
        found.append([loss.item(), *(p.grad.numpy() for p in net.parameters())])
        net.clear_gradients()
    for eager, recorded in zip(*found, strict=True):
        np.testing.assert_allclose(recorded, eager, rtol=1e-6)
