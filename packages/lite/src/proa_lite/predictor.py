"""Config, predictor and handles over the C library."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa_lite import library
from proa_lite.errors import BY_STATUS, InvalidArgumentError, LiteError, NotFoundError

AnyArray = NDArray[Any]
#: By number; bfloat16 (7), which NumPy lacks, travels as uint16.
_DTYPES = [
    np.dtype(name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "uint16"),
        *("float32", "float64", "complex64", "complex128"),
    )
]


@dataclass(frozen=True)
class TensorSpec:
    """Name, dtype and shape of an input or output; -1 is a dimension that may vary."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Config:
    """What to load.

    Args:
        model: Path of a ``.proa`` file, or its bytes.
        library_path: A library that ``proa-lite select`` built; by default the wheel's.
    """

    def __init__(
        self,
        model: str | PathLike[str] | bytes | None = None,
        library_path: str | PathLike[str] | None = None,
    ) -> None:
        self.model = model
        self.library_path = library_path

    def set_model_from_file(self, path: str | PathLike[str]) -> None:
        """Load this file."""
        self.model = path

    def set_model_from_buffer(self, content: bytes) -> None:
        """Load the bytes of a model file."""
        self.model = bytes(content)


class Tensor:
    """A handle on one input or output."""

    def __init__(self, predictor: Predictor, spec: TensorSpec, index: int) -> None:
        self._predictor, self._spec, self._index = predictor, spec, index

    def name(self) -> str:
        """Name of the input or output."""
        return self._spec.name

    def shape(self) -> list[int]:
        """Shape of the array it holds, or as the model states it."""
        held = self._predictor._held.get(self._spec.name)
        return list(self._spec.shape if held is None else held.shape)

    def from_numpy(self, array: AnyArray) -> None:
        """Set an input; the array is read in place at the next run."""
        self._predictor._held[self._spec.name] = np.asarray(array)

    copy_from_cpu = from_numpy

    def numpy(self) -> AnyArray:
        """The array of an output after a run, or of an input.

        Raises:
            InvalidArgumentError: If there is none yet.
        """
        held = self._predictor._held.get(self._spec.name)
        if held is None:
            raise InvalidArgumentError(
                f"[Tensor] {self._spec.name!r} must hold an array, got none yet"
            )
        return held

    copy_to_cpu = numpy


class Predictor:
    """A loaded model. One run at a time; open another predictor for another thread."""

    def __init__(self, config: Config) -> None:
        path = config.library_path
        self._library = library.load(Path(fspath(path)) if path is not None else None)
        self._model = ctypes.c_void_p()
        self._buffers_owner: object = None
        self._lock = Lock()
        self._held: dict[str, AnyArray] = {}
        self._open(config.model)
        self._inputs = self._specs("input")
        self._outputs = self._specs("output")

    def _open(self, model: str | PathLike[str] | bytes | None) -> None:
        if model is None:
            raise InvalidArgumentError("[Config] expected a model, got none")
        target = ctypes.byref(self._model)
        if isinstance(model, bytes):
            # Read in place: 64-aligned memory of our own, kept as long as the model.
            room = np.empty(len(model) + 64, np.uint8)
            start = -room.ctypes.data % 64
            room[start : start + len(model)] = np.frombuffer(model, np.uint8)
            self._buffers_owner = room
            status = self._library.proa_lite_open_bytes(
                room.ctypes.data + start, len(model), target
            )
        else:
            status = self._library.proa_lite_open(fspath(model).encode(), target)
        self._check(status, None)

    def _check(self, status: int, model: ctypes.c_void_p | None) -> None:
        if status != 0:
            what = self._library.proa_lite_error(model).decode(errors="replace")
            raise BY_STATUS.get(status, LiteError)(what)

    def _specs(self, kind: str) -> list[TensorSpec]:
        lib, specs = self._library, []
        for i in range(getattr(lib, f"proa_lite_{kind}_count")(self._model)):
            array = library.Array()
            spec_of = getattr(lib, f"proa_lite_{kind}_spec")
            self._check(spec_of(self._model, i, ctypes.byref(array)), self._model)
            name = getattr(lib, f"proa_lite_{kind}_name")(self._model, i).decode()
            shape = tuple(array.shape[: array.rank])
            specs.append(TensorSpec(name, _DTYPES[array.dtype], shape))
        return specs

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self._library.proa_lite_close(self._model)

    def get_input_specs(self) -> list[TensorSpec]:
        """Name, dtype and shape of each input, in order."""
        return list(self._inputs)

    def get_output_specs(self) -> list[TensorSpec]:
        """Name, dtype and shape of each output, in order."""
        return list(self._outputs)

    def get_input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return [s.name for s in self._inputs]

    def get_output_names(self) -> list[str]:
        """Names of the outputs, in order."""
        return [s.name for s in self._outputs]

    def get_input(self, index: int) -> Tensor:
        """The handle of input `index`.

        Raises:
            NotFoundError: If there is none.
        """
        return self._handle(self._inputs, index, "input")

    def get_output(self, index: int) -> Tensor:
        """The handle of output `index`.

        Raises:
            NotFoundError: If there is none.
        """
        return self._handle(self._outputs, index, "output")

    def _handle(self, specs: list[TensorSpec], index: int, kind: str) -> Tensor:
        if not 0 <= index < len(specs):
            raise NotFoundError(
                f"[Predictor] {kind} index must be in [0, {len(specs)}), got {index}"
            )
        return Tensor(self, specs[index], index)

    def run(self, inputs: Sequence[AnyArray] | None = None) -> list[AnyArray]:
        """Run on `inputs`, or on what the input handles hold; returns new arrays.

        Raises:
            InvalidArgumentError: If a number, dtype or shape is not the model's.
        """
        given = self._fed() if inputs is None else list(inputs)
        if len(given) != len(self._inputs):
            raise InvalidArgumentError(
                f"[Predictor.run] expected {len(self._inputs)} inputs, got {len(given)}"
            )
        arrays = (library.Array * len(given))()
        references = [
            _describe(a, s, to)
            for a, s, to in zip(given, self._inputs, arrays, strict=True)
        ]
        outputs = (library.Array * len(self._outputs))()
        with self._lock:
            status = self._library.proa_lite_run(self._model, arrays, outputs)
            self._check(status, self._model)
            results = [_copy(array) for array in outputs]
        del references
        self._held.update(zip(self.get_output_names(), results, strict=True))
        return results

    def _fed(self) -> list[AnyArray]:
        missing = [s.name for s in self._inputs if s.name not in self._held]
        if missing:
            raise InvalidArgumentError(
                "[Predictor.run] expected every input, got none for "
                f"{', '.join(missing)}"
            )
        return [self._held[s.name] for s in self._inputs]

    def memory(self) -> int:
        """Bytes held besides the model file: tables, prepacked weights, arena."""
        return int(self._library.proa_lite_memory(self._model))


def _describe(array: AnyArray, spec: TensorSpec, to: library.Array) -> AnyArray:
    """Fill `to`; returns the row-major array that must live through the run."""
    held = np.asarray(array, order="C")
    if held.dtype != spec.dtype or held.ndim > library.MAX_RANK:
        raise InvalidArgumentError(
            f"[Predictor.run] input {spec.name!r} must be {spec.dtype}, "
            f"got {held.dtype} of rank {held.ndim}"
        )
    to.data, to.rank = held.ctypes.data or None, held.ndim
    to.dtype = 7 if spec.dtype == np.uint16 else _DTYPES.index(spec.dtype)
    to.shape[: held.ndim] = list(held.shape)
    return held


def _copy(array: library.Array) -> AnyArray:
    dtype, shape = _DTYPES[array.dtype], tuple(array.shape[: array.rank])
    out = np.empty(shape, dtype)
    if out.size and array.data is not None:
        ctypes.memmove(out.ctypes.data, array.data, out.nbytes)
    return out


def create_predictor(config: Config) -> Predictor:
    """Load the model that `config` names.

    Raises:
        NotFoundError: If there is no such file.
        InvalidArgumentError: If its bytes are not a model.
        VersionError: If it is of a version that this library does not read.
    """
    return Predictor(config)


def isa() -> str:
    """The instruction set in use: scalar, avx2, avx512, neon or neondot."""
    return str(library.load().proa_lite_isa().decode())
