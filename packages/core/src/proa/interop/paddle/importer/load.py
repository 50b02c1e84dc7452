"""Reads PaddlePaddle's model files: ``.pdmodel`` with ``.pdiparams``, ``__model__``."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proa.base.safetensors import Stored
from proa.errors import InvalidArgumentError, MissingFileError
from proa.interop.graph.limits import damaged_as_invalid
from proa.interop.paddle.importer import ops as _rows  # noqa: F401  (rows register themselves)
from proa.interop.paddle.importer.layer import PaddleGraph
from proa.interop.paddle.importer.program import Parser
from proa.interop.paddle.importer.thresholds import round_by_thresholds
from proa.interop.paddle.proto import DTYPES, parse
from proa.interop.paddle.streams import read_stream

_WHERE = "paddle.load"
#: Bytes of an array after whose copy the file's pages are released.
_LARGE = 1 << 22
PathLike = str | os.PathLike[str]


@dataclass
class _Files:
    """What a model is read from.

    Attributes:
        program: Bytes of the program.
        parameters: Bytes of all parameters, if one file has them.
        folder: Where parameters are in one file each, named as they are.
    """

    program: bytes
    parameters: bytes | memoryview | None = None
    folder: Path | None = None


def _mapped(path: Path) -> bytes | memoryview:
    """A file's bytes, read when they are used."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def is_model(path: PathLike) -> bool:
    """Whether there are Paddle's model files under a prefix, path or folder."""
    place = Path(path)
    names = (place, place.with_name(place.name + ".pdmodel"))
    return (place / "__model__").is_file() or any(
        name.suffix == ".pdmodel" and name.is_file() for name in names
    )


def _find_files(
    path: PathLike, program: str | None = None, parameters: str | None = None
) -> _Files:
    """The files of a model.

    Args:
        path: ``PREFIX`` or ``PREFIX.pdmodel`` of a pair, or a folder.
        program: The name of the program's file in the folder; None for ``__model__``,
            or what alone ends in ``.pdmodel``.
        parameters: The name of the file of all parameters; None for the usual one if
            it is there, else one file for each parameter.

    Raises:
        MissingFileError: If they are not there.
    """
    place = Path(path)
    if place.is_dir():
        model = place / program if program else _program_in(place)
        folder = place
    else:
        name = place.name.removesuffix(".pdmodel")
        model = place.with_name(program or name + ".pdmodel")
        folder = place.parent
    if not model.is_file():
        raise MissingFileError(f"[{_WHERE}] no such file: {model}")
    usual = [model.with_suffix(".pdiparams"), model.with_name("__params__")]
    if model.name == "__model__":
        usual.reverse()
    chosen = [folder / parameters] if parameters else usual
    for file in chosen:
        if file.is_file():
            return _Files(model.read_bytes(), _mapped(file), folder)
    if parameters:
        raise MissingFileError(f"[{_WHERE}] no such file: {chosen[0]}")
    return _Files(model.read_bytes(), None, folder)


def _program_in(folder: Path) -> Path:
    files = sorted(folder.glob("*.pdmodel"))
    if (folder / "__model__").is_file() or len(files) != 1:
        return folder / "__model__"
    return files[0]


def load(
    path: PathLike | None,
    fixed: Mapping[str, Any] | None = None,
    model_filename: str | bytes | None = None,
    params_filename: str | bytes | None = None,
    *,
    out_thresholds: bool = False,
) -> PaddleGraph:
    """The Layer of a Paddle model, in evaluation mode.

    Its weights are parameters, so that it can be trained further, written by
    `jit.save` and compressed as any other Layer.

    Args:
        path: ``PREFIX`` or ``PREFIX.pdmodel`` of a ``.pdmodel`` and ``.pdiparams``, or
            a folder with ``__model__``. None if the next but one is the model's bytes.
        fixed: Values of inputs that the Layer then no longer takes.
        model_filename: The name of the program's file; without a path its bytes.
        params_filename: The name of the file of all parameters; without a path its
            bytes.
        out_thresholds: Whether products with quantized weights round what they read
            by the attribute ``out_threshold`` of the operator before, where nothing
            else rounds it.

    Raises:
        MissingFileError: If there is no such model.
        InvalidArgumentError: If it is no sound Paddle model.
        UnimplementedError: If there is no row for some operators; names all of them.
        UnavailableError: If the package `protobuf` is not installed.
    """
    source = _files(path, model_filename, params_filename)
    with damaged_as_invalid(_WHERE, "Paddle model"):
        message = parse("ProgramDesc", source.program)
        parser = Parser(message)
        graph = parser.graph
        arrays = _parameters(parser.parameters, source)
        variables = {v.name: v for v in message.blocks[0].vars}
        used = {n for g in graph.walk() for node in g.nodes for n in node.inputs}
        used |= {info.name for g in graph.walk() for info in g.outputs}
        for name, stored in arrays.items():
            _check(variables[name], stored)
            if name in used:
                graph.initializers[name] = _array(stored)
                if stored.array.nbytes >= _LARGE:
                    _release(source.parameters)
        if out_thresholds:
            round_by_thresholds(graph)
        values = {name: np.asarray(value) for name, value in (fixed or {}).items()}
        layer = PaddleGraph(graph, values)
    layer.eval()
    return layer


def _files(path: PathLike | None, program: Any, parameters: Any) -> _Files:
    if path is None:
        if not isinstance(program, bytes) or not isinstance(parameters, bytes | None):
            raise InvalidArgumentError(
                f"[{_WHERE}] expected the bytes of a model without a path, got "
                f"{type(program).__name__} and {type(parameters).__name__}"
            )
        return _Files(program, parameters or b"")
    for name in (program, parameters):
        if not isinstance(name, str | None) or (name and Path(name).name != name):
            raise InvalidArgumentError(
                f"[{_WHERE}] expected a file's name in the model's folder, got {name!r}"
            )
    return _find_files(path, program, parameters)


def _release(data: bytes | memoryview | None) -> None:
    """Let a mapped file's pages go, of which the arrays are copies."""
    if isinstance(data, memoryview) and isinstance(data.obj, mmap.mmap):
        data.obj.madvise(mmap.MADV_DONTNEED)


def _array(stored: Stored) -> Any:
    """The elements as an array of its own."""
    if stored.dtype != "bfloat16":
        return np.array(stored.array)
    wide = stored.array.astype(np.uint32) << 16
    return wide.view(np.float32)


def _check(variable: Any, stored: Stored) -> None:
    tensor = variable.type.lod_tensor.tensor
    shape = list(stored.array.shape)
    known = len(shape) == len(tensor.dims) and all(
        size in (-1, n) for size, n in zip(tensor.dims, shape, strict=True)
    )
    if DTYPES.get(tensor.data_type) != stored.dtype or not known:
        raise ValueError(
            f"parameter {variable.name!r} of {stored.dtype} {shape}, where the program "
            f"says {DTYPES.get(tensor.data_type)} {list(tensor.dims)}"
        )


def _parameters(names: list[str], files: _Files) -> dict[str, Stored]:
    found: dict[str, Stored] = {}
    if files.parameters is not None:
        at = 0
        for name in names:
            found[name], at = read_stream(files.parameters, at, _WHERE)
        if at != len(files.parameters):
            raise InvalidArgumentError(
                f"[{_WHERE}] expected {at} bytes of parameters, got "
                f"{len(files.parameters)}"
            )
        return found
    for name in names:
        data = _mapped(_inside(files.folder, name))
        found[name], end = read_stream(data, 0, f"{_WHERE}: {name}")
        if end != len(data):
            raise ValueError(f"{len(data) - end} bytes more in the file of {name!r}")
    return found


def _inside(folder: Path | None, name: str) -> Path:
    """A parameter's own file."""
    if folder is None:
        raise ValueError(f"no bytes of parameter {name!r}")
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"parameter {name!r} outside the model's folder")
    if not path.is_file():
        raise MissingFileError(f"[{_WHERE}] no such file: {path}")
    return path
