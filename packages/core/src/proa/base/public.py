"""Errors of the public API name the API and the argument that is at fault.

A function of the public API reads its arguments as if they were what its signature
says, and `publish` lets it do so at no cost: only when a call has failed are the
arguments compared with the signature, and the error says which of them does not fit.
What Python or NumPy raised inside the library is the cause of an error of
`proa.errors`; what a caller's own function raised passes as it is.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from proa import _core, errors
from proa.base.annotations import ARRAY_LIKE, got, misfits, shown
from proa.errors import locations

_PUBLIC: dict[Callable[..., Any], Any] = {}
#: Methods that are explained besides public ones.
_SPECIAL = ("__init__", "__call__", "__getitem__", "__len__")
#: What Python raises on its own where an argument is of the wrong kind.
_OF_KINDS = (TypeError, AttributeError)


def publish(*names: str) -> None:
    """Let what the ``__all__`` of each module names explain errors of its calls."""
    for module in (sys.modules[name] for name in names):
        for name in module.__all__:
            found = vars(module).get(name)
            if isinstance(found, types.FunctionType):
                setattr(module, name, _published(found))
            elif isinstance(found, type) and found.__module__.startswith("proa."):
                publish_class(found)


def publish_class(kind: type) -> None:
    """Let a class's construction and public methods explain their errors.

    Of a layer that is its construction alone: `Layer.__call__` explains `forward`.
    """
    layer = hasattr(kind, "sublayers")
    for base in kind.__mro__:
        if not base.__module__.startswith("proa."):
            continue
        for name, found in list(vars(base).items()):
            if layer:
                wanted = name == "__init__"
            else:
                wanted = name in _SPECIAL or not name.startswith("_")
            if wanted and isinstance(found, types.FunctionType):
                setattr(base, name, _published(found))


def published_method(function: Callable[..., Any], where: str) -> Any:
    """`function` as a method whose errors call it `where`."""
    return _core.public_function(function, functools.partial(explain, where=where))


def _published(function: Callable[..., Any]) -> Any:
    if function not in _PUBLIC:
        _PUBLIC[function] = _core.public_function(function, explain)
    return _PUBLIC[function]


def _named(module: str, name: str) -> Any:
    """The public form of a module's function, by its name in a pickle."""
    return _published(getattr(importlib.import_module(module), name))


def _reduced(public: Any) -> Any:
    """How `public` is pickled: by the name of its module's function.

    That module may call the function itself, not the public form of it.
    """
    function = public.__wrapped__
    module, name = function.__module__, function.__name__
    if vars(sys.modules.get(module, types)).get(name) is not function:
        return function.__qualname__
    return _named, (module, name)


copyreg.pickle(type(_core.public_function(_named, _named)), _reduced)


def explain(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Exception,
    where: str | None = None,
) -> Exception:
    """The error to raise where ``function(*args, **kwargs)`` has raised `error`.

    That is `error` itself if it is of `proa.errors` and the arguments fit the
    signature, or if code of a caller raised it.
    """
    own = isinstance(error, errors.Error)
    if not own and (_is_worded(error) or _is_of_a_caller(error)):
        return error
    where = where or api_name(function, args)
    try:
        given = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError) as mismatch:
        if own or where in str(error) or error.__traceback__ is not None:
            return error
        return _with_line(errors.InvalidTypeError(f"[{where}] {mismatch}"), error)
    for name, value, must in misfits(function, given):
        if _is_to_blame(value, must, error):
            text = f"[{where}] {name} must be {must}, got {got(value)}"
            return _with_line(errors.InvalidTypeError(text), error)
    if own:
        return error
    better = _with_line(_of_arguments(where, given, error), error)
    better.__cause__ = error
    return better


def api_name(function: Callable[..., Any], args: Sequence[Any]) -> str:
    """What errors call a function: its name, or its class's and its own."""
    names = function.__qualname__.rpartition("<locals>.")[2].split(".")
    if len(names) == 1:
        return names[0]
    kind, method = names[-2:]
    if args and type(args[0]).__module__.startswith("proa."):
        kind = type(args[0]).__name__
    return kind if method in _SPECIAL[:2] else f"{kind}.{method}"


def _is_to_blame(value: Any, must: str, error: Exception) -> bool:
    """Whether an argument that does not fit its annotation explains the error."""
    own = isinstance(error, errors.Error)
    if "Tensor" not in must:
        return not own
    # Arrays and numbers may have been taken, and the error be of something else.
    return (isinstance(error, _OF_KINDS) and not own) or not isinstance(
        value, ARRAY_LIKE
    )


def _is_worded(error: Exception) -> bool:
    """Whether the library words the error though its type is one of Python's."""
    return str(error).startswith("[") or isinstance(error, (OSError, StopIteration))


def _is_of_a_caller(error: Exception) -> bool:
    """Whether the error passed through code that is neither ours nor a library's."""
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not _is_of_a_library(path) and not locations.is_own_code(path):
            return True
        trace = trace.tb_next
    return False


def _is_of_a_library(path: str) -> bool:
    """Whether a file is NumPy's or Python's, whose errors below a call of ours are ours
    to explain.
    """
    numpy, standard, installed = _library_folders()
    in_standard = path.startswith(standard) and not path.startswith(installed)
    return path.startswith(numpy) or in_standard


@functools.cache
def _library_folders() -> tuple[str, str, tuple[str, str]]:
    """The folders of NumPy, of Python's library, and of installed packages, some of
    which are inside that.
    """
    import sysconfig  # only errors need it

    folders = sysconfig.get_paths()
    installed = folders["purelib"], folders["platlib"]
    return os.path.dirname(np.__file__), folders["stdlib"], installed


def _of_arguments(
    where: str, given: Mapping[str, Any], error: Exception
) -> errors.Error:
    """An error that shows all arguments, as none of them alone is known to be wrong."""
    described = ", ".join(
        f"{name} {shown(value)}"
        if isinstance(value, _core.Tensor)
        else f"{name}={shown(value)}"
        for name, value in given.items()
        if name != "self"
    )
    text = f"[{where}] expected the documented arguments, got {described or 'none'}"
    if isinstance(error, MemoryError):
        return errors.ResourceExhaustedError(
            f"[{where}] out of memory, got {described}"
        )
    if isinstance(error, NotImplementedError):
        return errors.UnimplementedError(f"[{where}] a subclass must define it")
    if isinstance(error, _OF_KINDS):
        return errors.InvalidTypeError(text)
    if isinstance(error, IndexError):
        return errors.OutOfRangeError(text)
    return errors.InvalidArgumentError(text)


def _with_line(better: errors.Error, error: Exception) -> errors.Error:
    """`better` with the user's line, and with `error` if all calls are to be shown."""
    line = locations.user_line() if locations.stack_level >= 1 else ""
    if line:
        locations.annotate(better, f"at {line}")
    if locations.stack_level >= 2:
        better.__cause__ = error
    return better
