"""Segments, new numbers of vertices, and samples of their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import geometric, incubate
from proa.errors import InvalidArgumentError, ShapeError

#: Neighbours of ten vertices: v has those from COLPTR[v] on.
ROW = np.array([3, 7, 0, 9, 1, 4, 3, 8, 2, 5, 6, 1, 0, 2, 7, 9, 4])
COLPTR = np.array([0, 2, 4, 5, 6, 9, 11, 11, 13, 15, 17])


def tensors(*arrays: Any) -> list[proa.Tensor]:
    return [proa.to_tensor(np.asarray(a)) for a in arrays]


@pytest.mark.parametrize(
    ("how", "want"),
    [
        ("segment_sum", [[4, 4, 4], [4, 5, 6]]),
        ("segment_mean", [[2, 2, 2], [4, 5, 6]]),
        ("segment_max", [[3, 2, 3], [4, 5, 6]]),
        ("segment_min", [[1, 2, 1], [4, 5, 6]]),
    ],
)
def test_segments_are_reduced_here_too(how: str, want: Any) -> None:
    data, numbers = tensors([[1.0, 2, 3], [3, 2, 1], [4, 5, 6]], [0, 0, 1])
    assert getattr(geometric, how)(data, numbers).tolist() == want
    assert getattr(geometric, how) is getattr(incubate, how)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_vertices_are_numbered_in_the_order_of_their_appearance(dtype: str) -> None:
    x, near, count = tensors([0, 1, 2], [8, 9, 0, 4, 7, 6, 7], [2, 3, 2])
    x, near = x.astype(dtype), near.astype(dtype)
    begin, end, old = geometric.reindex_graph(x, near, count.astype("int32"))
    assert begin.tolist() == [3, 4, 0, 5, 6, 7, 6]
    assert end.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert old.tolist() == [0, 1, 2, 8, 9, 4, 7, 6]
    assert {t.dtype.name for t in (begin, end, old)} == {dtype}


def test_kinds_of_edges_share_the_numbers() -> None:
    x, a, n, b, m = tensors(
        [0, 1, 2], [8, 9, 0, 4, 7, 6, 7], [2, 3, 2], [0, 2, 3, 5, 1], [1, 3, 1]
    )
    begin, end, old = geometric.reindex_heter_graph(x, [a, b], [n, m])
    assert begin.tolist() == [3, 4, 0, 5, 6, 7, 6, 0, 2, 8, 9, 1]
    assert end.tolist() == [0, 0, 1, 1, 1, 2, 2, 0, 1, 1, 1, 2]
    assert old.tolist() == [0, 1, 2, 8, 9, 4, 7, 6, 3, 5]
    with pytest.raises(ShapeError, match="one number of neighbors for each"):
        geometric.reindex_graph(x, a, n + 1)


def test_all_neighbours_are_sampled_without_a_limit() -> None:
    row, colptr, nodes, eids = tensors(ROW, COLPTR, [0, 8, 6, 1], np.arange(17) + 100)
    near, count = geometric.sample_neighbors(row, colptr, nodes)
    assert near.tolist() == [3, 7, 2, 7, 0, 9] and count.tolist() == [2, 2, 0, 2]
    found = geometric.sample_neighbors(row, colptr, nodes, 5, eids, return_eids=True)
    assert found[2].tolist() == [100, 101, 113, 114, 102, 103]
    with pytest.raises(InvalidArgumentError, match="expected eids"):
        geometric.sample_neighbors(row, colptr, nodes, return_eids=True)


def frequencies(draw: Any, rounds: int = 2000) -> Any:
    """How often edges 6, 7, 8 of vertex 4 are drawn when two of them are."""
    proa.seed(5)
    hits = np.zeros(17)
    for _ in range(rounds):
        near, count, edges = draw()
        assert count.tolist() == [2, 1, 2] and len(set(edges.tolist())) == 5
        np.testing.assert_array_equal(near.numpy(), ROW[edges.numpy()])
        hits[edges.numpy()] += 1
    assert hits[[0, 1, 4]].tolist() == [rounds] * 3  # of vertices with two and one
    return hits[6:9] / rounds


def test_each_neighbour_is_as_likely() -> None:
    row, colptr, nodes, eids = tensors(ROW, COLPTR, [0, 2, 4], np.arange(17))
    found = frequencies(
        lambda: geometric.sample_neighbors(
            row, colptr, nodes, 2, eids, return_eids=True
        )
    )
    np.testing.assert_allclose(found, 2 / 3, atol=0.04)  # 4 standard deviations


def test_heavy_edges_are_drawn_more_often() -> None:
    row, colptr, nodes, eids = tensors(ROW, COLPTR, [0, 2, 4], np.arange(17))
    weights = np.ones(17, "float32")
    weights[6:9] = p = np.array([1.0, 2.0, 5.0])
    found = frequencies(
        lambda: geometric.weighted_sample_neighbors(
            row, colptr, proa.to_tensor(weights), nodes, 2, eids, return_eids=True
        )
    )
    p = p / p.sum()
    # First, or second after one of the others.
    want = [
        p[i] + sum(p[j] * p[i] / (1 - p[j]) for j in range(3) if j != i)
        for i in range(3)
    ]
    np.testing.assert_allclose(found, want, atol=0.045)
