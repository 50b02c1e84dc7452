"""Sparse weights in a model file: a bit for each element, and those that are not zero.

The graph makes the dense array of them by operators that every runtime has, so that the
file needs no other reader: with m the bits, position = m * cumsum(m), and an element is
the one at its position among (0, values...).
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
from proa_slim.quant.post_training import program_of

#: Smaller weights stay dense: operators would outweigh what is saved.
_SMALLEST = 1024


def save_sparse(
    network: proa.nn.Layer,
    path: str | PathLike[str],
    input_spec: Sequence[Any],
    min_saving: float = 0.1,
) -> dict[str, float]:
    """Write a model file in which weights with many zeros take less room.

    An element costs one bit, and four bytes if it is not zero: a 2:4 weight takes 0.53
    of its dense size, one with 90 % zeros 0.13. Results are those of the dense file,
    bit for bit.

    Args:
        network: Is not changed; recorded in evaluation mode.
        path: Of the file.
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
    for value in program.main.constants():
        array = np.asarray(value.data)
        if value.dtype != "float32" or array.size < _SMALLEST:
            continue
        share = float((array == 0).mean())
        if share - 1 / 32 >= min_saving:
            found[value.name] = share
            _store(program, value, array)
    program.metadata["sparsity"] = f"{len(found)} weights by bits and values"
    file.write(program, path)
    return found


def _store(program: Program, value: Value, array: Array) -> None:
    flat = array.ravel()
    mask = flat != 0
    bits = np.packbits(mask, bitorder="little")[:, None]  # (ceil(n / 8), 1)
    values = np.concatenate([np.zeros(1, np.float32), flat[mask]])
    build = Builder(program, Block())  # its nodes go before the first that reads
    packed = Value(f"{value.name}.bits", "uint8", bits.shape, "const", bits)
    held = Value(f"{value.name}.values", "float32", values.shape, "const", values)
    powers = build.constant(2 ** np.arange(8, dtype=np.uint8)[None, :])
    one = build.constant(np.ones((1, 1), np.uint8))
    split = build.bitwise_and(build.floor_div(packed, powers), one)  # (.., 8)
    wide = build.cast(build.reshape(split, shape=[bits.size * 8]), dtype="int32")
    position = build.mul(wide, build.cumsum(wide, axis=0))
    dense = build.gather(held, position, axis=0)
    if bits.size * 8 != flat.size:
        dense = build.slice(dense, axes=[0], starts=[0], ends=[flat.size], steps=[1])
    dense = build.reshape(dense, shape=list(array.shape))
    made: list[Node] = list(build.block.nodes)
    build.block.nodes.clear()
    first = min(program.main.nodes.index(user) for user in value.users)
    program.main.nodes[first:first] = made
    program.main.replace(value, dense)
