"""Some of the neighbours of vertices, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor
from proa.errors import InvalidArgumentError, InvalidTypeError, OutOfRangeError
from proa.tensor.creation import to_tensor
from proa.tensor.random import rand


def sample_neighbors(
    row: Tensor,
    colptr: Tensor,
    input_nodes: Tensor,
    sample_size: int = -1,
    eids: Tensor | None = None,
    return_eids: bool = False,
    perm_buffer: Tensor | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """At most sample_size neighbours of each vertex, each as likely, none twice.

    Args:
        row: Neighbours: those of vertex v are row[colptr[v]:colptr[v + 1]].
        colptr: (vertices + 1,), int32 or int64.
        input_nodes: The vertices.
        sample_size: How many to draw; -1 takes all.
        eids: Numbers of the edges, as of row.
        return_eids: Whether the drawn edges' numbers are returned too.
        perm_buffer: Has no meaning here.
        name: Ignored.

    Returns:
        (neighbours, count), and the edges' numbers if they are requested: those of the
        first vertex, then those of the second; and how many each has.

    Raises:
        InvalidArgumentError: If return_eids and there are none.
    """
    where = "sample_neighbors"
    return _drawn(where, row, colptr, None, input_nodes, sample_size, eids, return_eids)


def weighted_sample_neighbors(
    row: Tensor,
    colptr: Tensor,
    edge_weight: Tensor,
    input_nodes: Tensor,
    sample_size: int = -1,
    eids: Tensor | None = None,
    return_eids: bool = False,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """The same with chances in proportion to the edges' weights.

    Edges are taken in the order of exponential times with the weights as rates, which
    draws one after another without putting back (Efraimidis & Spirakis, 2006).

    Args:
        row: As of `sample_neighbors`, like the next.
        colptr: See there.
        edge_weight: Weights of the edges, as of row; positive.
        input_nodes: As of `sample_neighbors`, like the following.
        sample_size: See there.
        eids: See there.
        return_eids: See there.
        name: Ignored.
    """
    where = "weighted_sample_neighbors"
    return _drawn(
        where, row, colptr, edge_weight, input_nodes, sample_size, eids, return_eids
    )


def _integers(where: str, name: str, x: Tensor) -> NDArray[Any]:
    if not x.dtype.is_integer:
        raise InvalidTypeError(f"[{where}] expected {name} of integers, got {x.dtype}")
    return x.numpy().reshape(-1)


def _ranges(
    where: str, edges: int, bounds: NDArray[Any], nodes: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where the edges of each node begin, and how many there are."""
    if nodes.size and not 0 <= nodes.min() <= nodes.max() < bounds.size - 1:
        raise OutOfRangeError(
            f"[{where}] expected input_nodes from 0 to {bounds.size - 2}, the last "
            f"vertex of colptr, got {nodes.min()} to {nodes.max()}"
        )
    # Indices of NumPy, which unsigned ones that were added to are not.
    nodes, bounds = nodes.astype(np.int64), bounds.astype(np.int64)
    begins, ends = bounds[nodes], bounds[nodes + 1]
    if (begins < 0).any() or (ends < begins).any() or (ends > edges).any():
        raise InvalidArgumentError(
            f"[{where}] expected colptr to rise from 0 to at most the {edges} edges of "
            f"row, got {bounds.tolist()!r:.80}"
        )
    return begins, ends - begins


def _drawn(
    where: str,
    row: Tensor,
    colptr: Tensor,
    weight: Tensor | None,
    input_nodes: Tensor,
    sample_size: int,
    eids: Tensor | None,
    return_eids: bool,
) -> tuple[Tensor, ...]:
    if return_eids and eids is None:
        raise InvalidArgumentError(
            f"[{where}] expected eids with return_eids=True, got None"
        )
    near = _integers(where, "row", row)
    bounds = _integers(where, "colptr", colptr)
    nodes = _integers(where, "input_nodes", input_nodes)
    begins, counts = _ranges(where, near.size, bounds, nodes)
    owner = np.repeat(np.arange(nodes.size), counts)
    first = np.cumsum(counts) - counts
    edges: NDArray[Any] = np.arange(owner.size) - first[owner] + begins[owner]
    if 0 <= sample_size < counts.max(initial=0):
        times = rand([edges.size], "float64").numpy()
        if weight is not None:
            times = -np.log1p(-times) / weight.numpy().reshape(-1)[edges]
        # Edges by vertex and time: the first of each vertex are drawn.
        order = np.lexsort((times, owner))
        drawn = np.sort(order[np.arange(owner.size) - first[owner] < sample_size])
        edges, counts = edges[drawn], np.minimum(counts, sample_size)
    found = [near[edges], counts.astype(near.dtype)]
    if return_eids and eids is not None:
        found.append(eids.numpy().reshape(-1)[edges])
    return tuple(to_tensor(a) for a in found)
