"""Samples as what a run is fed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

import proa
from proa.errors import UnavailableError
from proa.static.program import Program
from proa.static.variable import Variable
from proa.tensor.lod import LoDTensor, create_lod_tensor

Samples = Iterable[Sequence[Any]]


class DataFeeder:
    """Makes batches of samples into what `Executor.run` is fed.

    Args:
        feed_list: The inputs, or their names, in the order of a sample's entries.
        place: Kept for callers: there is one device.
        program: The program of these names; None for the one that is built.
    """

    def __init__(
        self,
        feed_list: Sequence[Variable | str],
        place: object,
        program: Program | None = None,
    ) -> None:
        self._program = program or proa.static.default_main_program()
        self._inputs: list[Any] = [
            self._program.find(v, "DataFeeder") if isinstance(v, str) else v
            for v in feed_list
        ]

    def feed(self, iterable: Samples) -> dict[str, Any]:
        """Arrays by name; LoDTensors where samples have sequences."""
        columns = zip(*iterable, strict=True)
        return {
            variable.name: self._batch(variable, list(column))
            for variable, column in zip(self._inputs, columns, strict=True)
        }

    def _batch(self, variable: Any, column: list[Any]) -> Any:
        dtype, levels = variable.dtype.name, self._levels(variable)
        shape = [int(n) for n in variable.shape[1:]]
        if not levels:
            arrays = [np.asarray(entry, dtype) for entry in column]
            whole = np.stack(arrays)
            known = all(n >= 0 for n in shape)
            return whole.reshape(len(column), *shape) if known else whole
        lengths: list[list[int]] = []
        for _ in range(levels):
            lengths.append([len(entry) for entry in column])
            column = [part for entry in column for part in entry]
        rows = np.asarray(column, dtype).reshape(len(column), *shape)
        return create_lod_tensor(rows, lengths)

    def _levels(self, variable: Any) -> int:
        return int(self._program.lod_levels.get(variable.name, 0))


def create_random_int_lodtensor(
    recursive_seq_lens: Sequence[Sequence[int]],
    base_shape: Sequence[int],
    place: object,
    low: int,
    high: int,
) -> LoDTensor:
    """Rows of sequences of these lengths, of numbers from low to high."""
    shape = [sum(recursive_seq_lens[-1]), *base_shape]
    rows = np.random.randint(low, high + 1, shape).astype("int64")
    tensor: LoDTensor = create_lod_tensor(rows, recursive_seq_lens)
    return tensor


class LoDTensorArray(list[Any]):
    """A list of tensors on the host."""


def cuda_pinned_places(device_count: int | None = None) -> NoReturn:
    """Refused, as by 1.x where there is no GPU.

    Raises:
        UnavailableError: Always.
    """
    raise UnavailableError(
        "[cuda_pinned_places] expected a GPU, got a build for the CPU alone"
    )


def memory_optimize(
    input_program: object,
    skip_opt_set: object = None,
    print_log: bool = False,
    level: int = 0,
    skip_grads: bool = False,
) -> None:
    """Does nothing: the memory of runs is planned."""


def release_memory(input_program: object, skip_opt_set: object = None) -> None:
    """Does nothing: the memory of runs is planned."""
