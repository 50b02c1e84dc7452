"""Errors of public functions that got something else where a Tensor belongs.

A function of the public API reads its arguments as if they were what its signature
says, and `publish` lets it do so at no cost: only when a call has failed are the
arguments held against the signature, and the error says which of them is no Tensor.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from proa import _core, errors

#: What functions may take for a Tensor, or take where one may stand.
_ORDINARY = (np.ndarray, np.generic, list, tuple, int, float, complex)
_PUBLIC: dict[Callable[..., Any], Any] = {}


def publish(*modules: types.ModuleType) -> None:
    """Let the functions of each module's ``__all__`` name arguments that are wrong."""
    for module in modules:
        for name in module.__all__:
            function = getattr(module, name)
            if isinstance(function, types.FunctionType):
                if function not in _PUBLIC:
                    _PUBLIC[function] = _core.public_function(function, explain)
                setattr(module, name, _PUBLIC[function])


def explain(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Exception,
    where: str | None = None,
) -> Exception:
    """The error to raise where ``function(*args, **kwargs)`` has raised `error`.

    That is `error` itself unless an argument is no Tensor where one belongs.
    """
    if not isinstance(error, (errors.Error, AttributeError, TypeError, ValueError)):
        return error
    # Arrays and numbers may have been taken, and the error be of something else.
    sure = not isinstance(error, (errors.Error, ValueError))
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return error
    hints = getattr(function, "__annotations__", {})
    for name, value in given.items():
        for item, found, must in _misfits(name, value, str(hints.get(name, ""))):
            if sure or not isinstance(found, _ORDINARY):
                better = _blame(where or function.__name__, item, must, found)
                if errors.stack_level >= 2:
                    better.__cause__ = error
                return better
    return error


def _blame(where: str, name: str, must: str, value: Any) -> errors.InvalidTypeError:
    got = "None" if value is None else repr(type(value).__name__)
    error = errors.InvalidTypeError(f"[{where}] {name} must be {must}, got {got}")
    line = errors.user_line() if errors.stack_level >= 1 else ""
    if line:
        errors.annotate(error, f"at {line}")
    return error


def _misfits(name: str, value: Any, hint: str) -> Iterator[tuple[str, Any, str]]:
    """What does not fit an annotation with a Tensor in it: its name, it, what must."""
    if "Tensor" not in hint or "Any" in hint or isinstance(value, _core.Tensor):
        return
    kinds = {part.strip() for part in re.split(r"\|(?![^\[]*\])", hint)}
    several = any("[" in kind and "Tensor" in kind for kind in kinds)
    if several and isinstance(value, (list, tuple)):
        if "None" not in hint and "int" not in hint:
            for i, item in enumerate(value):
                if not isinstance(item, _core.Tensor):
                    yield f"{name}[{i}]", item, "a Tensor"
    elif value is None:
        if "None" not in kinds:
            yield name, value, _worded(hint)
    elif several and isinstance(value, Iterable) and not isinstance(value, str):
        return
    elif isinstance(value, str):
        if "str" not in hint:
            yield name, value, _worded(hint)
    elif kinds <= {"Tensor", "None"} or not isinstance(value, _ORDINARY):
        yield name, value, _worded(hint)


def _worded(hint: str) -> str:
    if hint in ("Tensor", "Tensor | None"):
        return "a Tensor"
    return "a list of Tensors" if hint == "Sequence[Tensor]" else hint
