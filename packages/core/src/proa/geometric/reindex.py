"""Vertices of a sampled part of a graph, numbered from 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.creation import to_tensor

_Ints = NDArray[Any]


def reindex_graph(
    x: Tensor,
    neighbors: Tensor,
    count: Tensor,
    value_buffer: Tensor | None = None,
    index_buffer: Tensor | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Renumber vertices and their neighbours in the order in which they appear.

    Args:
        x: (vertices,), int32 or int64, each once.
        neighbors: Those of the first vertex, then those of the second, ….
        count: (vertices,), how many each has.
        value_buffer: Has no meaning here.
        index_buffer: Has no meaning here.
        name: Ignored.

    Returns:
        Edges by new numbers, from neighbours to vertices: where they begin, where they
        end; and the old number of each new one, of which x are the first.

    Raises:
        ShapeError: If count does not fit x and neighbors.
    """
    return _renumbered("reindex_graph", x, [neighbors], [count])


def reindex_heter_graph(
    x: Tensor,
    neighbors: Sequence[Tensor],
    count: Sequence[Tensor],
    value_buffer: Tensor | None = None,
    index_buffer: Tensor | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for several kinds of edges, whose edges follow one another.

    Args:
        x: As of `reindex_graph`.
        neighbors: One for each kind.
        count: Likewise.
        value_buffer: Has no meaning here.
        index_buffer: Has no meaning here.
        name: Ignored.
    """
    return _renumbered("reindex_heter_graph", x, neighbors, count)


def _renumbered(
    where: str, x: Tensor, neighbors: Sequence[Tensor], counts: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    vertices = x.numpy()
    if vertices.ndim != 1 or any(n.ndim != 1 for n in neighbors):
        raise ShapeError(
            where,
            "expected x and neighbors with 1 axis",
            (tuple(x.shape), *(tuple(n.shape) for n in neighbors)),
        )
    if not neighbors or len(neighbors) != len(counts):
        raise InvalidArgumentError(
            f"[{where}] expected neighbors and count of as many kinds of edges, at "
            f"least one, got {len(neighbors)} and {len(counts)}"
        )
    targets: list[_Ints] = []
    for near, count in zip(neighbors, counts, strict=True):
        number = count.numpy()
        fits = number.shape == vertices.shape and number.sum() == near.size
        if not fits or (number < 0).any():
            raise ShapeError(
                where,
                "count must have one number of neighbors for each element of x",
                (tuple(x.shape), tuple(near.shape), tuple(count.shape)),
            )
        targets.append(np.repeat(np.arange(len(vertices)), number))
    sources = np.concatenate([n.numpy() for n in neighbors])
    every = np.concatenate([vertices, sources])
    known, first, place = np.unique(every, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    begins = rank[place.reshape(-1)[len(vertices) :]]
    kind = vertices.dtype
    arrays = (begins, np.concatenate(targets), known[order])
    begin, end, old = (to_tensor(a.astype(kind)) for a in arrays)
    return begin, end, old
