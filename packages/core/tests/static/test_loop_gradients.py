"""Gradients of recorded loops: the same bits as dynamic mode's, in how many rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import static

Programs = tuple[static.Program, static.Program]
W = np.array([[0.6, -0.4], [0.3, 0.9]], np.float32)
X = np.array([[0.5, -1.0], [0.2, 0.7]], np.float32)


def _loop(x: Any, w: Any, rounds: Any, visit: Any = None) -> Any:
    def body(i: Any, x: Any) -> list[Any]:
        if visit is not None:
            static.py_func(visit, i, None)
        return [i + 1, proa.tanh(proa.matmul(x, w)) + 0.1 * x]

    zero = proa.zeros([1], "int64")
    return static.nn.while_loop(lambda i, _: i < rounds, body, [zero, x])[1]


def _eager(rounds: int) -> list[Any]:
    x, w = (proa.to_tensor(a, stop_gradient=False) for a in (X, W))
    y = _loop(x, w, proa.to_tensor([rounds]))
    (y * y).sum().backward()
    return [y.numpy(), x.grad.numpy(), w.grad.numpy() if rounds else None]


@pytest.mark.parametrize("shape", [[2, 2], [-1, 2]])
def test_they_have_the_bits_of_dynamic_mode(
    static_mode: Programs, shape: list[int]
) -> None:
    main, _ = static_mode
    x, w = static.data("x", shape), static.data("w", [2, 2])
    x.stop_gradient = w.stop_gradient = False
    rounds = static.data("rounds", [1], "int64")
    y = _loop(x, w, rounds)
    fetches = [y, *static.gradients((y * y).sum(), [x, w])]
    executor = static.Executor()
    for n in (0, 1, 2, 3, 8, 9, 27, 40):
        feed = {"x": X, "w": W, "rounds": np.array([n])}
        found = executor.run(main, feed, fetches)
        proa.disable_static()
        want = _eager(n)
        proa.enable_static()
        for ours, theirs in zip(found, want, strict=True):
            np.testing.assert_array_equal(ours, 0 if theirs is None else theirs)


def test_sizes_may_change_from_round_to_round(static_mode: Programs) -> None:
    """What a round begins with has a shape of its own: sums of growing arrays."""
    main, _ = static_mode
    x = static.data("x", [-1, 2], "float64")
    x.stop_gradient = False

    def body(i: Any, rows: Any) -> list[Any]:
        return [i + 1, proa.concat([rows, rows[-1:] * rows[:1]], axis=0)]

    zero = proa.zeros([1], "int64")
    grown = static.nn.while_loop(lambda i, _: i < 10, body, [zero, x])[1]
    (gradient,) = static.gradients(grown.sum(), x)
    start = np.array([[0.9, 1.1]])
    (found,) = static.Executor().run(main, {"x": start}, [gradient])
    powers = np.arange(1, 12)[:, None]  # the rows are x, x ** 2, ..
    np.testing.assert_allclose(found[0], (powers * start ** (powers - 1)).sum(0))


def test_rounds_run_again_grow_less_than_by_their_square(static_mode: Programs) -> None:
    main, _ = static_mode
    x, w = static.data("x", [2, 2]), static.data("w", [2, 2])
    x.stop_gradient = w.stop_gradient = False
    rounds = static.data("rounds", [1], "int64")
    visits: list[int] = []
    y = _loop(x, w, rounds, lambda i: visits.append(int(i.numpy()[0])))
    (gradient,) = static.gradients((y * y).sum(), [w])
    executor = static.Executor()
    counts = {}
    for n in (8, 64, 512):
        visits.clear()
        executor.run(main, {"x": X, "w": W, "rounds": np.array([n])}, [gradient])
        counts[n] = len(visits)
    assert counts[64] < 9 * 64  # from the beginning they were 64 * 63 / 2 + 2 * 64
    assert counts[512] < 16 * 512  # and 512 * 511 / 2
    # n ** (4 / 3): 16 times as many for 8 times the rounds.
    assert counts[512] / counts[64] < 17
