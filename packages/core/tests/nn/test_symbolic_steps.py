"""Cells of a program's own over a number of steps that only a run knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
import proa.nn.functional as F
from proa import nn, static
from proa.static import InputSpec

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(3, 3)).astype("float32") / 2


class Leaky(nn.RNNCellBase):
    """h = tanh(x + h @ W) + factor; the output is 2 h."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.create_parameter([3, 3])
        self.weight.set_value(WEIGHT)

    def forward(self, x: Any, h: Any, factor: float = 0.0) -> Any:
        h = proa.tanh(x + proa.matmul(h, self.weight)) + factor
        return h * 2, h

    @property
    def state_shape(self) -> Any:
        return (3,)


def expected(x: Any, lengths: Any = None, reverse: bool = False) -> Any:
    """The recurrence in NumPy, (batch, time, 3)."""
    h = np.zeros((len(x), 3))
    out = np.zeros(x.shape)
    steps = range(x.shape[1])
    for t in reversed(steps) if reverse else steps:
        new = np.tanh(x[:, t] + h @ WEIGHT) + 0.5
        inside = (
            np.ones((len(x), 1), bool) if lengths is None else (lengths > t)[:, None]
        )
        h = np.where(inside, new, h)
        out[:, t] = np.where(inside, 2 * new, 0)
    return out, h


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
def test_steps_follow_what_arrives(
    reverse: bool, time_major: bool, tmp_path: Path
) -> None:
    class Net(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.RNN(Leaky(), reverse, time_major)

        def forward(self, x: Any, lengths: Any) -> Any:
            return self.rnn(x, None, lengths, factor=0.5)

    specs = [InputSpec([None, None, 3], "float32"), InputSpec([None], "int64")]
    proa.jit.save(Net(), tmp_path / "net", input_spec=specs)
    loaded = proa.jit.load(tmp_path / "net")
    for batch, steps in ((2, 5), (3, 1)):
        x = RNG.normal(size=(batch, steps, 3)).astype("float32")
        lengths = np.arange(batch) % steps + 1
        given = x.transpose(1, 0, 2) if time_major else x
        found, h = loaded(proa.to_tensor(given), proa.to_tensor(lengths))
        array = found.numpy().transpose(1, 0, 2) if time_major else found.numpy()
        out, last = expected(x, lengths, reverse)
        np.testing.assert_allclose(array, out, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(h.numpy(), last, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("steps", [None, 4])
def test_functions_in_a_cell_make_one_set_of_parameters(steps: int | None) -> None:
    class Cell(nn.RNNCellBase):
        def forward(self, x: Any, h: Any) -> Any:
            attr = proa.ParamAttr(initializer=nn.initializer.Assign(WEIGHT))
            h = proa.tanh(
                x + static.nn.fc(h, 3, weight_attr=attr, bias_attr=False) + 0.5
            )
            return h, h

    main, startup = static.Program(), static.Program()
    proa.enable_static()
    try:
        with static.program_guard(main, startup), static.scope_guard(static.Scope()):
            x = static.data("x", [None, steps, 3])
            y, _ = nn.RNN(Cell())(x, proa.zeros([1, 3]) + x[:, 0] * 0)
            (parameter,) = main.all_parameters()
            (grad,) = static.gradients(y.sum(), [parameter])
            exe = static.Executor()
            exe.run(startup)
            array = RNG.normal(size=(2, 4, 3)).astype("float32")
            found, slope = exe.run(main, feed={"x": array}, fetch_list=[y, grad])
    finally:
        proa.disable_static()

    def total(weight: Any) -> Any:
        h, outs = np.zeros((2, 3)), []
        for t in range(4):
            h = np.tanh(array[:, t] + h @ weight + 0.5)
            outs.append(h)
        return np.stack(outs, 1)

    np.testing.assert_allclose(found, total(WEIGHT), rtol=1e-5, atol=1e-6)
    for i, j in ((0, 0), (2, 1)):
        shift = np.zeros((3, 3))
        shift[i, j] = 1e-4
        difference = total(WEIGHT + shift).sum() - total(WEIGHT - shift).sum()
        assert slope[i, j] == pytest.approx(difference / 2e-4, rel=1e-3)


def test_masks_are_as_long_as_what_arrives() -> None:
    proa.enable_static()
    main = static.Program()
    try:
        with static.program_guard(main):
            x = static.data("x", [None, None])
            n = static.data("n", [None], "int64")
            whole = F.sequence_mask(n, maxlen=proa.shape(x)[1], dtype="float32")
            own = F.sequence_mask(n)
            given = F.sequence_mask(n, maxlen=proa.max(n) + 1)
    finally:
        proa.disable_static()
    feed = {"x": np.zeros((2, 5), "float32"), "n": np.asarray([1, 3])}
    found = static.Executor().run(main, feed=feed, fetch_list=[whole, own, given])
    for array, width in zip(found, (5, 3, 4), strict=True):
        wanted = np.arange(width) < np.asarray([[1], [3]])
        np.testing.assert_array_equal(array, wanted)
