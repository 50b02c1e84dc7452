"""Writes Layers and programs as ``.pdmodel`` and ``.pdiparams``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from proa.base.files import Replacement, replace_all
from proa.base.safetensors import Stored
from proa.interop.exporter.recorded import recorded_program, simplify
from proa.interop.paddle.exporter.lower import written
from proa.interop.paddle.streams import write_stream
from proa.ir.program import Program


def save(
    layer: Any,
    path: str | os.PathLike[str],
    input_spec: Sequence[Any] | None = None,
    *,
    output_names: Sequence[str] | None = None,
) -> None:
    """Write a Layer as a model that PaddlePaddle 2.5 and later load.

    The Layer is recorded in evaluation mode. Parameters keep their names.

    Args:
        layer: A Layer or function, or what `jit.load` gave.
        path: The files' prefix: ``PREFIX.pdmodel`` and ``PREFIX.pdiparams``.
        input_spec: As `jit.save` takes it. None and -1 are sizes that are left open.
        output_names: As `jit.save` takes them.

    Raises:
        InvalidArgumentError: If the inputs' shapes are not known, or the names are not
            one for each output.
        UnimplementedError: If Paddle has no operators for some of the Layer's: names
            all of them.
        UnavailableError: If the package `protobuf` is not installed.
        FileError: If a file cannot be written; old ones are then as they were.
    """
    program = recorded_program("paddle.save", layer, input_spec, output_names)
    save_program(program, path)


def save_program(program: Program, path: str | os.PathLike[str]) -> None:
    """Write a program, which is changed, as `save` writes a Layer."""
    simplify(program)
    writer = written(program)
    prefix = os.fspath(path).removesuffix(".pdmodel")
    structure = writer.finish().SerializeToString(deterministic=True)
    constants = (writer.constants[name] for name in sorted(writer.constants))
    streams = (
        write_stream(Stored(ref.data, ref.dtype))
        for ref in constants
        if ref.data is not None
    )
    replace_all(
        [
            Replacement(f"{prefix}.pdiparams", streams),
            Replacement(f"{prefix}.pdmodel", [structure]),
        ],
        where="paddle.save",
    )
