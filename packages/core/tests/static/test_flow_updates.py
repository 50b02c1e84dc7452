"""Programs with branches or loops that also change state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn, optimizer, static
from proa.errors import OutOfRangeError
from proa.static import stages
from proa.static.plan import Plan

Programs = tuple[static.Program, static.Program]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How the parts of plans made meanwhile are run, in order."""
    found: list[str] = []
    for kind in (stages._EngineStage, stages._InterpretedStage):

        def noted(self: Any, *given: Any, kind: Any = kind, old: Any = kind.__init__,
                  ) -> None:  # fmt: skip
            found.append(kind.__name__)
            old(self, *given)

        monkeypatch.setattr(kind, "__init__", noted)
    return found


def powers(x: Any, w: Any, rounds: int) -> Any:
    """x @ w @ w …, by a loop."""
    _, h = static.nn.while_loop(
        lambda i, h: i < rounds,
        lambda i, h: [i + 1, h @ w],
        [proa.zeros([1], "int64"), x],
    )
    return h


def test_a_loop_is_compiled_where_the_program_trains(
    static_mode: Programs, parts: list[str]
) -> None:
    main, startup = static_mode
    rng = np.random.default_rng(0)
    value = rng.normal(0, 0.4, (3, 3)).astype("float32")
    array = rng.normal(size=(2, 3)).astype("float32")
    x = static.data("x", [2, 3])
    w = static.create_parameter(
        [3, 3], "float32", name="w", default_initializer=nn.initializer.Assign(value)
    )
    loss = powers(x, w, 2).sum()
    optimizer.SGD(0.1).minimize(loss)
    exe = static.Executor()
    exe.run(startup)
    parts.clear()
    want = value.astype(np.float64)
    for _ in range(3):
        (found,) = exe.run(main, {"x": array}, [loss])
        np.testing.assert_allclose(found, (array @ want @ want).sum(), rtol=1e-5)
        # d sum(x w w) / dw = x^T 1 w^T + (x w)^T 1
        ones = np.ones((2, 3))
        want = want - 0.1 * (array.T @ ones @ want.T + (array @ want).T @ ones)
        got = static.global_scope().find_var("w").get_tensor()
        np.testing.assert_allclose(np.array(got), want, rtol=1e-5)
    assert parts == ["_EngineStage"] * 2


def test_states_that_change_places_keep_their_values(static_mode: Programs) -> None:
    main, startup = static_mode
    a, b = (
        static.create_global_var([2], v, "float32", persistable=True) for v in (1, 2)
    )
    x = static.data("x", [1])
    old = a * 1.0
    given = static.nn.cond(x.sum() > 0, lambda: old + 1, lambda: old - 1)
    proa.assign(b, a)
    proa.assign(old, b)
    exe = static.Executor()
    exe.run(startup)
    for k in range(3):
        found, now, other = exe.run(main, {"x": np.ones(1, "f")}, [given, a, b])
        before = 1.0 + k % 2
        np.testing.assert_array_equal(found, [before + 1] * 2)
        np.testing.assert_array_equal((now[0], other[0]), (3 - before, before))


def test_a_value_from_before_an_update_can_be_read_after_a_loop(
    static_mode: Programs,
) -> None:
    main, startup = static_mode
    count = static.create_global_var([1], 5.0, "float32", persistable=True)
    before = count + 0.0
    proa.increment(count)
    h = powers(static.data("x", [1, 1]), before.reshape([1, 1]), 2)
    exe = static.Executor()
    exe.run(startup)
    for k in range(3):
        found = exe.run(main, {"x": np.ones((1, 1), "f")}, [h, count, before])
        want = [(5.0 + k) ** 2, 6.0 + k, 5.0 + k]
        np.testing.assert_allclose([f.item() for f in found], want)


def test_updates_inside_a_loop_are_interpreted(
    static_mode: Programs, parts: list[str]
) -> None:
    main, startup = static_mode
    x = static.data("x", [4, 2])
    norm = nn.BatchNorm1D(2, momentum=0.5)
    _, h = static.nn.while_loop(
        lambda i, h: i < 2,
        lambda i, h: [i + 1, norm(h) * 2.0],
        [proa.zeros([1], "int64"), x],
    )
    exe = static.Executor()
    exe.run(startup)
    parts.clear()
    want = array = np.random.default_rng(0).normal(size=(4, 2)).astype("float32")
    (found,) = exe.run(main, {"x": array}, [h])
    for _ in range(2):
        want = (want - want.mean(0)) / np.sqrt(want.var(0) + 1e-5) * 2
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    assert "_InterpretedStage" in parts


def test_random_numbers_in_a_branch_are_new_in_every_run(
    static_mode: Programs, parts: list[str]
) -> None:
    main, startup = static_mode
    x = static.data("x", [1000])
    total = static.create_global_var([1], 0.0, "float32", persistable=True)
    h = static.nn.cond(
        x.sum() > 0,
        lambda: x + proa.uniform([1000], min=0.0, max=1.0),
        lambda: x * 1.0,
    )
    proa.assign(total + h.mean(), total)
    exe = static.Executor()
    exe.run(startup)
    parts.clear()
    proa.seed(0)
    runs = [exe.run(main, {"x": np.ones(1000, "f")}, [h, total]) for _ in range(2)]
    (first, _), (second, summed) = runs
    assert (first != second).mean() > 0.99
    for drawn in (first, second):
        assert 1 <= drawn.min() < 1.02 and 1.98 < drawn.max() <= 2
    np.testing.assert_allclose(summed, [first.mean() + second.mean()], rtol=1e-5)
    assert "_InterpretedStage" not in parts


def test_the_memory_of_all_parts_is_counted(static_mode: Programs) -> None:
    main, startup = static_mode
    x = static.data("x", [64, 64])
    w = static.create_parameter([64, 64], "float32")
    optimizer.SGD(0.1).minimize(powers(x, w, 2).sum())
    exe = static.Executor()
    exe.run(startup)
    exe.run(main, {"x": np.ones((64, 64), "f")}, [])
    plans = [p for p in exe._plans.values() if isinstance(p, Plan)]
    assert max(p.bytes for p in plans) > 2 * 64 * 64 * 4


@pytest.mark.parametrize("loops", [False, True])
def test_an_error_of_a_run_names_the_line_that_built_its_operator(
    static_mode: Programs, loops: bool
) -> None:
    main, _ = static_mode
    x, i = static.data("x", [None, 3]), static.data("i", [None], "int64")
    y = proa.gather(x, i)
    if loops:
        y = powers(y, proa.ones([3, 3]), 2)
    fed = {"x": np.zeros((2, 3), "f"), "i": np.array([5])}
    with pytest.raises(OutOfRangeError, match="gather") as error:
        static.Executor().run(main, fed, [y])
    (note,) = error.value.__notes__
    assert note.startswith(f"gather was recorded at {__file__}:")
    assert note.endswith("y = proa.gather(x, i)")
