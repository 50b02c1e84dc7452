"""Sequences of rows in a program: which Variables' rows make them.

Data with levels of lengths have inputs next to them, for each level's lengths and for
the numbers of steps. A run that is fed a LoDTensor is fed these, too. What is computed
row by row of such data keeps their sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from proa._core import Tensor
from proa.errors import Error, InvalidArgumentError
from proa.ir.program import Node, Value
from proa.ir.shapes import infer
from proa.nn.sequences import RowSequences, index_of
from proa.tensor.lod import LoDTensor, with_lengths

if TYPE_CHECKING:
    from proa.static.program import Program
    from proa.static.variable import Variable

#: An unlikely size, by which an operator's rows are known among what it makes.
_PROBE = 7919


def lengths_name(name: str, level: int) -> str:
    """The input that has a level's lengths."""
    return f"{name}@LENGTHS_{level}"


def steps_name(name: str) -> str:
    """The input that has the numbers of steps, as many as the longest sequence."""
    return f"{name}@STEPS"


def companion_names(name: str, levels: int) -> list[str]:
    """All inputs next to data with so many levels."""
    if not levels:
        return []
    return [*(lengths_name(name, k) for k in range(levels)), steps_name(name)]


def declare(program: Program, variable: Variable, levels: int) -> None:
    """Let rows of data make sequences."""
    if variable.ndim < 1:
        raise InvalidArgumentError(
            f"[static.data] expected rows for lod_level={levels}, got shape []"
        )
    results = []
    for name in companion_names(variable.name, levels):
        companion = program.add_data(name, "int64", [-1])
        companion.stop_gradient = True
        results.append(companion)
    program.lod_levels[variable.name] = levels
    program.sequences[variable._handle[1]] = RowSequences(
        [*results[:-1]], results[-1], variable.detach()
    )


def companion_feed(name: str, given: LoDTensor) -> dict[str, Tensor]:
    """What is fed with a LoDTensor."""
    levels = given.recursive_sequence_lengths()
    found = {lengths_name(name, k): index_of(own) for k, own in enumerate(levels)}
    found[steps_name(name)] = index_of(np.arange(max(levels[-1], default=0)))
    return found


def with_lengths_fed(program: Program, feed: Mapping[str, Any]) -> Mapping[str, Any]:
    """A feed with the lengths of its LoDTensors.

    Raises:
        InvalidArgumentError: If data with levels is fed something else.
    """
    whole = dict(feed)
    for name, levels in program.lod_levels.items():
        given = feed.get(name)
        if given is None or lengths_name(name, 0) in feed:
            continue
        have = len(given._lengths) if isinstance(given, LoDTensor) else 0
        if have != levels:
            raise InvalidArgumentError(
                f"[Executor.run] {name!r} must be fed a LoDTensor with {levels} levels "
                f"of lengths, got {type(given).__name__} with {have}"
            )
        whole.update(companion_feed(name, given))
    return whole


def share(program: Program, node: Node) -> None:
    """Let what a node makes row by row have the sequences of what it reads: of several,
    those that have as many rows, and else, where all must have as many, the first ones.
    """
    held = program.sequences
    read = [held[v] for v in node.inputs if v is not None and v in held]
    if read and not _share(held, node, {id(own): own for own in read}):
        _share(held, node, dict.fromkeys(map(id, read), read[0]))


def _share(
    held: dict[Value, RowSequences], node: Node, groups: Mapping[int, RowSequences]
) -> bool:
    """Give the node's outputs the sequences of one of the groups; whether its shapes
    can be inferred where each group has a number of rows of its own.
    """
    probes: dict[int, tuple[int, RowSequences]] = {}
    inputs: list[Any] = []
    for value in node.inputs:
        found = held.get(value) if value is not None else None
        if value is None or found is None:
            inputs.append(value)
            continue
        own = groups[id(found)]
        size = value.shape[0]
        if size < 0:
            size = probes.setdefault(id(own), (_PROBE + 2 * len(probes), own))[0]
        else:
            probes.setdefault(id(own), (size, own))
        inputs.append(Value(value.name, value.dtype, (size, *value.shape[1:])))
    try:
        specs = infer(node.op, inputs, node.attrs)
    except Error:
        return False
    sizes = dict(reversed(list(probes.values())))
    for value, (_, shape) in zip(node.outputs, specs, strict=True):
        if shape and shape[0] in sizes:
            held[value] = sizes[shape[0]]
    return True


def copied_sequences(
    program: Program, clone: Program, values: Mapping[Value, Value]
) -> dict[Value, RowSequences]:
    """The sequences of a copy, whose Variables have the names of the first one's."""
    known: dict[int, RowSequences | None] = {}

    def own(sequences: RowSequences) -> RowSequences | None:
        parts = [*sequences.levels, sequences.steps, sequences.rows]
        if any(t is not None and t.name not in clone.vars for t in parts):
            return None
        found = [None if t is None else clone.vars[t.name] for t in parts]
        levels: list[Any] = found[:-2]
        return RowSequences(levels, found[-2], found[-1])

    results = {}
    for value, sequences in program.sequences.items():
        if id(sequences) not in known:
            known[id(sequences)] = own(sequences)
        twins = known[id(sequences)]
        if value in values and twins is not None:
            results[values[value]] = twins
    return results


def level_names(program: Program, name: str) -> list[str]:
    """The Variables that have the lengths of another one's rows, by level."""
    variable = program.vars.get(name)
    found = None if variable is None else program.sequences.get(variable._handle[1])
    return [] if found is None else [level.name for level in found.levels]


def as_fetched(results: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
    """Fetches with lengths, of each fetch followed by its levels.

    Args:
        counts: How many levels each has.
    """
    found, at = [], 0
    for count in counts:
        value, levels = results[at], results[at + 1 : at + 1 + count]
        at += 1 + count
        lists = [[int(n) for n in level.numpy()] for level in levels]
        found.append(with_lengths(value, lists) if lists else value)
    return found
