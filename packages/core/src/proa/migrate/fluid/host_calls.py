"""Functions of arrays as operators of programs, whose results may have any sizes.

Paddle 1.x computes much of detection and of search on the CPU, with results whose sizes
follow from the data. Here such an operator is a function of arrays, called twice: a
first call gives sizes, which shape the results of a second one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor, ops
from proa.autograd import no_grad
from proa.base.dtype import as_dtype
from proa.jit.python_calls import Callback, Size, call_python
from proa.nn.sequences import RowSequences, counted
from proa.static.nn.sequence_arguments import (
    has_sequences,
    sequences_of,
    with_sequences,
)
from proa.tensor.creation import as_tensor
from proa.tensor.lod import with_lengths

Array = NDArray[Any]
#: How many results one operator may have.
_RESULTS = 8


@dataclass
class Rows:
    """Rows of sequences, with lengths by level."""

    array: Array
    lengths: list[list[int]]

    def parts(self) -> list[Array]:
        """The rows of each sequence."""
        return list(np.split(self.array, np.cumsum(self.lengths[-1])[:-1]))


@dataclass(frozen=True)
class Like:
    """What a result is like.

    Attributes:
        dtype: Its dtype.
        shape: Its sizes; None for one that the function decides.
        levels: How many levels of lengths it has.
    """

    dtype: str
    shape: tuple[int | None, ...]
    levels: int = 0


@dataclass(eq=False)
class _Call:
    """A function of arrays and `Rows`.

    Attributes:
        function: Gives an array, or `Rows` where there are levels, for each result.
        levels: How many levels of lengths follow each input.
        likes: The results.
    """

    function: Callable[..., Sequence[Any]]
    levels: tuple[int, ...]
    likes: tuple[Like, ...]
    _results: list[Array] | None = field(default=None, init=False)

    def _inputs(self, given: Sequence[Tensor]) -> list[Any]:
        found: list[Any] = []
        at = 0
        for count in self.levels:
            array = given[at].numpy()
            lengths = [given[at + 1 + k].numpy().tolist() for k in range(count)]
            found.append(Rows(array, lengths) if count else array)
            at += 1 + count
        return found

    def results(self, given: Sequence[Tensor]) -> list[Any]:
        """What the function gives."""
        found = self.function(*self._inputs(given))
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def _flat(self, given: Sequence[Tensor]) -> list[Array]:
        """The results, each followed by its lengths."""
        flat: list[Array] = []
        for like, found in zip(self.likes, self.results(given), strict=True):
            array = found.array if isinstance(found, Rows) else found
            flat.append(np.asarray(array, like.dtype))
            if isinstance(found, Rows):
                flat += [np.asarray(own, "int64") for own in found.lengths]
        return flat

    def sizes(self, *given: Tensor) -> Array:
        """The sizes that the function decides; results are kept for the next call."""
        self._results = self._flat(given)
        free = [axes for axes, _ in self.specs()]
        return np.asarray(
            [
                a.shape[k]
                for a, axes in zip(self._results, free, strict=True)
                for k in axes
            ],
            "int64",
        )

    def arrays(self, given: Sequence[Tensor], part: slice) -> list[Array]:
        """Some of the results that belong to the sizes before, in their order."""
        result = self._flat(given) if self._results is None else self._results
        self._results = None if part.stop >= len(result) else result
        return result[part]

    def specs(self) -> list[tuple[list[int], Like]]:
        """The axes of free sizes of each result and of its lengths, and what it is."""
        found = []
        for like in self.likes:
            free = [k for k, size in enumerate(like.shape) if size is None]
            found.append((free, like))
            found += [([0], Like("int64", (None,)))] * like.levels
        return found


@dataclass(frozen=True, eq=False)
class _Part:
    """Some of the results of a call, as a function of its inputs."""

    call: _Call
    part: slice

    def __call__(self, *given: Tensor) -> list[Array]:
        return self.call.arrays(given, self.part)


def on_host(
    function: Callable[..., Any], inputs: Sequence[Tensor], likes: Sequence[Like]
) -> list[Tensor]:
    """What a function of arrays gives, computed at once or by each run of a program.

    Args:
        function: Takes an array for each input, `Rows` for those of sequences; returns
            the same for each result. No gradient flows.
        inputs: Tensors, of which some may be Variables.
        likes: What results are like.
    """
    given: list[Tensor] = []
    levels = []
    for x in inputs:
        own = sequences_of("fluid", x).levels if has_sequences(x) else []
        given += [x, *own]
        levels.append(len(own))
    call = _Call(function, tuple(levels), tuple(likes))
    with no_grad():
        if not any(x._is_symbolic for x in given):
            return _at_once(call, given)
        return _recorded(call, given)


def _at_once(call: _Call, given: list[Tensor]) -> list[Tensor]:
    results: list[Tensor] = []
    for like, found in zip(call.likes, call.results(given), strict=True):
        if isinstance(found, Rows):
            rows = as_tensor(np.asarray(found.array, like.dtype))
            results.append(with_lengths(rows, found.lengths))
        else:
            results.append(as_tensor(np.asarray(found, like.dtype)))
    return results


def _recorded(call: _Call, given: list[Tensor]) -> list[Tensor]:
    specs = call.specs()
    count = sum(len(free) for free, _ in specs)
    numbers: list[Tensor] = []
    if count:
        counting = Callback(call.sizes, ((count,),), ("int64",), len(given))
        (sizes,) = call_python(counting, given)
        numbers = [counted(ops.select(sizes, axis=0, index=k)) for k in range(count)]
    all_shapes: list[tuple[Size, ...]] = []
    at = len(given)
    for free, like in specs:
        shape: list[Size] = []
        for k, size in enumerate(like.shape):
            shape.append((at, 0) if k in free else size or 0)
            at += k in free
        all_shapes.append(tuple(shape))
    shapes = tuple(all_shapes)
    dtypes = tuple(as_dtype(like.dtype).name for _, like in specs)
    flat: list[Tensor] = []
    for first in range(0, len(specs), _RESULTS):
        part = slice(first, first + _RESULTS)
        second = Callback(_Part(call, part), shapes[part], dtypes[part], len(given))
        flat += [t.detach() for t in call_python(second, [*given, *numbers])]
    results: list[Tensor] = []
    place = 0
    for like in call.likes:
        rows, own = flat[place], flat[place + 1 : place + 1 + like.levels]
        place += 1 + like.levels
        rows.stop_gradient = True
        results.append(
            with_sequences(rows, RowSequences(own, None, rows)) if own else rows
        )
    return results
