"""Functions as they are to be called while another one is recorded."""

from __future__ import annotations

import ast
import functools
import inspect
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import CellType, CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any

from proa.base.observers import observing_layers
from proa.errors.locations import is_own_code
from proa.jit.convert import attributes, runtime, source
from proa.jit.convert.state import recording_state
from proa.jit.convert.substitutes import SUBSTITUTES
from proa.jit.convert.tracebacks import BodyError, shown_to_users
from proa.jit.convert.transform import (
    RUNTIME,
    Rewriter,
    is_convertible,
    worth_converting,
)
from proa.jit.log import log_code

#: Packages whose functions are no users' code.
_LIBRARIES = {
    "PIL", "_pytest", "cupy", "cv2", "hypothesis", "jax", "matplotlib", "numpy",
    "pandas", "pluggy", "pytest", "scipy", "torch",
}  # fmt: skip
_STANDARD = tuple(
    sysconfig.get_paths()[name] + "/" for name in ("stdlib", "platstdlib")
)
_FLAGS_OF_GENERATORS = 0x20 | 0x80 | 0x200  # generators, coroutines and both

_lock = threading.Lock()
#: Code object -> the rewritten one; None if there is nothing to rewrite.
_codes: dict[CodeType, CodeType | None] = {}


def _is_library(function: FunctionType) -> bool:
    path = function.__code__.co_filename
    if is_own_code(path):
        return True
    if path.startswith("<"):  # no file, but cells of notebooks and lines of examples
        return not path.startswith(("<ipython", "<doctest"))
    root = (function.__module__ or "").partition(".")[0]
    if root in _LIBRARIES:
        return True
    return path.startswith(_STANDARD) and "site-packages" not in path


def _rewritten(function: FunctionType) -> CodeType | None:
    """The code of the function, rewritten; None if it needs to be called as it is."""
    code = function.__code__
    with _lock:
        if code not in _codes:
            _codes[code] = None
            # What Python does not take in a function of its own is left
            # as it is: recording then reports the line, should a tensor decide there.
            with suppress(SyntaxError, RecursionError):
                tree = _tree(function)
                if tree is not None:
                    _codes[code] = source.compiled(tree, code, RUNTIME)
        return _codes[code]


def _tree(function: FunctionType) -> ast.FunctionDef | None:
    """The function's tree, rewritten, if there is anything to rewrite."""
    tree = source.tree_of(function.__code__)
    if tree is None or not is_convertible(tree) or not worth_converting(tree):
        return None
    name = function.__qualname__.rpartition(".")[0].rpartition(".")[2]
    return Rewriter(tree, "" if name == "<locals>" else name).rewrite()


def code_of(function: Any) -> str:
    """The source that is recorded in place of a function's, as text.

    Raises:
        OSError: If the function is called as it is, and its source is not at hand.
    """
    function = inspect.unwrap(getattr(function, "__func__", function))
    tree = _tree(function) if isinstance(function, FunctionType) else None
    if tree is None or converted(function) is function:
        return inspect.getsource(function)
    return ast.unparse(tree)


def _converted_function(function: FunctionType) -> Callable[..., Any]:
    if getattr(function, "_not_to_static", False):
        return function
    if _is_library(function):
        return _around_users(function)
    if function.__code__.co_flags & _FLAGS_OF_GENERATORS:
        return function
    code = _rewritten(function)
    if code is None:
        return function
    if recording_state.depth and code not in recording_state.logged:
        recording_state.logged.add(code)
        log_code(function, functools.partial(code_of, function))
    cells = dict(
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    )
    cells[RUNTIME] = _RUNTIME_CELL
    return _like(function, code, tuple(cells[name] for name in code.co_freevars))


def _like(
    function: FunctionType, code: CodeType, closure: tuple[CellType, ...]
) -> FunctionType:
    result = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    result.__kwdefaults__ = function.__kwdefaults__
    result.__qualname__, result.__module__ = function.__qualname__, function.__module__
    result.__dict__.update(function.__dict__)
    return result


def _around_users(function: FunctionType) -> Callable[..., Any]:
    """A library's wrapper around a user's function, as decorators make them."""
    inner = getattr(function, "__wrapped__", None)
    if inner is None or not function.__closure__:
        return function
    result = converted(inner)
    if result is inner:
        return function
    closure = tuple(
        CellType(result) if _content(cell) is inner else cell
        for cell in function.__closure__
    )
    return _like(function, function.__code__, closure)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def converted(function: Any) -> Any:
    """What to call in place of a callable while a program is recorded.

    A user's function whose source is at hand, rewritten; a method or partial of one;
    anything else as it is.
    """
    if isinstance(function, FunctionType):
        return _converted_function(function)
    if isinstance(function, MethodType):
        result = converted(function.__func__)
        return function if result is function.__func__ else _bound(result, function)
    if isinstance(function, functools.partial):
        result = converted(function.func)
        if result is function.func:
            return function
        return functools.partial(result, *function.args, **function.keywords)
    called = getattr(type(function), "__call__", None)  # noqa: B004  (not the instance's)
    if isinstance(called, FunctionType) and not isinstance(function, type):
        result = converted(called)
        return function if result is called else MethodType(result, function)
    return function


def _bound(result: Callable[..., Any], method: MethodType) -> MethodType:
    return MethodType(result, method.__self__)


def call(function: Any) -> Any:
    """The same for a call in rewritten code, where Python's own have substitutes."""
    try:
        substitute = SUBSTITUTES.get(function)
    except TypeError:  # it has no hash
        substitute = None
    return substitute or converted(function)


#: What rewritten functions find under the name `_proa`.
_RUNTIME_CELL = CellType(
    SimpleNamespace(
        call=call, **{name: getattr(runtime, name) for name in runtime.__all__}
    )
)


@contextmanager
def _active(layer: Any) -> Iterator[None]:
    """While open, the Layer computes: an error that leaves it is one of its."""
    recording_state.active.append(layer)
    try:
        yield
    except BaseException as error:
        raised = error.error if isinstance(error, BodyError) else error
        if recording_state.failure is None or recording_state.failure[0] is not raised:
            recording_state.failure = raised, tuple(recording_state.active)
        raise
    finally:
        recording_state.active.pop()


@contextmanager
def _observe_layer(layer: Any) -> Iterator[Callable[..., Any] | None]:
    """While open, a Layer computes; gives its rewritten `forward`, if it has one."""
    attributes.note(layer)
    with _active(layer):
        own = "forward" in layer.__dict__ or not isinstance(layer.forward, MethodType)
        yield None if own else converted(layer.forward)


@contextmanager
def _recording() -> Iterator[None]:
    outermost = recording_state.depth == 0
    recording_state.depth += 1
    if outermost:
        recording_state.clear()
    try:
        with observing_layers(_observe_layer) if outermost else nullcontext():
            yield
    except BaseException:
        if outermost:
            attributes.put_back()
        raise
    finally:
        recording_state.depth -= 1
        if outermost:
            recording_state.clear()


def recordable(
    function: Callable[..., Any], collect: Callable[[Any], Any] | None = None
) -> Callable[..., Any]:
    """The function to call in order to record what this one does.

    Args:
        function: What is recorded.
        collect: Called with its result as a part of the recording: if it raises, Layers
            get their attributes back. The call gives what this does.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with _recording():
            output = converted(function)
            if recording_state.depth > 1:
                return output(*args, **kwargs)
            try:
                result = _first_call(output, args, kwargs)
                return result if collect is None else collect(result)
            except BodyError as escaped:
                error = escaped.unwrap()
            except Exception as raised:
                error = raised
            layers = recording_state.failure[1] if recording_state.failure else ()
            shown = shown_to_users(error, recording_state.lost, layers)
            raise shown from shown.__cause__

    return called


def _first_call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call the function whose recording has begun."""
    code_holder = getattr(function, "__func__", function)
    recording_state.first = getattr(code_holder, "__code__", None)
    owner = getattr(function, "__self__", None)
    if not isinstance(getattr(owner, "_parameters", None), dict):
        return function(*args, **kwargs)
    attributes.note(owner)
    with _active(owner):
        return function(*args, **kwargs)
