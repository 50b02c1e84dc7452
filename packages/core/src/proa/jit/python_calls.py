"""Python functions as operators of recorded programs.

A recorded program calls the functions of the process that recorded it. It names them by
a number, which means nothing elsewhere: such a program cannot become a model file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proa import _core
from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.schema.extension import add_row
from proa.tensor.creation import to_tensor

Function = Callable[..., Any]
#: A size, or (input, axis): the size that this input has.
Size = int | tuple[int, int]


@dataclass(frozen=True, eq=False)
class Callback:
    """A function with the shapes and dtypes of its results.

    Attributes:
        function: Called with the first `count` of the inputs.
        shapes: Shapes of the results; symbolic dimensions name an input.
        dtypes: Dtypes of the results.
        count: Further inputs are for their sizes alone.
    """

    function: Function
    shapes: tuple[tuple[Size, ...], ...]
    dtypes: tuple[str, ...]
    count: int

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def infer(self, inputs: Sequence[Any]) -> list[tuple[list[int], str]]:
        """(shape, dtype) of each result, from those of the inputs."""
        found = []
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            sizes = [s if isinstance(s, int) else inputs[s[0]][0][s[1]] for s in shape]
            found.append((sizes, dtype))
        return found

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The function's results; None means zeros."""
        result = self.function(*inputs[: self.count])
        several = isinstance(result, (list, tuple))
        given = list(result) if several else [result]
        if not self.shapes:
            return []
        specs = self.infer([(x.shape, x.dtype) for x in inputs])
        if len(given) != len(specs):
            raise InvalidArgumentError(
                f"[py_func] {self.name} must return {len(specs)} results, "
                f"got {len(given)}"
            )
        return [self._checked(r, *s) for r, s in zip(given, specs, strict=True)]

    def _checked(self, result: Any, shape: list[int], dtype: str) -> Tensor:
        if result is None:
            return ops.full(shape=shape, value=0, dtype=as_dtype(dtype))
        output = result if isinstance(result, Tensor) else to_tensor(np.asarray(result))
        if output.dtype.name != dtype:
            raise InvalidArgumentError(
                f"[py_func] {self.name} must return {dtype}, got {output.dtype.name}"
            )
        sizes = zip(output.shape, shape, strict=False)
        if output.ndim != len(shape) or any(m not in (n, -1) for n, m in sizes):
            raise ShapeError(
                "py_func", f"{self.name} must return shape {tuple(shape)}", output.shape
            )
        return output


#: Those that programs name, by their number, for as long as the process runs.
_callbacks: list[Callback] = []
_keys: dict[Any, int] = {}


def _dispatch(key: int, inputs: Sequence[Any], infers: bool) -> Any:
    """What a recorded program calls: a callback, or the inference of its results."""
    callback = _callbacks[key]
    if infers:
        return [
            (shape, as_dtype(dtype)) for shape, dtype in callback.infer(inputs)
        ] or [([0], as_dtype("bool"))]
    enabled = _core.set_grad_enabled(False)
    try:
        results = callback.run(inputs)
    except InvalidArgumentError:
        raise
    except Exception as error:
        raise InvalidArgumentError(
            f"[py_func] {callback.name} raised {type(error).__name__}: {error}"
        ) from error
    finally:
        _core.set_grad_enabled(enabled)
    return results or [ops.full(shape=[0], value=False, dtype=as_dtype("bool"))]


def _operator(outputs: int) -> Any:
    """The operator with so many outputs, known to graphs from its first use on."""
    name = f"py_func_{outputs}" if outputs else "py_call"
    if not hasattr(ops, name):
        _, _, result, attributes, function = _core.define_operator(
            name, max(outputs, 1), _dispatch
        )
        names = [output for output, _ in result]
        add_row(name, names, attributes, calls_python=True, effect=not outputs)
        setattr(ops, name, function)
    return getattr(ops, name)


def _number_of(callback: Callback) -> int:
    """Its number, of which equal ones have the same. One thread records at a time."""
    known = (id(callback.function), callback.shapes, callback.dtypes, callback.count)
    number = _keys.setdefault(known, len(_callbacks))
    if number == len(_callbacks):
        _callbacks.append(callback)
    return number


def call_python(callback: Callback, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Run the callback, or record that it is to be run."""
    if not any(x._is_symbolic for x in inputs):
        return callback.run(inputs)
    results = _operator(len(callback.shapes))(
        *inputs, input_counts=[len(inputs)], key=_number_of(callback)
    )
    if not callback.shapes:
        return []
    return [results] if isinstance(results, Tensor) else list(results)
