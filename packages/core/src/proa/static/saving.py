"""Values and programs of static mode as files and bytes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proa._core import Tensor
from proa.base import files, safetensors
from proa.errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from proa.interop.paddle.streams import read_stream
from proa.interop.saving import load as load_file
from proa.interop.saving import parse
from proa.interop.saving import save as save_file
from proa.static.exporting import Variables, chosen_program, held_array, pruned
from proa.static.program import Program
from proa.static.scope import global_scope
from proa.static.variable import Variable
from proa.tensor.saving import pack, restored

PathLike = str | os.PathLike[str]

_PARAMETERS, _OTHERS = ".pdparams", ".pdopt"


def _prefix(where: str, model_path: PathLike) -> str:
    """The path without the endings of the files."""
    name = os.fspath(model_path)
    for ending in (_PARAMETERS, _OTHERS, ".pdmodel"):
        name = name.removesuffix(ending)
    if not os.path.basename(name):
        raise InvalidArgumentError(
            f"[static.{where}] model_path must end with a file's name, got "
            f"{os.fspath(model_path)!r}"
        )
    return name


def save(
    program: Program, model_path: PathLike, protocol: int = 4, **configs: object
) -> None:
    """Write what the current scope holds for a program's persistable Variables.

    ``PREFIX.pdparams`` gets the parameters, ``PREFIX.pdopt`` the others, such as
    momenta, as `proa.save` writes them. The program is Python code that a caller has;
    `serialize_program` makes bytes of it.

    Args:
        program: The program.
        model_path: The files' path without their endings.
        protocol: Kept for callers, 2 to 5.
        configs: Kept for callers.

    Raises:
        InvalidTypeError: If program is none.
        InvalidArgumentError: If the path is a folder's.
    """
    prefix = _prefix("save", model_path)
    found = chosen_program("save", program)
    for ending, mode in ((_PARAMETERS, "param"), (_OTHERS, "opt")):
        save_file(found.state_dict(mode), prefix + ending, protocol)


def load(
    program: Program,
    model_path: PathLike,
    executor: object = None,
    var_list: Sequence[Variable] | None = None,
) -> None:
    """Put what `save` wrote into the current scope.

    It also takes PaddlePaddle's files, as `load_program_state` does.

    Args:
        program: The program whose persistable Variables are set.
        model_path: The files' path without their endings; or a folder of files, or a
            file of several, by var_list.
        executor: Has no meaning here.
        var_list: Set these alone; None sets all.

    Raises:
        NotFoundError: If there are no such files, or they lack a Variable.
        InvalidArgumentError: If a value has another shape than its Variable.
    """
    found = chosen_program("load", program)
    chosen = None if var_list is None else [v.name for v in var_list]
    states = [n for n, v in found.vars.items() if v.persistable]
    wanted = states if chosen is None else chosen
    held = _read("load", model_path, chosen, states)
    missing = [name for name in wanted if name not in held]
    if missing:
        raise NotFoundError(
            f"[static.load] expected {missing} in {os.fspath(model_path)}, got "
            f"{sorted(held)}"
        )
    found.set_state_dict({name: held[name] for name in wanted})


def load_program_state(
    model_path: PathLike, var_list: Sequence[Variable] | None = None
) -> dict[str, Any]:
    """The arrays of files, by the names of Variables.

    Args:
        model_path: What `save` wrote or PaddlePaddle's ``PREFIX.pdparams`` and
            ``.pdopt``; a folder with a tensor file for each Variable; or one file of
            several tensors in the order of var_list. In a folder, files that hold no
            tensor are passed over with a warning.
        var_list: Read these alone.

    Raises:
        NotFoundError: If there are no such files, or they lack a Variable.
        InvalidArgumentError: If a file is damaged.
    """
    names = None if var_list is None else [v.name for v in var_list]
    held = _read("load_program_state", model_path, names, names)
    return {
        name: value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        for name, value in held.items()
    }


def _read(
    where: str,
    model_path: PathLike,
    names: Sequence[str] | None,
    known: Sequence[str] | None,
) -> dict[str, Any]:
    """Tensors by name, from any of the forms of files."""
    place = Path(os.fspath(model_path))
    if place.is_dir():
        return _folder(where, place, names if names is not None else known)
    prefix = _prefix(where, model_path)
    if os.path.isfile(prefix + _PARAMETERS):
        found = dict(load_file(prefix + _PARAMETERS, allow_pickle=True))
        if os.path.isfile(prefix + _OTHERS):
            found.update(load_file(prefix + _OTHERS, allow_pickle=True))
        return found if names is None else {n: found[n] for n in names if n in found}
    if not place.is_file():
        raise NotFoundError(
            f"[static.{where}] expected {prefix + _PARAMETERS}, or a folder or file of "
            f"tensors, got no file at {place}"
        )
    if names is None:
        raise InvalidArgumentError(
            f"[static.{where}] expected var_list, which names the tensors of one "
            f"file, got None for {place}"
        )
    return _file_of_several(where, place, names)


def _file_of_several(where: str, place: Path, names: Sequence[str]) -> dict[str, Any]:
    data, at, found = files.read(place), 0, {}
    for name in names:
        item, at = read_stream(data, at, f"static.{where}: {place}")
        found[name] = restored(item, False)
    return found


def _folder(where: str, folder: Path, names: Sequence[str] | None) -> dict[str, Any]:
    """The tensor files of a folder, by their names."""
    found = {}
    for file in sorted(folder.iterdir()):
        if not file.is_file() or (names is not None and file.name not in names):
            continue
        data = files.read(file)
        try:
            item, end = read_stream(data, 0, f"static.{where}: {file}")
        except InvalidArgumentError:
            end = -1
        if end != len(data):
            warnings.warn(
                f"[static.{where}] {file} is no file of one tensor and is passed over",
                stacklevel=4,
            )
            continue
        found[file.name] = restored(item, False)
    return found


def set_program_state(program: Program, state_dict: Mapping[str, Any]) -> None:
    """Let the current scope hold values for a program's persistable Variables.

    Args:
        program: The program.
        state_dict: Arrays or Tensors by name, as `load_program_state` gives them; names
            that the program lacks are passed over with a warning.

    Raises:
        InvalidTypeError: If program is none or state_dict no dict.
        InvalidArgumentError: If a value has another shape than its Variable.
    """
    chosen_program("set_program_state", program).set_state_dict(state_dict)


def serialize_program(
    feed_vars: Variables, fetch_vars: Variables, **kwargs: object
) -> bytes:
    """The bytes of what `normalize_program` leaves of a program, without values.

    Args:
        feed_vars: The Variables that runs are fed, or their names.
        fetch_vars: The Variables that runs fetch, or their names.
        kwargs: ``program``; without it the program that is built.

    Raises:
        InvalidTypeError: If an argument is of another kind.
        NotFoundError: If a name is not in the program.
        InvalidArgumentError: If fetch_vars need data that is not among feed_vars.
    """
    where = "serialize_program"
    program = chosen_program(where, kwargs.get("program"))
    return pruned(where, program, feed_vars, fetch_vars).serialize_to_string()


def deserialize_program(data: bytes) -> Program:
    """The program of `serialize_program`.

    Raises:
        InvalidArgumentError: If the bytes are others.
    """
    return Program.parse_from_string(data)


def serialize_persistables(
    feed_vars: Variables, fetch_vars: Variables, executor: object, **kwargs: object
) -> bytes:
    """The bytes of the values that such a program needs, from the current scope.

    Args:
        feed_vars: As `serialize_program` has them.
        fetch_vars: Likewise.
        executor: Has no meaning here.
        kwargs: ``program``; without it the program that is built.

    Raises:
        PreconditionNotMetError: If the scope lacks a value.
    """
    where = "serialize_persistables"
    program = chosen_program(where, kwargs.get("program"))
    part, scope = pruned(where, program, feed_vars, fetch_vars), global_scope()
    held: dict[str, Any] = {}
    for name in part.states:
        held_array(where, scope, name)
        held[name] = scope.var(name).tensor
    return b"".join(bytes(chunk) for chunk in safetensors.chunks(*pack(held)))


def deserialize_persistables(program: Program, data: bytes, executor: object) -> None:
    """Put the values of `serialize_persistables` into the current scope.

    Args:
        program: The program that needs them.
        data: The bytes.
        executor: Has no meaning here.

    Raises:
        InvalidTypeError: If data are no bytes.
        InvalidArgumentError: If they are others, or shapes differ.
        NotFoundError: If they lack a value.
    """
    where = "deserialize_persistables"
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidTypeError(
            f"[static.{where}] data must be bytes, got {type(data).__name__}"
        )
    found = chosen_program(where, program)
    held = parse(bytes(data), "data")
    missing = [n for n in found.states if not isinstance(held, dict) or n not in held]
    if missing:
        raise NotFoundError(f"[static.{where}] expected {missing} in data, got others")
    found.set_state_dict({name: held[name] for name in found.states})


def save_to_file(path: PathLike, content: bytes) -> None:
    """Write bytes; the file is replaced as a whole or not at all.

    Raises:
        InvalidTypeError: If content are no bytes.
    """
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise InvalidTypeError(
            f"[static.save_to_file] content must be bytes, got {type(content).__name__}"
        )
    files.replace(path, [content], where="static.save_to_file")


def load_from_file(path: PathLike) -> bytes:
    """The bytes of a file.

    Raises:
        MissingFileError: If there is none.
    """
    return bytes(files.read(path, where="static.load_from_file"))
