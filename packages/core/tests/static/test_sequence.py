"""Functions of sequences against loops over each sequence in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, ShapeError
from proa.static import LoDTensor, create_lod_tensor
from proa.static import nn as snn

RNG = np.random.default_rng(6)
LENGTHS = [2, 0, 3, 1]
ROWS = RNG.normal(size=(6, 3))


def _tensor(rows: Any = ROWS, lengths: Any = LENGTHS) -> Any:
    return create_lod_tensor(np.array(rows), [lengths])


def _parts(rows: Any = ROWS, lengths: Any = LENGTHS) -> list[Any]:
    return np.split(np.asarray(rows), np.cumsum(lengths)[:-1])


def _check(got: Any, want: list[Any]) -> None:
    """Sequences of a result."""
    assert isinstance(got, LoDTensor)
    assert got.recursive_sequence_lengths()[-1] == [len(w) for w in want]
    np.testing.assert_allclose(got.numpy(), np.concatenate(want), rtol=1e-6)


def test_lengths_and_offsets_are_equivalent() -> None:
    x = create_lod_tensor(np.arange(6.0), [[2, 1], [3, 1, 2]])
    assert x.lod() == [[0, 2, 3], [0, 3, 4, 6]]
    assert x.has_valid_recursive_sequence_lengths()
    x.set_lod([[0, 6]])
    assert x.recursive_sequence_lengths() == [[6]]
    listed = create_lod_tensor([[1, 2], [3]], [[2, 1]])
    np.testing.assert_array_equal(listed.numpy(), [1, 2, 3])
    with pytest.raises(InvalidArgumentError, match="must add up to 6, got"):
        x.set_recursive_sequence_lengths([[2, 3]])


@pytest.mark.feature("L099")
def test_concat_joins_the_lengths() -> None:
    a = create_lod_tensor(np.ones((3, 2)), [[1, 1], [2, 1]])
    b = create_lod_tensor(np.zeros((4, 2)), [[2], [1, 3]])
    joined = proa.concat([a, b], axis=0)
    assert joined.lod() == [[0, 1, 2, 4], [0, 2, 3, 4, 7]]
    np.testing.assert_array_equal(joined.numpy(), [[1, 1]] * 3 + [[0, 0]] * 4)
    for other in (proa.concat([a, a], axis=1), proa.concat([a, proa.ones([1, 2])])):
        assert not isinstance(other, LoDTensor)


POOLS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda s: s.sum(0),
    "average": lambda s: s.mean(0),
    "sqrt": lambda s: s.sum(0) / np.sqrt(len(s)),
    "max": lambda s: s.max(0),
    "first": lambda s: s[0],
    "last": lambda s: s[-1],
}


@pytest.mark.feature("L101")
@pytest.mark.parametrize("kind", POOLS)
def test_pool(kind: str) -> None:
    x = _tensor()
    x.stop_gradient = False
    got = snn.sequence_pool(x, kind, pad_value=7.0)
    want = [POOLS[kind](s) if len(s) else np.full(3, 7.0) for s in _parts()]
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    weights = RNG.normal(size=(4, 3))
    (got * proa.to_tensor(weights)).sum().backward()
    delta, e = RNG.normal(size=ROWS.shape), 1e-6
    up, down = (
        (snn.sequence_pool(_tensor(ROWS + s * delta), kind).numpy() * weights).sum()
        for s in (e, -e)
    )
    assert (x.grad.numpy() * delta).sum() == pytest.approx((up - down) / (2 * e))


@pytest.mark.feature("L101")
def test_first_and_last_steps() -> None:
    x = _tensor(ROWS, [2, 4])
    np.testing.assert_array_equal(snn.sequence_first_step(x).numpy(), ROWS[[0, 2]])
    np.testing.assert_array_equal(snn.sequence_last_step(x).numpy(), ROWS[[1, 5]])
    with pytest.raises(InvalidArgumentError, match="pool_type must be"):
        snn.sequence_pool(x, "median")
    with pytest.raises(InvalidArgumentError, match="must be a LoDTensor"):
        snn.sequence_pool(proa.ones([2, 2]), "sum")


@pytest.mark.feature("L101")
def test_softmax() -> None:
    rows = ROWS[:, :1] * 300
    powers = [np.exp(s - s.max(initial=-np.inf)) for s in _parts(rows)]
    _check(snn.sequence_softmax(_tensor(rows)), [p / p.sum() for p in powers])
    with pytest.raises(ShapeError, match="rows must be"):
        snn.sequence_softmax(_tensor())


@pytest.mark.feature("L101")
def test_concat_of_sequences_one_by_one() -> None:
    other = RNG.normal(size=(5, 3))
    got = snn.sequence_concat([_tensor(), _tensor(other, [1, 2, 0, 2])])
    pairs = zip(_parts(), _parts(other, [1, 2, 0, 2]), strict=True)
    _check(got, [np.concatenate(p) for p in pairs])
    with pytest.raises(InvalidArgumentError, match="the same number of sequences"):
        snn.sequence_concat([_tensor(), _tensor(other, [5])])


@pytest.mark.feature("L101")
def test_slice_and_reverse() -> None:
    offset, length = np.array([[1], [0], [0], [0]]), np.array([[1], [0], [2], [1]])
    got = snn.sequence_slice(_tensor(), *map(proa.to_tensor, (offset, length)))
    _check(got, [ROWS[1:2], ROWS[:0], ROWS[2:4], ROWS[5:]])
    _check(snn.sequence_reverse(_tensor()), [s[::-1] for s in _parts()])
    with pytest.raises(InvalidArgumentError, match="must be within its sequence"):
        snn.sequence_slice(_tensor(), *map(proa.to_tensor, (offset + 2, length)))


@pytest.mark.feature("L101")
def test_expand() -> None:
    y = create_lod_tensor(np.zeros((5, 1)), [[2, 1], [2, 1, 2]])
    x = _tensor(ROWS, [2, 4])
    got = snn.sequence_expand(x, y, ref_level=0)
    _check(got, [ROWS[:2], ROWS[:2], ROWS[2:]])
    _check(
        snn.sequence_expand(proa.to_tensor(ROWS[:3]), y),
        [ROWS[[0, 0]], ROWS[[1]], ROWS[[2, 2]]],
    )
    _check(
        snn.sequence_expand_as(proa.to_tensor(ROWS[:3]), y),
        [ROWS[[0, 0]], ROWS[[1]], ROWS[[2, 2]]],
    )
    with pytest.raises(ShapeError, match="x must have 3 rows"):
        snn.sequence_expand_as(proa.to_tensor(ROWS), y)


@pytest.mark.feature("L101")
@pytest.mark.parametrize("maxlen", [None, 5])
def test_pad_and_unpad(maxlen: int | None) -> None:
    wide, lengths = snn.sequence_pad(_tensor(), 9.0, maxlen)
    want = np.full((4, maxlen or 3, 3), 9.0)
    for i, s in enumerate(_parts()):
        want[i, : len(s)] = s
    np.testing.assert_array_equal(wide.numpy(), want)
    np.testing.assert_array_equal(lengths.numpy(), LENGTHS)
    _check(snn.sequence_unpad(wide, lengths), _parts())
    with pytest.raises(InvalidArgumentError, match="maxlen must be at least 3"):
        snn.sequence_pad(_tensor(), 0.0, 2)


@pytest.mark.feature("L101")
def test_reshape_scatter_and_enumerate() -> None:
    rows = RNG.normal(size=(6, 4))
    got = snn.sequence_reshape(_tensor(rows), 2)
    _check(got, [s.reshape(-1, 2) for s in _parts(rows)])
    ids = np.array([1, 1, 0, 2, 2, 1])
    added = np.zeros((4, 3))
    np.add.at(added, (np.repeat(range(4), LENGTHS), ids), ROWS[:, 0])
    got = snn.sequence_scatter(
        proa.zeros([4, 3], "float64"), _tensor(ids), _tensor(ROWS[:, 0])
    )
    np.testing.assert_allclose(got.numpy(), added)
    got = snn.sequence_enumerate(_tensor(ids), 2, pad_value=9)
    _check(
        got, [[[1, 1], [1, 9]], np.zeros((0, 2)), [[0, 2], [2, 2], [2, 9]], [[1, 9]]]
    )
    with pytest.raises(ShapeError, match="divide into rows of 5"):
        snn.sequence_reshape(_tensor(), 5)


@pytest.mark.feature("L101")
@pytest.mark.parametrize("start", [None, 0, -2])
def test_conv(start: int | None) -> None:
    weight = RNG.normal(size=(9, 2))
    assign = proa.nn.initializer.Assign(weight)
    x = _tensor()
    x.stop_gradient = False
    got = snn.sequence_conv(
        x, 2, 3, padding_start=start, param_attr=assign, bias_attr=False, act="tanh"
    )
    first = -1 if start is None else start
    want = []
    for s in _parts():
        wide = np.concatenate([np.zeros((4, 3)), s, np.zeros((4, 3))])
        rows = [wide[4 + i + first : 7 + i + first].ravel() for i in range(len(s))]
        want.append(np.tanh(np.array(rows).reshape(-1, 9) @ weight))
    _check(got, want)
    got.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()
    with pytest.raises(InvalidArgumentError, match="filter_stride must be 1"):
        snn.sequence_conv(x, 2, filter_stride=2)
