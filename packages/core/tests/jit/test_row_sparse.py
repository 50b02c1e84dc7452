"""Tables with row-sparse gradients train in recorded steps as they do eagerly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import _core, nn, optimizer
from proa.jit import to_static
from proa.tensor.row_sparse import parts

Array = np.ndarray
WIDTH = 5


class Wide(nn.Layer):
    """Two tables; one is looked up twice, so that its gradients are joined."""

    def __init__(self, pad: int | None = None, height: int = 30) -> None:
        super().__init__()
        self.first = nn.Embedding(height, WIDTH, padding_idx=pad, sparse=True)
        self.second = nn.Embedding(height, WIDTH, sparse=True)
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, x: Any, y: Any) -> Any:
        return self.last((self.first(x) * self.second(y) + self.first(y)).sum(1))


def make(pad: int | None, height: int = 30) -> Wide:
    net, rng = Wide(pad, height), np.random.default_rng(1)
    for _, p in net.named_parameters():
        p.set_value(rng.standard_normal(p.shape).astype(np.float32))
    return net


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: optimizer.SGD(0.1, p),
    "sgd with decay": lambda p: optimizer.SGD(0.1, p, weight_decay=0.1),
    "momentum": lambda p: optimizer.Momentum(0.1, parameters=p),
    "adagrad": lambda p: optimizer.Adagrad(0.1, parameters=p),
    "adam": lambda p: optimizer.Adam(0.1, parameters=p),
    "lazy adam": lambda p: optimizer.Adam(0.1, parameters=p, lazy_mode=True),
    "lazy adamw": lambda p: optimizer.AdamW(0.1, parameters=p, lazy_mode=True),
}


def trained(how: str, opt: str, pad: int | None, clear: str = "after") -> Any:
    """State after some steps, the gradients left, and the recording."""
    net = make(pad)
    result = OPTIMIZERS[opt](net.parameters())
    model = to_static(net) if how == "layer" else net

    def step(x: Any, y: Any) -> None:
        if clear == "before":
            result.clear_grad()
        F.mse_loss(model(x, y), proa.ones([4, 3])).backward()
        result.step()
        if clear == "after":
            result.clear_grad()

    run = to_static(step) if how == "step" else step
    rng = np.random.default_rng(2)
    for _ in range(4):  # ids occur more than once
        run(*(proa.to_tensor(rng.integers(0, 12, (4, 6))) for _ in range(2)))
    state = {k: v.numpy() for k, v in net.state_dict().items()}
    return state, [p.grad for p in net.parameters()], run if how == "step" else None


@pytest.mark.feature("L043")
@pytest.mark.parametrize("how", ["step", "layer"])
@pytest.mark.parametrize("opt", OPTIMIZERS)
@pytest.mark.parametrize("pad", [None, 3])
def test_recorded_steps_are_eager_steps(how: str, opt: str, pad: int | None) -> None:
    want, _, _ = trained("eager", opt, pad)
    got, _, _ = trained(how, opt, pad)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.parametrize(("opt", "op"), [("sgd", "sgd_rows_"), ("lazy adam", "adam_")])
def test_the_recorded_step_makes_no_dense_gradient(opt: str, op: str) -> None:
    _, _, run = trained("step", opt, None)
    ops = [node.op for node in run.main_program.main.nodes]
    assert op in ops
    assert "embedding_grad" not in ops


@pytest.mark.parametrize("how", ["step", "layer"])
def test_gradients_that_are_left_hold_rows(how: str) -> None:
    """Cleared before the next step, as many loops do."""
    want, want_grads, _ = trained("eager", "sgd", None, clear="before")
    got, got_grads, _ = trained(how, "sgd", None, clear="before")
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)
    for a, b in zip(got_grads, want_grads, strict=True):
        assert (parts(a) is None) == (parts(b) is None)
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("how", ["step", "layer"])
def test_gradients_add_up_over_steps(how: str) -> None:
    """In a recorded step they are dense then, so that sums have another order."""
    want, _, _ = trained("eager", "sgd", None, clear="never")
    got, _, _ = trained(how, "sgd", None, clear="never")
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("clip", [nn.ClipGradByGlobalNorm, nn.ClipGradByNorm])
def test_clipped_gradients(clip: Any) -> None:
    states = []
    for record in (False, True):
        net = make(None)
        result = optimizer.SGD(0.1, net.parameters(), grad_clip=clip(0.5))

        def step(x: Any, y: Any, net: Any = net, output: Any = result) -> None:
            F.mse_loss(net(x, y), proa.ones([2, 3])).backward()
            output.step()
            output.clear_grad()

        run = to_static(step) if record else step
        for _ in range(2):
            run(proa.to_tensor([[1, 1], [2, 3]]), proa.to_tensor([[4, 1], [4, 4]]))
        states.append({k: v.numpy() for k, v in net.state_dict().items()})
    for name, array in states[0].items():
        np.testing.assert_allclose(states[1][name], array, rtol=1e-5, err_msg=name)


@pytest.mark.feature("L043")
def test_a_recorded_step_takes_no_memory_of_the_tables_size() -> None:
    net = make(None, 100_000)
    adam = optimizer.Adam(parameters=net.parameters(), lazy_mode=True)

    @to_static
    def step(x: Any) -> None:
        net(x, x).sum().backward()
        adam.step()
        adam.clear_grad()

    x = proa.to_tensor([[3, 50_000, 3]])
    step(x)  # makes the moments
    _core.reset_peak()
    before = _core.memory_stats()["allocated"]
    step(x)
    assert _core.memory_stats()["peak"] - before < 100_000


def test_a_gradient_that_is_a_result_is_dense() -> None:
    net = make(None)

    def by_rows(x: Any) -> Any:
        return proa.grad(net.first(x).square().sum(), [net.first.weight])[0]

    x = proa.to_tensor([[1, 4], [1, 2]])
    got = to_static(by_rows)(x)
    assert parts(got) is None
    np.testing.assert_array_equal(got.numpy(), by_rows(x).numpy())


def test_a_step_outside_the_table_is_rejected() -> None:
    net = make(None)
    result = optimizer.SGD(0.1, net.parameters())

    @to_static
    def step(x: Any) -> None:
        net(x, x).sum().backward()
        result.step()

    with pytest.raises(IndexError, match="embedding"):
        step(proa.to_tensor([[30]]))
