"""Which argument of a failed call is not of the kind that its annotation names.

The annotations are read only when a call has failed, so they cost no call anything.
"""

from __future__ import annotations

import collections.abc
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Union

import numpy as np

from proa import _core

#: Names that annotations use and that a module may import for type checkers alone.
_NAMES: dict[str, Any] = {**vars(typing), **vars(collections.abc)}
#: What functions take for a Tensor, or take where one may be.
ARRAY_LIKE = (np.ndarray, np.generic, list, tuple, int, float, complex)
_SEQUENCES = (list, tuple, np.ndarray, range)


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of the parameters; those alone whose annotation can be evaluated."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    names = {**_NAMES, "Tensor": _core.Tensor, **vars(module or types)}
    found: dict[str, Any] = {}
    for name, text in getattr(function, "__annotations__", {}).items():
        try:
            found[name] = eval(text, names) if isinstance(text, str) else text
        except (NameError, AttributeError, TypeError):
            continue
    return found


def misfits(
    function: Callable[..., Any], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any, str]]:
    """Arguments of the wrong kind: the name, the value, and what it must be."""
    kinds = hints(function)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    for name, value in given.items():
        if name not in kinds:
            continue
        default = parameters[name].default if name in parameters else None
        if default is not inspect.Parameter.empty and value is default:
            continue
        if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            items = enumerate(value)
            yield from (
                (f"{name}[{i}]", item, described(kinds[name]))
                for i, item in items
                if not fits(item, kinds[name])
            )
        elif parameters[name].kind is not inspect.Parameter.VAR_KEYWORD:
            yield from _misfit(name, value, kinds[name])


def _misfit(name: str, value: Any, kind: Any) -> Iterator[tuple[str, Any, str]]:
    if fits(value, kind):
        return
    # The item of a list that is not of the kind of the others.
    of_items = typing.get_args(kind)
    if (
        isinstance(value, (list, tuple))
        and _origin(kind) in (collections.abc.Sequence, list)
        and of_items
    ):
        for i, item in enumerate(value):
            if not fits(item, of_items[0]):
                yield f"{name}[{i}]", item, described(of_items[0])
                return
    yield name, value, described(kind)


def _origin(kind: Any) -> Any:
    return typing.get_origin(kind)


def fits(value: Any, kind: Any) -> bool:
    """Whether a function whose parameter is annotated with `kind` may take `value`."""
    if isinstance(kind, str):
        kind = _resolved(kind)
    if kind is Any:
        return True
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in args)
    if origin is Literal:
        return value in args if isinstance(value, (str, int)) else False
    if kind is None or kind is type(None):
        return value is None
    if kind is float:
        return _is_number(value, np.integer, np.floating)
    if kind is int:
        return _is_number(value, np.integer) and not isinstance(value, float)
    if kind is complex:
        return isinstance(value, complex) or _is_number(value, np.number)
    if kind is bool:
        return isinstance(value, (bool, int, np.bool_))
    if origin is None:
        return not isinstance(kind, type) or isinstance(value, kind)
    return _fits_generic(value, origin, args)


def _resolved(text: str) -> Any:
    try:
        return eval(text, {**_NAMES, "Tensor": _core.Tensor})
    except (NameError, TypeError):
        return Any


def _is_number(value: Any, *kinds: type) -> bool:
    if isinstance(value, _core.Tensor):
        return value.size == 1
    return isinstance(value, (int, float, *kinds))


def _fits_generic(value: Any, origin: Any, args: tuple[Any, ...]) -> bool:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return False  # which no sequence is
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is tuple:
        if not isinstance(value, _SEQUENCES):
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return all(fits(item, args[0]) for item in value)
        return len(value) == len(args) and all(map(fits, value, args))
    if isinstance(value, (str, bytes)) and args:
        return args[0] in (str, Any)
    if origin in (list, collections.abc.Sequence):
        if isinstance(value, _SEQUENCES):
            return not args or all(fits(item, args[0]) for item in value)
        return isinstance(value, collections.abc.Sequence)
    if origin is collections.abc.Iterable and isinstance(value, _SEQUENCES):
        return not args or all(fits(item, args[0]) for item in value)
    return not isinstance(origin, type) or isinstance(value, origin)


def described(kind: Any) -> str:
    """The kind in words."""
    if isinstance(kind, str):
        kind = _resolved(kind)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _joined([described(each) for each in args])
    if origin is Literal:
        return "one of " + ", ".join(map(repr, args))
    if kind is None or kind is type(None):
        return "None"
    if origin in (list, collections.abc.Sequence, collections.abc.Iterable) and args:
        word = "an iterable" if origin is collections.abc.Iterable else "a list"
        return f"{word} of {_plural(args[0])}"
    if origin is collections.abc.Callable or kind is Callable:
        return "a callable"
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return f"a tuple of {_plural(args[0])}"
        return f"a tuple of {len(args)}"
    name = getattr(origin or kind, "__name__", str(kind))
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def _joined(words: Sequence[str]) -> str:
    once = list(dict.fromkeys(words))
    return ", ".join(once[:-1]) + " or " + once[-1] if len(once) > 1 else once[0]


def _plural(kind: Any) -> str:
    words = described(kind)
    if " or " in words:
        return f"items that are each {words}"
    return words.partition(" ")[2] + "s" if words[:2] in ("a ", "an") else words


def got(value: Any) -> str:
    """A value of the wrong kind in an error: its type, and itself where it is short."""
    if value is None or isinstance(value, np.ndarray):
        return shown(value)
    if isinstance(value, _core.Tensor):
        return f"Tensor {shown(value)}"
    kind, text = repr(type(value).__name__), shown(value)
    return kind if kind == text else f"{kind} {text}"


def shown(value: Any) -> str:
    """A value in an error: dtype and shape of arrays, what is short as it is."""
    if isinstance(value, _core.Tensor):
        return f"{str(value.dtype).rpartition('.')[2]} {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape}"
    if value is None or isinstance(value, (str, bytes, int, float, complex)):
        text = repr(value)
        return text if len(text) <= 40 else text[:40] + " .."
    if isinstance(value, (list, tuple)) and len(value) <= 8:
        return f"[{', '.join(map(shown, value))}]"
    return repr(type(value).__name__)
