"""Python's own functions, for what they are given while a function is recorded."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

from proa import _core
from proa._core import ops
from proa.base.dtype import get_default_dtype
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.jit.convert.effects import when_run
from proa.jit.flow import is_symbolic
from proa.tensor.symbolic_dims import SymbolicDim


class SymbolicIterable:
    """An iterable of symbolic length, which a recorded loop iterates over.

    Attributes:
        count: Its length, a 0-d int64 tensor.
        at: The item of an index.
    """

    def __init__(self, count: Any, at: Callable[[Any], Any]) -> None:
        self.count, self.at = count, at

    def __iter__(self) -> Iterator[Any]:
        raise UnimplementedError(
            "[to_static] an iterable of symbolic length must be iterated over by a "
            "`for` statement of a function that is converted, got another use"
        )

    __len__: Any = None


def _is_symbolic(thing: Any) -> bool:
    return is_symbolic(thing) or isinstance(thing, SymbolicDim)


def _int64(thing: Any) -> Any:
    """A number as a 0-d int64 tensor."""
    if isinstance(thing, SymbolicDim):
        thing = thing.number()
    if not isinstance(thing, _core.Tensor):
        return ops.full(shape=[], value=int(thing), dtype="int64")
    thing = ops.cast(thing, dtype="int64")
    return thing if thing.ndim == 0 else ops.reshape(thing, shape=[])


def as_symbolic_iterable(items: Any) -> SymbolicIterable | None:
    """The items as an iterable of symbolic length; None if their number is known."""
    if isinstance(items, SymbolicIterable):
        return items
    if is_symbolic(items) and items.ndim and isinstance(items.shape[0], SymbolicDim):
        return SymbolicIterable(_int64(items.shape[0]), items.__getitem__)
    return None


def range_(*args: Any) -> Any:
    """``range``, of tensors too."""
    if not any(map(_is_symbolic, args)):
        return range(*(int(a) if isinstance(a, _core.Tensor) else a for a in args))
    if not 1 <= len(args) <= 3:
        raise InvalidArgumentError(
            f"[range] expected one to three numbers, got {len(args)}"
        )
    first, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    start, pace = _int64(first), _int64(step)
    length = ops.sub(_int64(stop), start)
    # As many steps as it takes to reach the end, rounded up; none in the wrong way.
    count = ops.neg(ops.floor_div(ops.neg(length), pace))
    return SymbolicIterable(
        ops.maximum(count, _int64(0)), lambda k: ops.add(start, ops.mul(k, pace))
    )


def enumerate_(items: Any, start: Any = 0) -> Any:
    """``enumerate``, of tensors too."""
    found = as_symbolic_iterable(items)
    if found is None:
        return enumerate(items, start)
    return SymbolicIterable(found.count, lambda k: (k + start, found.at(k)))


def zip_(*args: Any, **keywords: Any) -> Any:
    """``zip``, of tensors too."""
    found = [as_symbolic_iterable(items) for items in args]
    if all(one is None for one in found):
        return zip(*args, **keywords)  # noqa: B905  (as the call has it)
    parts = []
    for items, one in zip(args, found, strict=True):
        if one is None and not isinstance(items, _core.Tensor):
            raise UnimplementedError(
                "[zip] items must be tensors where an argument has a symbolic length, "
                f"got a {type(items).__name__}"
            )
        if one is None:
            one = SymbolicIterable(_int64(items.shape[0]), items.__getitem__)
        parts.append(one)
    count = parts[0].count
    for part in parts[1:]:
        count = ops.minimum(count, part.count)
    return SymbolicIterable(count, lambda k: tuple(part.at(k) for part in parts))


def len_(items: Any) -> Any:
    """``len``, of tensors too."""
    if isinstance(items, SymbolicIterable):
        return items.count
    if is_symbolic(items) and items.ndim:
        return items.shape[0]
    return len(items)


def _cast(to: Callable[..., Any], dtype: Callable[[], Any]) -> Callable[..., Any]:
    def cast(*args: Any, **keywords: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], SymbolicDim):
            return ops.cast(args[0].number(), dtype=dtype())
        if len(args) == 1 and is_symbolic(args[0]):
            return ops.cast(args[0], dtype=dtype())
        return to(*args, **keywords)

    return cast


def print_(*args: Any, **keywords: Any) -> None:
    """``print``; with symbols among what is printed, whenever the program runs."""
    at = [k for k, arg in enumerate(args) if _is_symbolic(arg)]
    if not at:
        print(*args, **keywords)
        return
    symbols = [args[k] for k in at]
    tensors = [s.number() if isinstance(s, SymbolicDim) else s for s in symbols]
    known = [None if k in at else arg for k, arg in enumerate(args)]

    def show(*values: Any) -> None:
        shown = dict(zip(at, values, strict=True))
        print(*(shown.get(k, arg) for k, arg in enumerate(known)), **keywords)

    when_run(show, tensors)


#: What is called in their place.
SUBSTITUTES: dict[Any, Callable[..., Any]] = {
    builtins.range: range_,
    builtins.enumerate: enumerate_,
    builtins.zip: zip_,
    builtins.len: len_,
    builtins.print: print_,
    builtins.int: _cast(int, lambda: "int64"),
    builtins.float: _cast(float, get_default_dtype),
    builtins.bool: _cast(bool, lambda: "bool"),
}
