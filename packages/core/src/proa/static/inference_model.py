"""Model files as PaddlePaddle's static mode has them: programs, feeds and fetches."""

from __future__ import annotations

import os
from typing import Any

from proa.errors import InvalidArgumentError, UnimplementedError
from proa.ir import Program, read, write
from proa.ir.program import Value
from proa.jit.save_load import file_of
from proa.static.executor import extract_fetches, named, program_of


def load_inference_model(
    path_prefix: str | os.PathLike[str], executor: Any = None, **kwargs: Any
) -> tuple[Program, list[str], list[Value]]:
    """The program of a model file, its inputs' names, and its outputs.

    It takes what `save_inference_model`, `TracedLayer.save_inference_model` and
    `proa.jit.save` wrote: structure and parameters are one file.

    Args:
        path_prefix: The file's path, which may lack its `.proa`.
        executor: Has no meaning here.
        kwargs: PaddlePaddle's ``model_filename`` and ``params_filename``, which there
            name two files; they must be None.

    Returns:
        (program, feed names, fetch targets), for `Executor.run`.

    Raises:
        NotFoundError: If there is no such file.
        InvalidArgumentError: If it is no sound model file.
        UnimplementedError: If two files are named.
    """
    apart = {name: value for name, value in kwargs.items() if value is not None}
    if apart:
        raise UnimplementedError(
            "[static.load_inference_model] structure and parameters must be one file, "
            f"named by path_prefix, got {apart}"
        )
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
    """Write a part of a loaded or recorded program as one model file.

    Args:
        path_prefix: The file's path; `.proa` is added if it does not end so.
        feed_vars: Its inputs in order: values of the program or their names.
        fetch_vars: Its outputs, likewise.
        executor: Has no meaning here.
        kwargs: ``program``, what `load_inference_model` gave or was recorded, must be
            given, as there is no default one.

    Raises:
        InvalidTypeError: If program is none, or values are something else.
        NotFoundError: If an output is not in the program.
        InvalidArgumentError: If feed_vars are not the inputs that the outputs need.
    """
    where = "save_inference_model"
    program = program_of(where, kwargs.get("program"))
    feeds = named(where, "feed_vars", feed_vars)
    part = extract_fetches(where, program, named(where, "fetch_vars", fetch_vars))
    inputs = {v.name: v for v in part.main.inputs}
    if sorted(inputs) != sorted(feeds):
        raise InvalidArgumentError(
            f"[static.{where}] feed_vars must be the inputs that fetch_vars follow "
            f"from, {list(inputs)}, got {feeds}"
        )
    part.main.inputs = [inputs[name] for name in feeds]
    write(part, file_of(path_prefix))
