"""Loops that carry sequences, and branches that give some, carry their lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import InvalidArgumentError
from proa.static import LoDTensor, create_lod_tensor
from proa.static import nn as snn

RNG = np.random.default_rng(2)
LENGTHS = [2, 0, 3, 1]


def rows_of(lengths: list[int], width: int = 3) -> Any:
    return RNG.normal(size=(sum(lengths), width)).astype("float32")


def counter() -> Any:
    return proa.zeros([1], "int64")


def run(fetch: list[Any], x: Any, lengths: Any = None, **feed: Any) -> list[Any]:
    executor = static.Executor()
    executor.run(static.default_startup_program())
    levels = [LENGTHS] if lengths is None else lengths
    given = {"x": create_lod_tensor(x, levels), **feed}
    return list(executor.run(feed=given, fetch_list=fetch, return_numpy=False))


def parts(rows: Any, lengths: list[int]) -> list[Any]:
    return np.split(np.asarray(rows), np.cumsum(lengths)[:-1])


def test_lengths_stay_with_what_is_carried(static_mode: Any) -> None:
    x = static.data("x", [-1, 3], "float32", lod_level=1)
    _, h = snn.while_loop(
        lambda i, h: i < 3,
        lambda i, h: [i + 1, snn.sequence_reverse(h) * 2],
        [counter(), x * 1.0],
    )
    assert h.lod_level == 1
    total = snn.sequence_pool(h, "sum")
    rows = rows_of(LENGTHS)
    got, sums = run([h, total], rows)
    assert isinstance(got, LoDTensor)
    assert got.recursive_sequence_lengths() == [LENGTHS]
    want = [8 * part[::-1] for part in parts(rows, LENGTHS)]
    np.testing.assert_allclose(got.numpy(), np.concatenate(want), rtol=1e-6)
    np.testing.assert_allclose(sums.numpy(), [w.sum(0) for w in want], rtol=1e-5)


def test_lengths_that_change_in_each_round(static_mode: Any) -> None:
    """As a decoder's sequences grow: every round doubles them."""
    x = static.data("x", [-1, 3], "float32", lod_level=1)
    n = static.data("n", [1], "int64")
    _, h = snn.while_loop(
        lambda i, h: i < n,
        lambda i, h: [i + 1, snn.sequence_concat([h, h + 1])],
        [counter(), x],
    )
    rows = rows_of(LENGTHS)
    for rounds in (0, 1, 3):
        (got,) = run([h], rows, n=np.array([rounds]))
        want = parts(rows, LENGTHS)
        for _ in range(rounds):
            want = [np.concatenate([w, w + 1]) for w in want]
        lengths = [count * 2**rounds for count in LENGTHS]
        assert got.recursive_sequence_lengths() == [lengths]
        np.testing.assert_allclose(got.numpy(), np.concatenate(want), rtol=1e-6)


def test_two_levels_are_carried(static_mode: Any) -> None:
    """Sentences of documents: the first of a round is the second of the next one."""
    x = static.data("x", [-1, 3], "float32", lod_level=2)
    _, h = snn.while_loop(
        lambda i, h: i < 2,
        lambda i, h: [i + 1, snn.sequence_reverse(h) + 1],
        [counter(), x],
    )
    assert h.lod_level == 2
    sentences = snn.sequence_pool(h, "sum")
    documents = snn.sequence_pool(sentences, "max")
    levels, rows = [[2, 2], LENGTHS], rows_of(LENGTHS)
    got, top = run([h, documents], rows, levels)
    assert got.recursive_sequence_lengths() == levels
    np.testing.assert_allclose(got.numpy(), rows + 2, rtol=1e-6)
    sums = np.array([part.sum(0) for part in parts(rows + 2, LENGTHS)])
    want = sums.reshape(2, 2, 3).max(1)
    np.testing.assert_allclose(top.numpy(), want, rtol=1e-5)


def test_conditions_read_carried_lengths(static_mode: Any) -> None:
    x = static.data("x", [-1, 3], "float32", lod_level=1)
    (h,) = snn.while_loop(
        lambda h: snn.sequence_pool(h, "sum").max() < 100, lambda h: [h * 2], [x]
    )
    rows = np.abs(rows_of(LENGTHS)) + 0.1
    (got,) = run([h], rows)
    want = rows
    while max(part.sum(0).max() for part in parts(want, LENGTHS) if len(part)) < 100:
        want = want * 2
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_a_loop_in_a_loop_carries_lengths(static_mode: Any) -> None:
    x = static.data("x", [-1, 3], "float32", lod_level=1)

    def outer(i: Any, h: Any) -> Any:
        _, h = snn.while_loop(
            lambda k, h: k < 2,
            lambda k, h: [k + 1, snn.sequence_softmax(h[:, :1].squeeze(1) * 1.0)
                          .unsqueeze(1) + h],
            [counter(), h],
        )  # fmt: skip
        return [i + 1, snn.sequence_reverse(h)]

    _, h = snn.while_loop(lambda i, h: i < 2, outer, [counter(), x])
    rows = rows_of(LENGTHS)
    (got,) = run([h], rows)
    want = [part.astype("float64") for part in parts(rows, LENGTHS)]
    for _ in range(2):
        for _ in range(2):
            e = [np.exp(w[:, :1]) for w in want]
            want = [w + s / s.sum() for w, s in zip(want, e, strict=True)]
        want = [w[::-1] for w in want]
    np.testing.assert_allclose(got.numpy(), np.concatenate(want), rtol=1e-4)
    assert got.recursive_sequence_lengths() == [LENGTHS]


def test_gradients_flow_through_carried_sequences(static_mode: Any) -> None:
    x = static.data("x", [-1, 3], "float32", lod_level=1)
    x.stop_gradient = False
    _, h = snn.while_loop(
        lambda i, h: i < 2,
        lambda i, h: [i + 1, snn.sequence_concat([h, h * h])],
        [counter(), x * 1.0],
    )
    (grad,) = static.gradients([snn.sequence_pool(h, "sum").sum()], [x])
    rows = rows_of(LENGTHS)
    (got,) = run([grad], rows)
    # The rows are h, h^2, h^2, h^4 in the end.
    np.testing.assert_allclose(
        got.numpy(), 1 + 4 * rows + 4 * rows**3, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("positive", [True, False])
def test_branches_give_lengths(static_mode: Any, positive: bool) -> None:
    x = static.data("x", [-1, 3], "float32", lod_level=1)
    result = snn.cond(
        proa.sum(x) > 0,
        lambda: snn.sequence_concat([x, x]),
        lambda: snn.sequence_reverse(x),
    )
    assert result.lod_level == 1
    rows = np.abs(rows_of(LENGTHS)) * (1 if positive else -1)
    got, ends = run([result, snn.sequence_last_step(result)], rows)
    lengths = [count * (1 + positive) for count in LENGTHS]
    assert got.recursive_sequence_lengths() == [lengths]
    want = [np.concatenate([p, p]) if positive else p[::-1]
            for p in parts(rows, LENGTHS)]  # fmt: skip
    np.testing.assert_array_equal(got.numpy(), np.concatenate(want))
    last = [w[-1] if len(w) else np.zeros(3) for w in want]
    np.testing.assert_allclose(ends.numpy(), last)


def test_a_copy_of_a_program_carries_lengths(static_mode: Any) -> None:
    main, startup = static_mode
    x = static.data("x", [-1, 3], "float32", lod_level=1)
    _, h = snn.while_loop(
        lambda i, h: i < 1,
        lambda i, h: [i + 1, snn.sequence_reverse(h)],
        [counter(), x],
    )
    top = snn.sequence_first_step(h)
    rows, executor = rows_of([2, 1]), static.Executor()
    executor.run(startup)
    feed = {"x": create_lod_tensor(rows, [[2, 1]])}
    (got,) = executor.run(main.clone(for_test=True), feed, [top.name])
    np.testing.assert_array_equal(got, rows[[1, 2]])


def test_a_body_that_gives_no_lengths_is_named(static_mode: Any) -> None:
    x = static.data("x", [-1, 3], "float32", lod_level=1)

    def body(i: Any, h: Any) -> Any:
        return [i + 1, proa.concat([h, h], axis=0)]

    _, h = snn.while_loop(lambda i, h: i < 2, body, [counter(), x])
    assert h.lod_level == 0
    with pytest.raises(InvalidArgumentError, match="at the end of a loop's body"):
        snn.sequence_reverse(h)
