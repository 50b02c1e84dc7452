"""Sums of looked-up rows against loops over each sequence in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import _core
from proa.errors import InvalidArgumentError, OutOfRangeError, ShapeError
from proa.incubate import embedding_seq_pool, fused_embedding_seq_pool
from proa.static import create_lod_tensor

RNG = np.random.default_rng(1)
LENGTHS = [2, 0, 3, 1]
IDS = np.array([1, 4, 2, 2, 0, 5])
TABLE = RNG.normal(size=(6, 7))


def _ids(ids: Any = IDS, lengths: Any = LENGTHS) -> Any:
    return create_lod_tensor(np.asarray(ids), [lengths])


def _parts(ids: Any = IDS) -> list[Any]:
    return np.split(ids, np.cumsum(LENGTHS)[:-1])


@pytest.mark.feature("L096")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("padding", [None, 2, -4])
@pytest.mark.parametrize("column", [False, True])
def test_rows_are_summed_for_each_sequence(
    column: bool, padding: int | None, sparse: bool
) -> None:
    skipped = None if padding is None else padding % 6
    w = proa.to_tensor(TABLE, stop_gradient=False)
    ids = IDS[:, None] if column else IDS
    y = embedding_seq_pool(_ids(ids), w, padding, is_sparse=sparse)
    unpadded = [[i for i in part if i != skipped] for part in _parts()]
    want = [TABLE[part].sum(0) if part else np.zeros(7) for part in unpadded]
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-12, atol=1e-15)
    dy = RNG.normal(size=(4, 7))
    (y * proa.to_tensor(dy)).sum().backward()
    slopes = np.zeros_like(TABLE)
    for s, part in enumerate(unpadded):
        np.add.at(slopes, part, dy[s])
    assert (_core.row_sparse_parts(w.grad) is not None) is sparse
    np.testing.assert_allclose(proa.assign(w.grad).numpy(), slopes, rtol=1e-12)


@pytest.mark.feature("L096", how="mechanism")
def test_gathered_rows_are_never_materialized_together() -> None:
    w = proa.ones([50, 512])
    ids = _ids(np.arange(4000) % 50, [1000] * 4)

    def peak(run: Any) -> int:
        run()
        before = _core.memory_stats()["allocated"]
        _core.reset_peak()
        run()
        return _core.memory_stats()["peak"] - before

    rows = 4000 * 512 * 4  # bytes of all rows that are looked up
    assert peak(lambda: proa.nn.functional.embedding(ids, w)) >= rows
    assert peak(lambda: embedding_seq_pool(ids, w)) < rows / 20
    np.testing.assert_array_equal(embedding_seq_pool(ids, w).numpy(), 1000.0)


@pytest.mark.feature("L096")
def test_the_old_function_creates_its_table() -> None:
    fill = proa.nn.initializer.Assign(TABLE.astype("float32"))
    y = fused_embedding_seq_pool(_ids(), [6, 7], padding_idx=4, param_attr=fill)
    np.testing.assert_allclose(y.numpy()[0], TABLE[1], rtol=1e-6)
    assert not y.stop_gradient and y.shape == [4, 7]


def test_empty_input_has_an_empty_result() -> None:
    w = proa.to_tensor(TABLE)
    empty = _ids(np.zeros(0, np.int64), [0, 0])
    np.testing.assert_array_equal(
        embedding_seq_pool(empty, w).numpy(), np.zeros((2, 7))
    )


@pytest.mark.parametrize(
    ("ids", "settings", "error", "message"),
    [
        (lambda: proa.to_tensor(IDS), {}, InvalidArgumentError, "must be a LoDTensor"),
        (
            lambda: _ids(IDS + 1),
            {},
            OutOfRangeError,
            r"must be in \[0, 6\), got 1 to 6",
        ),
        (lambda: _ids(-IDS), {}, OutOfRangeError, "got -5 to 0"),
        (lambda: _ids(IDS * 1.0), {}, InvalidArgumentError, "must be integers"),
        (lambda: _ids(np.ones((6, 2))), {}, ShapeError, r"must be \(n,\) or"),
        (_ids, {"combiner": "mean"}, InvalidArgumentError, "combiner must be 'sum'"),
        (_ids, {"padding_idx": 6}, InvalidArgumentError, "padding_idx must be in"),
    ],
)
def test_invalid_arguments_are_rejected(
    ids: Any, settings: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        embedding_seq_pool(ids(), proa.to_tensor(TABLE), **settings)
