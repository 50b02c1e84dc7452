"""Pads inputs to a few sizes, so that requests of different sizes share batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from proa_serving.protocol.errors import InvalidRequestError
from proa_serving.protocol.messages import Array
from proa_serving.schedule.merge import Arrays


@dataclass(frozen=True)
class Bucket:
    """One input's axis, and the sizes that it is padded to.

    The model must give the same for the elements that were there; one that cannot
    know them takes their number as the input ``length``.

    Args:
        input: The model's input.
        axis: The axis that is padded; 0 is the batch.
        sizes: From small to large; what is larger than all is not padded.
        value: What is put after the elements.
        length: An input of INT64, one for each row, that gets the size before.
        outputs: Outputs and the axis of each that is cut to the size before.
    """

    input: str
    axis: int
    sizes: tuple[int, ...]
    value: float = 0.0
    length: str = ""
    outputs: tuple[tuple[str, int], ...] = ()

    def pad(self, arrays: Arrays) -> tuple[Arrays, int]:
        """``arrays`` with the input padded, and the size it had."""
        array = arrays[self.input]
        if array.ndim <= self.axis:
            raise InvalidRequestError(
                f"input {self.input!r}",
                f"must have more than {self.axis} dims, got {array.ndim}",
            )
        size = array.shape[self.axis]
        wanted = next((each for each in self.sizes if each >= size), size)
        if wanted != size:
            shape = list(array.shape)
            shape[self.axis] = wanted
            padded = np.full(shape, self.value, array.dtype)
            at = [slice(None)] * array.ndim
            at[self.axis] = slice(size)
            padded[tuple(at)] = array
            arrays = {**arrays, self.input: padded}
        if self.length:
            arrays = {**arrays, self.length: np.full(array.shape[0], size, np.int64)}
        return arrays, size

    def crop(self, outputs: Mapping[str, Array], size: int) -> dict[str, Array]:
        """``outputs`` with their padded elements cut off."""
        found = dict(outputs)
        for name, axis in self.outputs:
            if name in found and found[name].ndim > axis:
                at = [slice(None)] * axis + [slice(size)]
                found[name] = found[name][tuple(at)]
        return found


def pad_all(buckets: Sequence[Bucket], arrays: Arrays) -> tuple[Arrays, list[int]]:
    """``arrays`` padded by each of ``buckets``, and the sizes before."""
    sizes = []
    for bucket in buckets:
        arrays, size = bucket.pad(arrays)
        sizes.append(size)
    return arrays, sizes


def crop_all(
    buckets: Sequence[Bucket], outputs: Mapping[str, Array], sizes: Sequence[int]
) -> Mapping[str, Array]:
    """``outputs`` cut to the ``sizes`` before padding."""
    for bucket, size in zip(buckets, sizes, strict=True):
        outputs = bucket.crop(outputs, size)
    return outputs
