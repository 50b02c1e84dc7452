"""Handles on the inputs and outputs of a predictor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa_inference.arguments import integer
from proa_inference.types import DataType, PlaceType

Array = NDArray[Any]
#: Offsets of sequences along the first axis, a list for each level.
LoD = list[list[int]]


@dataclass(frozen=True)
class TensorSpec:
    """Name, dtype and shape of an input or output; -1 is a dimension that may vary.

    NumPy lacks bfloat16: arrays of it have dtype uint16 and `type` BFLOAT16.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    type: DataType


@dataclass
class Held:
    """What handles were given and what runs computed, by name."""

    arrays: dict[str, Array] = field(default_factory=dict)
    lod: dict[str, LoD] = field(default_factory=dict)


class Tensor:
    """A handle on one input or output of a predictor.

    It takes part in DLPack: `np.from_dlpack(handle)` and others read its
    array in place.
    """

    def __init__(self, spec: TensorSpec, held: Held, *, is_input: bool) -> None:
        self._spec, self._held, self._is_input = spec, held, is_input

    def name(self) -> str:
        """Name of the input or output."""
        return self._spec.name

    def type(self) -> DataType:
        """Its dtype."""
        return self._spec.type

    def place(self) -> PlaceType:
        """Where its memory is: the CPU."""
        return PlaceType.CPU

    def shape(self) -> list[int]:
        """Shape of the array it holds now; before that, what the model states."""
        held = self._held.arrays.get(self._spec.name)
        return list(self._spec.shape if held is None else held.shape)

    def reshape(self, shape: Sequence[int] | int) -> None:
        """Give an input a new array of zeros of that shape, to be filled.

        Raises:
            InvalidArgumentError: If the handle is an output's or a size is negative.
        """
        given = list(shape) if isinstance(shape, Iterable) else [shape]
        sizes = [integer("Tensor.reshape", "sizes", size, 0) for size in given]
        self.share_external_data(np.zeros(sizes, self._spec.dtype))

    def mutable_data(self) -> Array:
        """The array of an input, to be written in place.

        Raises:
            PreconditionNotMetError: If `reshape` or a copy did not make one.
        """
        self._check_input()
        return self.copy_to_cpu()

    def copy_from_cpu(self, data: Any) -> None:
        """Set the input to a copy of an array.

        Raises:
            InvalidArgumentError: As of `share_external_data`.
        """
        self._set(np.array(_array_of(data), order="C"))

    def share_external_data(self, data: Any) -> None:
        """Set the input to an array itself, which `run` then reads in place.

        Args:
            data: An array, a tensor, or anything with `__dlpack__`, on the CPU.

        Raises:
            InvalidArgumentError: If the handle is an output's, the dtype is not the
                input's, or it is no array of numbers.
        """
        self._set(_array_of(data))

    def _set(self, data: Array) -> None:
        self._check_input()
        if data.dtype != self._spec.dtype:
            raise InvalidArgumentError(
                f"[Tensor] input {self.name()!r} must be {self._spec.dtype}, "
                f"got {data.dtype}"
            )
        self._held.arrays[self._spec.name] = data
        self._held.lod.pop(self._spec.name, None)

    def _check_input(self) -> None:
        if not self._is_input:
            raise InvalidArgumentError(
                f"[Tensor] data can only be given to an input, got the output "
                f"{self.name()!r}"
            )

    def copy_to_cpu(self) -> Array:
        """The array of an output after `run`, or of an input.

        Raises:
            PreconditionNotMetError: If there is none yet.
        """
        held = self._held.arrays.get(self._spec.name)
        if held is None:
            must = "be given" if self._is_input else "be computed by run()"
            raise PreconditionNotMetError(
                f"[Tensor] {self.name()!r} must {must} before it is read, got no data"
            )
        return held

    numpy = copy_to_cpu

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Say how rows of an input belong to sequences.

        It is kept for those that read the handle: operators take lengths as inputs of
        their own.

        Args:
            lod: For each level offsets that begin with 0 and do not fall; the last ends
                with the number of rows.

        Raises:
            InvalidArgumentError: If it is built otherwise.
        """
        levels = [[int(offset) for offset in level] for level in lod]
        rows = self.shape()[:1]
        for i, level in enumerate(levels):
            last = i + 1 == len(levels)
            end = (rows[0] if rows else 0) if last else len(levels[i + 1]) - 1
            rises = all(a <= b for a, b in pairwise(level))
            if not level or level[0] != 0 or not rises or end not in (level[-1], -1):
                raise InvalidArgumentError(
                    "[Tensor.set_lod] expected offsets from 0 that do not fall, the "
                    f"last {end} at level {i}, got {level}"
                )
        self._held.lod[self._spec.name] = levels

    def lod(self) -> LoD:
        """What `set_lod` said of the array it holds; empty if nothing."""
        return [list(level) for level in self._held.lod.get(self._spec.name, [])]

    def __dlpack__(self, **options: Any) -> Any:
        return self.copy_to_cpu().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU


def _array_of(data: Any) -> Array:
    if isinstance(data, np.ndarray):
        array: Array = data
    elif hasattr(data, "__dlpack__"):
        array = np.from_dlpack(data)
    else:
        array = np.asarray(data)
    if array.dtype.kind not in "biufc":
        raise InvalidArgumentError(
            f"[Tensor] expected an array of numbers, got one of {array.dtype}"
        )
    return array
