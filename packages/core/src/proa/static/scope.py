"""Scopes: where runs of programs keep persistable Variables."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proa import _core
from proa._core import Tensor
from proa.base.mode import in_dynamic_mode
from proa.errors import InvalidTypeError, PreconditionNotMetError
from proa.ir.record import at_once
from proa.tensor.creation import to_tensor

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.base.typing import TensorLike


class ScopeVariable:
    """What a scope holds under a name.

    Attributes:
        tensor: The value; None until one is set.
    """

    __slots__ = ("_name", "tensor")

    def __init__(self, name: str) -> None:
        self._name = name
        self.tensor: Tensor | None = None

    def name(self) -> str:
        """The name."""
        return self._name

    def get_tensor(self) -> ScopeTensor:
        """The value, as one that can be read and set."""
        return ScopeTensor(self)

    def set(self, value: TensorLike, dtype: DTypeLike | None = None) -> None:
        """Hold a copy of a value: in the memory that is there, if it fits."""
        with at_once():
            given = to_tensor(value, dtype)
            held = self.tensor
            if held is None or (held.shape, held.dtype) != (given.shape, given.dtype):
                self.tensor = given
                return
            enabled = _core.set_grad_enabled(False)
            try:
                held[...] = given
            finally:
                _core.set_grad_enabled(enabled)


class ScopeTensor:
    """The value of a scope's variable: NumPy reads it, `set` replaces it.

    Args:
        variable: Whose value.
    """

    __slots__ = ("_variable",)

    def __init__(self, variable: ScopeVariable) -> None:
        self._variable = variable

    @property
    def value(self) -> Tensor:
        """The value itself.

        Raises:
            PreconditionNotMetError: If there is none yet.
        """
        found = self._variable.tensor
        if found is None:
            raise PreconditionNotMetError(
                f"[Scope] expected a value of {self._variable.name()!r}, got a "
                "variable that holds none yet"
            )
        return found

    def set(self, array: TensorLike, place: object = None) -> None:
        """Hold a copy of the array."""
        self._variable.set(array)

    def numpy(self) -> NDArray[Any]:
        """The value as an array."""
        return np.asarray(self.value.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def shape(self) -> list[int]:
        """Its sizes."""
        return list(self.value.shape)

    def lod(self) -> list[list[int]]:
        """No levels: rows make no sequences here."""
        return []

    def _is_initialized(self) -> bool:
        return self._variable.tensor is not None


class Scope:
    """Values by name; what it lacks is looked up in the scope around it."""

    #: Counts the variables that were made or forgotten, in all scopes.
    changes = 0

    def __init__(self, parent: Scope | None = None) -> None:
        self._parent = parent
        self._variables: dict[str, ScopeVariable] = {}
        self._kids: list[Scope] = []

    def var(self, name: str) -> ScopeVariable:
        """The variable of a name, which is made if this scope has none."""
        found = self._variables.get(name)
        if found is None:
            found = self._variables[name] = ScopeVariable(name)
            Scope.changes += 1
        return found

    def find_var(self, name: str) -> ScopeVariable | None:
        """The variable of a name, here or in a scope around; None if there is none."""
        found = self._variables.get(name)
        if found is None and self._parent is not None:
            return self._parent.find_var(name)
        return found

    def erase(self, names: list[str]) -> None:
        """Forget these variables."""
        for name in names:
            self._variables.pop(name, None)
        Scope.changes += 1

    def local_var_names(self) -> list[str]:
        """The names that this scope has itself."""
        return list(self._variables)

    def new_scope(self) -> Scope:
        """A scope within this one."""
        scope = Scope(self)
        self._kids.append(scope)
        return scope

    def drop_kids(self) -> None:
        """Forget the scopes within."""
        self._kids.clear()


class _Current(threading.local):
    def __init__(self) -> None:
        self.stack: list[Scope] = []


_outermost = Scope()
_current = _Current()


def global_scope() -> Scope:
    """The scope in which this thread's Executors keep values: that of the innermost
    `scope_guard`, or the process's.
    """
    return _current.stack[-1] if _current.stack else _outermost


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """While open, `global_scope` is this scope.

    Raises:
        InvalidTypeError: If it is none.
    """
    if in_dynamic_mode():
        raise PreconditionNotMetError(
            "[static.scope_guard] serves static graphs: expected static mode, got "
            "dynamic mode"
        )
    if not isinstance(scope, Scope):
        raise InvalidTypeError(
            f"[static.scope_guard] expected a Scope, got {type(scope).__name__}"
        )
    _current.stack.append(scope)
    try:
        yield
    finally:
        _current.stack.pop()
