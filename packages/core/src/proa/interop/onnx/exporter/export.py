"""`proa.onnx.export`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, BinaryIO

from proa.base.files import Replacement, replace_all
from proa.errors import InvalidArgumentError
from proa.interop.exporter.recorded import recorded_program, simplify
from proa.interop.onnx.exporter.lower import written
from proa.interop.onnx.exporter.proto import fill, model_of, name_output_dims
from proa.interop.onnx.exporter.table import OPSETS
from proa.interop.onnx.importer.proto import onnx_package
from proa.ir.program import Program

_SUFFIX = ".onnx"


def export(
    layer: Any,
    path: str | os.PathLike[str] | BinaryIO,
    input_spec: Sequence[Any] | None = None,
    opset_version: int = 9,
    **configs: Any,
) -> None:
    """Write a Layer as an ONNX model, which `onnx.checker` has accepted.

    The Layer is recorded in evaluation mode. Parameters keep their names. Constants of
    more than 2 GB are in a file ``.onnx.data`` next to the model.

    Args:
        layer: A Layer or function, what `jit.load` gave, or a `proa.ir.Program`.
        path: Where to write; ``.onnx`` is added if it does not end so. Or a binary file
            open for writing, such as `io.BytesIO`, for a model of up to 2 GB.
        input_spec: As `jit.save` takes it. None and -1 are dynamic axes: symbolic
            dimensions of the model.
        opset_version: 9 to 21.
        configs: ``enable_onnx_checker=False`` leaves out the check;
            ``output_names`` are as `jit.save` takes them.

    Raises:
        InvalidArgumentError: If the inputs' shapes are not known, or differ from those
            of a model that is recorded already; if an argument is none of these; if
            something other than a file is in the model's place; if a model is too large
            for one file that is open.
        UnimplementedError: If operators cannot be expressed at the opset: names all of
            them, each with the opset from which it can. Also if the code depends on a
            tensor's value in a way that no graph can hold.
        UnavailableError: If the package `onnx` is not installed.
        FileError: If a file cannot be written; old ones are then as they were.
    """
    onnx_package()
    _check_opset(opset_version)
    if set(configs) - {"enable_onnx_checker", "output_names"}:
        raise InvalidArgumentError(
            "[onnx.export] expected enable_onnx_checker and output_names as configs, "
            f"got {sorted(configs)}"
        )
    names = configs.pop("output_names", None)
    program = recorded_program("onnx.export", layer, input_spec, names)
    export_program(program, path, opset_version, **configs)


def export_program(
    program: Program,
    path: str | os.PathLike[str] | BinaryIO,
    opset_version: int = 9,
    *,
    enable_onnx_checker: bool = True,
) -> None:
    """Write a program, which is changed, as `export` writes a Layer."""
    onnx = onnx_package()
    _check_opset(opset_version)
    simplify(program)
    result = written(program, opset_version)
    name = program.metadata.get("name", "model")
    producer = program.metadata.get("framework", "").rpartition(" ")[2]
    model, constants = model_of(result, name, producer)
    where = _path_of(path)
    name_output_dims(model)
    data = fill(model, constants, os.path.basename(f"{where}.data"))
    if enable_onnx_checker and not data:
        onnx.checker.check_model(model, full_check=True)
    if not isinstance(path, (str, os.PathLike)):
        if data:
            raise InvalidArgumentError(
                "[onnx.export] expected a path for a model with more than 2 GB of "
                "constants, which has a second file, got an open file"
            )
        path.write(model.SerializeToString())
        return
    files = [Replacement(f"{where}.data", data)] if data else []
    files.append(Replacement(where, [model.SerializeToString()]))
    replace_all(files, where="onnx.export")
    if enable_onnx_checker and data:
        onnx.checker.check_model(where, full_check=True)


def _path_of(path: str | os.PathLike[str] | BinaryIO) -> str:
    """Where the model is written, with its suffix; the suffix alone of an open file."""
    name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
    return name if name.endswith(_SUFFIX) else name + _SUFFIX


def _check_opset(opset: int) -> None:
    if opset not in OPSETS:
        raise InvalidArgumentError(
            f"[onnx.export] opset_version must be {OPSETS[0]} to {OPSETS[-1]}, "
            f"got {opset!r}"
        )
