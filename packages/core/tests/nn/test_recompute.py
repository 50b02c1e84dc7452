"""recompute: the same gradients in less memory, with dropout and mixed precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import _core, amp, nn
from proa.distributed.fleet.utils import recompute
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.nn import functional as F

RNG = np.random.RandomState(0)


def tensor(*shape: int) -> Any:
    x = proa.to_tensor(RNG.randn(*shape).astype(np.float32))
    x.stop_gradient = False
    return x


def gradients(net: Any, run: Any, x: Any) -> list[np.ndarray]:
    net.clear_gradients()
    x.clear_grad()
    proa.seed(5)
    loss = (run(x) ** 2).mean()
    loss.backward()
    return [loss.numpy(), *(p.grad.numpy().copy() for p in [*net.parameters(), x])]


@pytest.mark.feature("L117")
@pytest.mark.parametrize("cast", [None, "O1", "O2"])
def test_gradients_are_the_same(cast: str | None) -> None:
    net = nn.Sequential(
        nn.Linear(6, 32), nn.Dropout(0.4), nn.GELU(), nn.Linear(32, 6), nn.LayerNorm(6)
    )
    x = tensor(5, 6)

    def whole(run: Any) -> Any:
        with amp.auto_cast(cast is not None, level=cast or "O0", dtype="bfloat16"):
            return run(x).astype("float32")

    plain = gradients(net, lambda x: whole(net), x)
    again = gradients(net, lambda x: whole(lambda x: recompute(net, x)), x)
    for a, b in zip(plain, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_recompute_advances_the_random_state_once() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    after = []
    for run in (net, lambda x: recompute(net, x)):
        proa.seed(3)
        run(tensor(3, 4)).sum().backward()
        after.append(proa.rand([3]).numpy())
    np.testing.assert_array_equal(after[0], after[1])


def test_random_numbers_need_not_be_preserved() -> None:
    x = tensor(1000)
    y = recompute(lambda x: F.dropout(x, 0.5), x, preserve_rng_state=False)
    y.sum().backward()
    assert ((y.numpy() != 0) != (x.grad.numpy() != 0)).any()


def test_parameters_take_gradients_where_the_input_takes_none() -> None:
    net = nn.Linear(3, 2)
    recompute(net, proa.ones([4, 3])).sum().backward()
    assert net.bias.grad.tolist() == [4, 4]


def test_arguments_by_name_and_several_results() -> None:
    def function(a: Any, b: Any, *, c: Any, times: int) -> Any:
        return a * b, (b + c) * times, "text"

    a, b, c = tensor(3), tensor(3), tensor(3)
    first, second, text = recompute(function, a, b, c=c, times=4)
    assert text == "text"
    (first.sum() + second.sum()).backward()
    np.testing.assert_allclose(a.grad.numpy(), b.numpy())
    np.testing.assert_allclose(b.grad.numpy(), a.numpy() + 4)
    np.testing.assert_allclose(c.grad.numpy(), 4)


@pytest.mark.feature("L116", how="mechanism")
@pytest.mark.parametrize("cast", [False, True])
def test_less_memory_is_taken(cast: bool) -> None:
    blocks = [
        nn.Sequential(*(m for _ in range(4) for m in (nn.Linear(64, 64), nn.Tanh())))
        for _ in range(16)
    ]

    def peak(run: Any) -> int:
        x = proa.ones([1000, 64])
        _core.reset_peak()
        before = _core.memory_stats()["allocated"]
        with amp.auto_cast(cast, dtype="bfloat16"):
            for block in blocks:
                x = run(block, x)
        x.sum().backward()
        highest: int = _core.memory_stats()["peak"] - before
        return highest

    saving = peak(lambda block, x: block(x))
    assert peak(recompute) < 0.5 * saving


def test_inplace_changes_and_invalid_functions_are_rejected() -> None:
    x = tensor(3)
    y = x * 1
    z = recompute(lambda v: v * v, y)
    y.add_(proa.ones([3]))
    with pytest.raises(PreconditionNotMetError, match="must not change in place"):
        z.sum().backward()
    with pytest.raises(InvalidArgumentError, match="must be callable"):
        recompute(3, x)  # type: ignore[arg-type]  # on purpose
