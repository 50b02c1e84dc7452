"""Model files as PaddlePaddle's static mode has them: programs, feeds and fetches."""

from __future__ import annotations

import os
from typing import Any

from proa.base.mode import in_dynamic_mode
from proa.errors import InvalidArgumentError
from proa.ir import Program, read, write
from proa.ir.program import Value
from proa.ir.record import at_once
from proa.jit.foreign import exporter_of, is_foreign, load_foreign
from proa.jit.save_load import export, file_of
from proa.static.compiled_program import CompiledProgram
from proa.static.exporting import chosen_program, graph_with_values, pruned
from proa.static.graphs import extract_fetches, named, program_of
from proa.static.mode import default_main_program
from proa.static.program import Program as StaticProgram
from proa.static.scope import global_scope


def load_inference_model(
    path_prefix: str | os.PathLike[str] | None,
    executor: Any = None,
    *,
    model_filename: str | bytes | None = None,
    params_filename: str | bytes | None = None,
    **kwargs: Any,
) -> tuple[Program, list[str], list[Value]]:
    """The program of a model file, its inputs' names, and its outputs.

    It takes what `save_inference_model`, `TracedLayer.save_inference_model` and
    `proa.jit.save` wrote, where structure and parameters are one file, and models of
    PaddlePaddle: ``PREFIX.pdmodel`` with ``PREFIX.pdiparams``, and the folders with
    ``__model__`` of Paddle 1.x.

    Args:
        path_prefix: The file's path, which may lack its `.proa`; or the prefix or the
            folder of a Paddle model; or None for a Paddle model in memory.
        executor: Has no meaning here.
        model_filename: The name of a Paddle program's file in its folder; the bytes of
            the program if path_prefix is None.
        params_filename: Likewise of the file of all parameters; None if each has a file
            of its own.
        kwargs: Ignored.

    Returns:
        (program, feed names, fetch targets), for `Executor.run`.

    Raises:
        NotFoundError: If there is no such file.
        InvalidArgumentError: If it is no sound model file.
        UnimplementedError: If a Paddle program has operators that Proa lacks.
        UnavailableError: If it is a Paddle model and `protobuf` is not installed.
    """
    names = {"model_filename": model_filename, "params_filename": params_filename}
    if path_prefix is None or any(names.values()) or is_foreign(path_prefix):
        with at_once():  # no part of the program that static mode builds
            layer = load_foreign(path_prefix, **names)
            program = export(layer, layer.input_spec).program
    else:
        name = os.fspath(path_prefix)
        program = read(name if os.path.isfile(name) else file_of(name))
    return program, [v.name for v in program.main.inputs], list(program.main.outputs)


def save_inference_model(
    path_prefix: str | os.PathLike[str],
    feed_vars: Any,
    fetch_vars: Any,
    executor: Any = None,
    **kwargs: Any,
) -> None:
    """Write a part of a static, loaded or recorded program as one model file.

    Of a static program the file has what `normalize_program` leaves, and the values
    that the current scope holds.

    Args:
        path_prefix: The file's path; `.proa` is added if it does not end so.
        feed_vars: Its inputs in order: Variables of the program or their names.
        fetch_vars: Its outputs, likewise.
        executor: Has no meaning here.
        kwargs: ``program``: a static.Program, what `load_inference_model` gave or what
            was recorded; without it the program that static mode builds. ``format``:
            "paddle" writes ``.pdmodel`` and ``.pdiparams`` for PaddlePaddle.

    Raises:
        InvalidTypeError: If program is none, or values are something else.
        NotFoundError: If an output is not in the program.
        InvalidArgumentError: If feed_vars are not the inputs that the outputs need.
        PreconditionNotMetError: If the scope lacks a persistable Variable.
    """
    where = "save_inference_model"
    given = kwargs.get("program")
    if given is None and not in_dynamic_mode():
        given = default_main_program()
    if isinstance(given, (StaticProgram, CompiledProgram)):
        static_part = pruned(where, chosen_program(where, given), feed_vars, fetch_vars)
        graph = graph_with_values(where, static_part, global_scope())
        _write(graph, path_prefix, kwargs)
        return
    program = program_of(where, given)
    feeds = named(where, "feed_vars", feed_vars)
    part = extract_fetches(where, program, named(where, "fetch_vars", fetch_vars))
    inputs = {v.name: v for v in part.main.inputs}
    if sorted(inputs) != sorted(feeds):
        raise InvalidArgumentError(
            f"[static.{where}] feed_vars must be the inputs that fetch_vars depend "
            f"on, {list(inputs)}, got {feeds}"
        )
    part.main.inputs = [inputs[name] for name in feeds]
    _write(part, path_prefix, kwargs)


def _write(program: Program, path: str | os.PathLike[str], kwargs: Any) -> None:
    kind = kwargs.get("format", "proa")
    if kind == "proa":
        write(program, file_of(path))
    else:
        exporter_of("static.save_inference_model", kind).save_program(program, path)
