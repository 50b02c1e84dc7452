"""Elements whose number a run alone knows: those that a condition picks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import proa
from proa import static

RNG = np.random.default_rng(0)
ARRAYS = [
    RNG.standard_normal((3, 4)).astype(np.float32),
    RNG.standard_normal((5, 4)).astype(np.float32),
    np.full((2, 4), -1, np.float32),
]
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "nonzero": (
        lambda x: proa.nonzero(x > 0),
        lambda x: np.stack(np.nonzero(x > 0), 1),
    ),
    "nonzero by axis": (
        lambda x: proa.nonzero(x > 0, as_tuple=True)[1],
        lambda x: np.nonzero(x > 0)[1][:, None],
    ),
    "where": (lambda x: proa.where(x > 0)[0], lambda x: np.nonzero(x > 0)[0][:, None]),
    "masked_select": (lambda x: proa.masked_select(x, x > 0), lambda x: x[x > 0]),
    "mask": (lambda x: x[x > 0], lambda x: x[x > 0]),
    "mask of rows": (lambda x: x[x[:, 0] > 0], lambda x: x[x[:, 0] > 0]),
    "mask of columns": (
        lambda x: x[:, proa.to_tensor([True, False, True, True])],
        lambda x: x[:, [0, 2, 3]],
    ),
}


@contextlib.contextmanager
def static_program() -> Iterator[static.Program]:
    """A program that is built in static mode."""
    main = static.Program()
    proa.enable_static()
    try:
        with static.program_guard(main), proa.utils.unique_name.guard():
            yield main
    finally:
        proa.disable_static()


@pytest.mark.parametrize("name", CASES)
def test_a_program_picks_elements_by_a_condition(name: str) -> None:
    build, expected = CASES[name]
    with static_program() as main:
        x = static.data("x", [None, 4], "float32")
        picked = build(x)
    runner = static.Executor()
    for array in ARRAYS:
        (found,) = runner.run(main, {"x": array}, [picked])
        np.testing.assert_array_equal(found, expected(array))


def test_gradients_flow_to_the_elements_that_are_picked() -> None:
    with static_program() as main:
        x = static.data("x", [None, 4], "float32")
        x.stop_gradient = False
        loss = (proa.masked_select(x, x > 0) ** 2).sum()
        (gradient,) = static.gradients(loss, x)
    for array in ARRAYS:
        (found,) = static.Executor().run(main, {"x": array}, [gradient])
        np.testing.assert_allclose(found, 2 * np.maximum(array, 0), rtol=1e-6)


@pytest.mark.parametrize(
    ("mode", "corners"),
    [("nearest", False), ("bilinear", False), ("bilinear", True), ("bicubic", False),
     ("bicubic", True)],
)  # fmt: skip
def test_an_image_is_resized_to_another_of_unknown_size(
    mode: str, corners: bool
) -> None:
    torch = pytest.importorskip("torch")
    with static_program() as main:
        x = static.data("x", [None, 2, None, None], "float32")
        like = static.data("like", [1, 1, None, None], "float32")
        x.stop_gradient = False
        resized = proa.nn.functional.interpolate(
            x, like.shape[2:], mode=mode, align_corners=corners
        )
        (gradient,) = static.gradients((resized**2).sum(), x)
    for height, width in ((7, 3), (4, 5), (9, 11)):
        array = RNG.standard_normal((2, 2, 4, 5)).astype(np.float32)
        feed = {"x": array, "like": np.zeros((1, 1, height, width), np.float32)}
        found, slope = static.Executor().run(main, feed, [resized, gradient])
        leaf = torch.tensor(array, requires_grad=True)
        want = torch.nn.functional.interpolate(
            leaf, (height, width), mode=mode,
            align_corners=None if mode == "nearest" else corners,
        )  # fmt: skip
        (want**2).sum().backward()
        np.testing.assert_allclose(found, want.detach().numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(slope, leaf.grad.numpy(), rtol=1e-4, atol=1e-4)
