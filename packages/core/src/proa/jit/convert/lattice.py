"""Abstract values of variables, and their join: the phi of a branch or loop.

Python values that are equal in both branches stay what they are. Numbers that differ
become tensors, of int64, bool or the default floating dtype, or of the other's dtype.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proa import _core
from proa._core import ops
from proa.base.dtype import get_default_dtype
from proa.ir.record import dtype_name
from proa.jit.pytree import TaggedUnion
from proa.tensor.symbolic_dims import SymbolicDim

#: Python values that are equal if they compare so; others only if they are the same.
_VALUES = (bool, int, float, complex, str, bytes, type(None), slice)


class _Undefined:
    def __repr__(self) -> str:
        return "no value"


#: The value of a variable that has none.
UNDEFINED: Any = _Undefined()


class JoinError(Exception):
    """Two kinds that cannot be one; what it was raised with names them."""


@dataclass(frozen=True)
class Unbound:
    """No value."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A value that is no tensor."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and same(self.value, other.value)

    def __hash__(self) -> int:
        return hash(type(self.value))


@dataclass(frozen=True)
class TensorValue:
    """A tensor. The shape is that of one made for lack of another."""

    dtype: str
    shape: tuple[int, ...] = field(compare=False)


@dataclass(frozen=True, eq=False)
class Container:
    """A list, tuple or dictionary (with its keys, whose order is no matter)."""

    kind: type
    keys: tuple[Any, ...]
    items: tuple[AbstractValue, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Container) or self.kind is not other.kind:
            return False
        found = other.in_order(self.keys)
        return found is not None and self.items == found.items

    def __hash__(self) -> int:
        return hash((self.kind, len(self.items)))

    def in_order(self, keys: tuple[Any, ...]) -> Container | None:
        """The same with the keys in this order; None if it has others."""
        if self.keys == keys:
            return self
        items = dict(zip(self.keys, self.items, strict=True))
        if items.keys() != set(keys):
            return None
        return Container(self.kind, keys, tuple(items[key] for key in keys))


@dataclass(frozen=True)
class OneOf:
    """A result whose kind, one of these, is known at run time only."""

    options: tuple[AbstractValue, ...]


AbstractValue = Unbound | Constant | TensorValue | Container | OneOf


def same(a: Any, b: Any) -> bool:
    """Whether two values that are no tensors are the same."""
    if a is b:
        return True
    if isinstance(a, SymbolicDim) or isinstance(b, SymbolicDim):
        return False
    return type(a) is type(b) and isinstance(a, _VALUES) and bool(a == b)


def _is_number(thing: Any) -> bool:
    return isinstance(thing, (bool, int, float, np.generic))


def abstract_value(value: Any) -> AbstractValue:
    """What a variable's value is."""
    if value is UNDEFINED:
        return Unbound()
    if isinstance(value, _core.Tensor):
        return TensorValue(dtype_name(value), tuple(int(n) for n in value.shape))
    if isinstance(value, TaggedUnion):
        return OneOf(tuple(map(abstract_value, value.options)))
    if type(value) in (list, tuple, _core.Shape):
        kind = tuple if type(value) is tuple else list
        return Container(kind, (), tuple(map(abstract_value, value)))
    if type(value) is dict:
        return Container(dict, tuple(value), tuple(map(abstract_value, value.values())))
    return Constant(value)


def _number_dtype(value: Any) -> str:
    if isinstance(value, np.generic):
        return str(value.dtype.name)
    if isinstance(value, bool):
        return "bool"
    return "int64" if isinstance(value, int) else dtype_name(get_default_dtype())


def _level(dtype: str) -> int:
    """Which dtypes a Python number may take: bool, integers, floats."""
    if dtype == "bool":
        return 0
    return 1 if "int" in dtype else 2


def shown(kind: AbstractValue) -> str:
    """A kind in words."""
    if isinstance(kind, TensorValue):
        return f"a {kind.dtype} Tensor"
    if isinstance(kind, Container):
        name, items = kind.kind.__name__, ", ".join(map(shown, kind.items))
        return f"a {name} of {len(kind.items)} ({items})"
    if isinstance(kind, OneOf):
        return " or ".join(map(shown, kind.options))
    if isinstance(kind, Constant):
        plain = isinstance(kind.value, _VALUES)
        name = type(kind.value).__name__
        return repr(kind.value) if plain else f"a {name} ({id(kind.value):#x})"
    return "no value"


def has_tensors(kind: AbstractValue) -> bool:
    """Whether there is a tensor in it."""
    if isinstance(kind, Container):
        return any(map(has_tensors, kind.items))
    return isinstance(kind, (TensorValue, OneOf))


def fits(kind: AbstractValue, wanted: AbstractValue) -> bool:
    """Whether a value of the kind can be made one of the other."""
    try:
        return isinstance(wanted, Unbound) or join_results(kind, wanted) == wanted
    except JoinError:
        return False


def join(a: AbstractValue, b: AbstractValue, lenient: bool) -> AbstractValue:
    """The kind that values of both can take.

    Args:
        a, b: The kinds.
        lenient: Whether a missing value may be made up: nobody will read it.

    Raises:
        JoinError: If there is none.
    """
    if a == b:
        return a
    if isinstance(a, Unbound) or isinstance(b, Unbound):
        return (b if isinstance(a, Unbound) else a) if lenient else Unbound()
    if isinstance(a, TensorValue) and isinstance(b, TensorValue):
        raise JoinError(shown(a), shown(b))
    if isinstance(a, TensorValue) and isinstance(b, Constant):
        return _leaf_for(a, b)
    if isinstance(a, Constant) and isinstance(b, TensorValue):
        return _leaf_for(b, a)
    if isinstance(a, Container) and isinstance(b, Container):
        other = b.in_order(a.keys) if a.kind is b.kind else None
        if other is not None and len(a.items) == len(other.items):
            pairs = zip(a.items, other.items, strict=True)
            return Container(a.kind, a.keys, tuple(join(*p, lenient) for p in pairs))
    if isinstance(a, Constant) and isinstance(b, Constant):
        numbers = [k.value for k in (a, b) if _is_number(k.value)]
        if len(numbers) == 2:
            return TensorValue(max(map(_number_dtype, numbers), key=_level), ())
    raise JoinError(shown(a), shown(b))


def _leaf_for(leaf: TensorValue, number: Constant) -> TensorValue:
    """The tensor's kind, if the number can be one of its elements."""
    value = number.value
    if _is_number(value) and _level(_number_dtype(value)) <= _level(leaf.dtype):
        return leaf
    raise JoinError(shown(leaf), shown(number))


def join_results(a: AbstractValue, b: AbstractValue) -> AbstractValue:
    """The kind of what a function returns, which may be one of several."""
    try:
        if not isinstance(a, OneOf) and not isinstance(b, OneOf):
            return join(a, b, True)
    except JoinError:
        pass
    options: list[AbstractValue] = []
    for kind in (a, b):
        for option in kind.options if isinstance(kind, OneOf) else (kind,):
            if not isinstance(option, Unbound):
                _add_option(options, option)
    return OneOf(tuple(options)) if len(options) > 1 else options[0]


def _add_option(options: list[AbstractValue], kind: AbstractValue) -> None:
    for i, known in enumerate(options):
        try:
            options[i] = join(known, kind, True)
        except JoinError:
            continue
        return
    options.append(kind)


def conform(value: Any, kind: AbstractValue) -> Any:
    """The value as one of that kind, to which its own was joined."""
    if isinstance(kind, OneOf):
        return _varied(value, kind)
    if isinstance(kind, Container):
        items = [UNDEFINED] * len(kind.items)
        if value is not UNDEFINED:
            items = [value[key] for key in kind.keys or range(len(kind.items))]
        results = [conform(v, k) for v, k in zip(items, kind.items, strict=True)]
        if kind.kind is dict:
            return dict(zip(kind.keys, results, strict=True))
        return kind.kind(results)
    if isinstance(kind, Constant):
        return kind.value
    if isinstance(kind, Unbound):
        return UNDEFINED
    if isinstance(value, _core.Tensor):
        return value
    if isinstance(value, SymbolicDim):
        return ops.cast(value.number(), dtype=kind.dtype)
    number = 0 if value is UNDEFINED else value
    shape = [max(n, 1) if n < 0 else n for n in kind.shape]
    return ops.full(shape=shape, value=number, dtype=kind.dtype)


def _varied(value: Any, kind: OneOf) -> TaggedUnion:
    if isinstance(value, TaggedUnion):
        variables = [_option(kind, abstract_value(v)) for v in value.options]
        chosen = ops.full(shape=[], value=variables[0], dtype="int64")
        for k, position in enumerate(variables[1:], 1):
            here = ops.equal(value.tag, k)
            other = ops.full(shape=[], value=position, dtype="int64")
            chosen = ops.where(here, other, chosen)
        given = dict(zip(variables, value.options, strict=True))
    else:
        position = 0 if value is UNDEFINED else _option(kind, abstract_value(value))
        chosen, given = (
            ops.full(shape=[], value=position, dtype="int64"),
            {position: value},
        )
    return TaggedUnion(
        chosen,
        [conform(given.get(k, UNDEFINED), o) for k, o in enumerate(kind.options)],
    )


def _option(kind: OneOf, one: AbstractValue) -> int:
    for k, option in enumerate(kind.options):
        try:
            if join(option, one, True) == option:
                return k
        except JoinError:
            continue
    raise JoinError(shown(kind), shown(one))


def tensors_of(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The tensors of a value that conforms, each with what it is called."""
    if isinstance(value, _core.Tensor):
        yield name, value
    elif isinstance(value, TaggedUnion):
        yield f"{name}.tag", value.tag
        for k, option in enumerate(value.options):
            yield from tensors_of(option, f"{name}.{k}")
    elif type(value) in (list, tuple, _core.Shape):
        for k, item in enumerate(value):
            yield from tensors_of(item, f"{name}[{k}]")
    elif type(value) is dict:
        for key, item in value.items():
            yield from tensors_of(item, f"{name}[{key!r}]")


def rebuilt(kind: AbstractValue, tensors: Iterator[Any]) -> Any:
    """A value of that kind with these tensors."""
    if isinstance(kind, TensorValue):
        return next(tensors)
    if isinstance(kind, OneOf):
        tag = next(tensors)
        return TaggedUnion(tag, [rebuilt(option, tensors) for option in kind.options])
    if isinstance(kind, Container):
        items = [rebuilt(item, tensors) for item in kind.items]
        if kind.kind is dict:
            return dict(zip(kind.keys, items, strict=True))
        return kind.kind(items)
    return UNDEFINED if isinstance(kind, Unbound) else kind.value
