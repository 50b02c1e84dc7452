"""`paddle.fluid.io`: Variables and models in folders of files, in the format of 1.x."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import proa
from proa.base import files
from proa.base.public import publish as _publish
from proa.errors import InvalidArgumentError
from proa.interop.paddle.streams import write_stream
from proa.migrate.fluid.py_reader import PyReader
from proa.static.exporting import held_array
from proa.static.program import Program
from proa.static.scope import global_scope
from proa.static.variable import ParameterVariable, Variable
from proa.tensor.saving import pack

__all__ = [
    "PyReader", "get_program_parameter", "get_program_persistable_vars",
    "load_inference_model", "load_params", "load_persistables", "load_vars",
    "save_inference_model", "save_params", "save_persistables", "save_vars",
]  # fmt: skip

Path_ = str | os.PathLike[str]


def get_program_parameter(program: Program) -> list[Variable]:
    """The parameters of a program."""
    return list(program.all_parameters())


def get_program_persistable_vars(program: Program) -> list[Variable]:
    """The Variables of a program that last from run to run."""
    return [v for v in program.list_vars() if v.persistable]


def _chosen(
    main_program: Any,
    vars: Sequence[Variable] | None,
    predicate: Callable[[Variable], bool] | None,
) -> tuple[Program, list[Variable]]:
    program = main_program or proa.static.default_main_program()
    program = getattr(program, "program", program)  # of a CompiledProgram
    if vars is None:
        wanted = predicate or (lambda v: v.persistable)
        vars = [v for v in program.list_vars() if wanted(v)]
    return program, sorted(vars, key=lambda v: v.name)


def save_vars(
    executor: object,
    dirname: Path_,
    main_program: Program | None = None,
    vars: Sequence[Variable] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Write Variables' values: a file for each, of its name, or one of them all.

    Args:
        executor: Has no meaning here.
        dirname: The folder, which is made if it is not there.
        main_program: The program; None for the one that is built.
        vars: The Variables; None for those that the predicate holds for.
        predicate: Which Variables; None for those that last from run to run.
        filename: One file, with the Variables in the order of their names.
    """
    _, chosen = _chosen(main_program, vars, predicate)
    folder, scope = Path(dirname), global_scope()
    folder.mkdir(parents=True, exist_ok=True)
    streams = {}
    for variable in chosen:
        held_array("save_vars", scope, variable.name)
        tensors, _ = pack({"value": scope.var(variable.name).tensor})
        streams[variable.name] = write_stream(next(iter(tensors.values())))
    if filename is not None:
        streams = {filename: b"".join(streams.values())}
    for name, data in streams.items():
        files.replace(folder / name, [data], where="save_vars")


def load_vars(
    executor: object,
    dirname: Path_,
    main_program: Program | None = None,
    vars: Sequence[Variable] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Put what `save_vars`, or Paddle, wrote into the current scope."""
    program, chosen = _chosen(main_program, vars, predicate)
    place = Path(dirname) if filename is None else Path(dirname) / filename
    proa.static.load(program, place, executor, chosen)


def _is_parameter(variable: Variable) -> bool:
    return isinstance(variable, ParameterVariable)


def save_params(
    executor: object,
    dirname: Path_,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """`save_vars` of the parameters."""
    save_vars(executor, dirname, main_program, None, _is_parameter, filename)


def load_params(
    executor: object,
    dirname: Path_,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """`load_vars` of the parameters."""
    load_vars(executor, dirname, main_program, None, _is_parameter, filename)


def save_persistables(
    executor: object,
    dirname: Path_,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """`save_vars` of what lasts from run to run: parameters, momenta, statistics."""
    save_vars(executor, dirname, main_program, None, None, filename)


def load_persistables(
    executor: object,
    dirname: Path_,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """`load_vars` of what lasts from run to run."""
    load_vars(executor, dirname, main_program, None, None, filename)


def save_inference_model(
    dirname: Path_,
    feeded_var_names: str | Sequence[str],
    target_vars: Variable | Sequence[Variable],
    executor: object,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
    program_only: bool = False,
) -> list[str]:
    """Write what targets follow from as a model in a folder; gives the targets' names.

    Args:
        dirname: The folder; its model is the file ``__model__.proa``.
        feeded_var_names: Names of the inputs.
        target_vars: The outputs.
        executor: Has no meaning here.
        main_program: The program; None for the one that is built.
        model_filename: The model's name, in place of ``__model__``.
        params_filename: Has no meaning here: structure and values are one file.
        export_for_deployment: Likewise.
        program_only: Must be False.
    """
    if program_only:
        raise InvalidArgumentError(
            "[save_inference_model] program_only must be False, got True"
        )
    program, _ = _chosen(main_program, [], None)
    names = (
        [feeded_var_names] if isinstance(feeded_var_names, str) else feeded_var_names
    )
    targets = [target_vars] if isinstance(target_vars, Variable) else list(target_vars)
    Path(dirname).mkdir(parents=True, exist_ok=True)
    proa.static.save_inference_model(
        Path(dirname) / (model_filename or "__model__"), list(names), targets,
        program=program,
    )  # fmt: skip
    return [v.name for v in targets]


def load_inference_model(
    dirname: Path_,
    executor: object,
    model_filename: str | None = None,
    params_filename: str | None = None,
    pserver_endpoints: object = None,
) -> Any:
    """[program, names of inputs, outputs] of what `save_inference_model`, or Paddle,
    wrote.
    """
    own = Path(dirname) / f"{model_filename or '__model__'}.proa"
    if own.is_file():
        return list(proa.static.load_inference_model(own))
    found = proa.static.load_inference_model(
        dirname, model_filename=model_filename, params_filename=params_filename
    )
    return list(found)


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
