"""Sparse weights in a model file: a bit for each element, and those that are not zero.

The graph makes the dense array of them by operators that every runtime has, so that the
file needs no other reader: with m the bits, position = m * cumsum(m), and an element is
the one at its position among (0, values...). The sum is a product with a triangular
matrix in groups of 64 elements, plus the number of values before the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

import proa
from proa.errors import InvalidArgumentError
from proa.ir import file
from proa.ir.builder import Builder
from proa.ir.program import Array, Block, Node, Program, Value
from proa_slim.quant.recording import program_of

#: Smaller weights stay dense: operators would outweigh what is saved.
_SMALLEST = 1024
#: Elements that are counted together.
_GROUP = 64
#: A bit for each element and an int32 for each group, as a share of float32.
_COST = (1 + 32 / _GROUP) / 32


def save_sparse(
    network: proa.nn.Layer,
    path: str | PathLike[str],
    input_spec: Sequence[Any],
    min_saving: float = 0.1,
) -> dict[str, float]:
    """Write a model file in which weights with many zeros take less room.

    An element costs 1.5 bits, and four bytes if it is not zero: a 2:4 weight takes 0.55
    of its dense size, one with 90 % zeros 0.15. Results are those of the dense file,
    bit for bit.

    Args:
        network: Is not changed; recorded in evaluation mode.
        path: Path of the file.
        input_spec: As for `proa.jit.save`.
        min_saving: A weight is stored so if that saves at least this share of it.

    Returns:
        For each weight that is stored so, the share of its elements that is zero.

    Raises:
        InvalidArgumentError: If `min_saving` is not in [0, 1).
    """
    if not 0 <= min_saving < 1:
        raise InvalidArgumentError(
            f"[save_sparse] expected min_saving in [0, 1), got {min_saving}"
        )
    program = program_of(network, input_spec)
    found: dict[str, float] = {}
    store: _Storing | None = None
    for value in program.main.constants():
        array = np.asarray(value.data)
        if value.dtype != "float32" or array.size < _SMALLEST:
            continue
        share = float((array == 0).mean())
        if share - _COST >= min_saving:
            found[value.name] = share
            store = store or _Storing(program)
            store(value, array)
    program.metadata["sparsity"] = f"{len(found)} weights by bits and values"
    file.write(program, path)
    return found


class _Storing:
    """Replaces constants of a program by their bits and values."""

    def __init__(self, program: Program) -> None:
        self.program = program
        # (64, 64): a row of bits times it counts the bits up to each.
        self._upper = program.constant(np.triu(np.ones((_GROUP, _GROUP), np.uint8)))

    def __call__(self, value: Value, array: Array) -> None:
        flat = array.ravel()
        mask = np.zeros(-(-flat.size // _GROUP) * _GROUP, np.bool_)
        mask[: flat.size] = flat != 0
        counts = mask.reshape(-1, _GROUP).sum(axis=1)
        build = Builder(self.program, Block())  # goes before the first that reads
        packed = self._constant(
            value, "bits", np.packbits(mask, bitorder="little")[:, None]
        )
        before = np.cumsum(counts) - counts
        base = self._constant(value, "base", before.astype(np.int32)[:, None])
        values = np.concatenate([np.zeros(1, np.float32), flat[flat != 0]])
        held = self._constant(value, "values", values)
        powers = build.constant(2 ** np.arange(8, dtype=np.uint8)[None, :])
        one = build.constant(np.ones((1, 1), np.uint8))
        bits = build.bitwise_and(build.floor_div(packed, powers), one)  # (n / 8, 8)
        rows = build.reshape(bits, shape=[len(counts), _GROUP])
        upper = build.cast(self._upper, dtype="float32")
        within = build.matmul(build.cast(rows, dtype="float32"), upper)  # at most 64
        position = build.add(build.cast(within, dtype="int32"), base)
        position = build.mul(position, build.cast(rows, dtype="int32"))
        position = build.reshape(position, shape=[mask.size])
        dense = build.gather(held, position, axis=0)
        if mask.size != flat.size:
            ends = [flat.size]
            dense = build.slice(dense, axes=[0], starts=[0], ends=ends, steps=[1])
        dense = build.reshape(dense, shape=list(array.shape))
        results: list[Node] = list(build.block.nodes)
        build.block.nodes.clear()
        first = min(self.program.main.nodes.index(user) for user in value.users)
        self.program.main.nodes[first:first] = results
        self.program.main.replace(value, dense)

    def _constant(self, value: Value, what: str, array: Array) -> Value:
        return self.program.constant(array, name=f"{value.name}.{what}")
