"""Symbolic dimensions: sizes that are unknown while a graph is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

from proa import _core
from proa._core import Tensor, ops
from proa.base.mode import static_builder
from proa.errors import UnimplementedError

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike


class SymbolicDim(int):
    """A size of a symbolic tensor that is unknown while a graph is recorded.

    As an integer it is -1, its marker in shapes. It records how it is computed
    from the sizes of the graph's arrays, ``n * factor // divisor + extra + m`` (or - m)
    of sizes n and m: it can be computed with and be part of other arrays' shapes. One
    that is divided by another must be a multiple of it, which runs check.
    """

    of: Any  # the tensor with the size n, and its axis
    axis: int
    factor: int
    divisor: int
    extra: int
    plus: tuple[Any, int, int] | None  # the tensor with the size m, its axis, 1 or -1

    def __new__(
        cls,
        of: Any,
        axis: int,
        factor: int = 1,
        divisor: int = 1,
        extra: int = 0,
        plus: tuple[Any, int, int] | None = None,
    ) -> SymbolicDim:
        self = super().__new__(cls, -1)
        self.of, self.axis, self.plus = of, axis, plus
        self.factor, self.divisor, self.extra = factor, divisor, extra
        return self

    def number(self) -> Tensor:
        """The size as a 0-d int32 tensor, as `shape` gives sizes."""
        ones = ops.full_like(sized([self]), value=1, dtype="int32")
        return ops.cast(ops.sum(ones, axis=[]), dtype="int32")

    @staticmethod
    def stacked(sizes: Sequence[Any]) -> Tensor:
        """Numbers, open ones among them, as an int32 tensor."""
        return ops.stack(*[number_of(size) for size in sizes], axis=0)

    def astype(self, dtype: DTypeLike) -> Tensor:
        """`number` in another dtype."""
        return ops.cast(self.number(), dtype=dtype)

    cast = astype

    def plain(self) -> SymbolicDim:
        """The same size as that of one array, without arithmetic."""
        if (self.factor, self.divisor, self.extra, self.plus) == (1, 1, 0, None):
            return self
        return SymbolicDim(sized([self]), 0)

    def is_not_negative(self) -> bool:
        """Whether it is known that no run has a size below zero."""
        added = self.plus is None or self.plus[2] > 0
        return self.factor > 0 and self.extra >= 0 and added

    def upper_bound(self) -> Any:
        """A size that no run finds this one above, and that none finds below zero."""
        found: Any = max(self.extra, 0)
        if self.factor > 0:
            found += SymbolicDim(self.of, self.axis, self.factor, self.divisor)
        if self.plus is not None and self.plus[2] > 0:
            found += SymbolicDim(*self.plus[:2])
        return found

    def is_axis_of(self, x: Any) -> bool:
        """Whether it is that of an axis of this tensor, without arithmetic."""
        return self.of is x and self.plain() is self

    def _terms(self) -> tuple[object, ...]:
        """What it is computed from; arrays by identity, for ``==`` is an operator."""
        more = None if self.plus is None else (id(self.plus[0]), *self.plus[1:])
        numbers = (self.factor, self.divisor, self.extra)
        return id(self.of), self.axis, *numbers, more

    def _with(self, other: SymbolicDim, sign: int) -> SymbolicDim:
        one, two = (n if n.plus is None else n.plain() for n in (self, other))
        # No array has a size below zero: signs and what is added are outside of it.
        size = SymbolicDim(two.of, two.axis, abs(two.factor), two.divisor).plain()
        plus = (size.of, size.axis, sign if two.factor > 0 else -sign)
        extra = one.extra + sign * two.extra
        return SymbolicDim(one.of, one.axis, one.factor, one.divisor, extra, plus)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, SymbolicDim):
            return self._with(other, 1)
        if isinstance(other, float):
            return self.number() + other
        if not isinstance(other, int):
            return NotImplemented
        extra = self.extra + other
        return SymbolicDim(
            self.of, self.axis, self.factor, self.divisor, extra, self.plus
        )

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, SymbolicDim):
            return self._with(other, -1)
        return self + -other if isinstance(other, (int, float)) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, SymbolicDim):
            flat = ops.flatten(sized([self, other]), start_axis=0, stop_axis=-1)
            return SymbolicDim(flat, 0)
        if isinstance(other, float):
            return self.number() * other
        if not isinstance(other, int):
            return NotImplemented
        one, plus = self, self.plus
        if plus is not None:
            if other != -1:
                return self.plain() * other
            plus = (plus[0], plus[1], -plus[2])
        if self.divisor != 1:  # rounded before it is multiplied
            one = SymbolicDim(self.of, self.axis, self.factor, self.divisor).plain()
        factor, extra = one.factor * other, self.extra * other
        return SymbolicDim(one.of, one.axis, factor, 1, extra, plus)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, SymbolicDim):
            # (m, n // m) of n elements: runs refuse an n that is no multiple of m.
            return SymbolicDim(sized([other, -1], sized([self])), 1)
        if not isinstance(other, int) or other < 1:
            self._refuse(f"divided by {other!r}")
        if self.factor < 0 and self.extra <= 0 and self.plus is None:  # rounded down
            return -((-self + (other - 1)) // other)
        if (self.divisor, self.extra, self.plus) != (1, 0, None):
            return self.plain() // other
        return SymbolicDim(self.of, self.axis, self.factor, other)

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.number() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.number()

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, SymbolicDim):
            self._refuse("taken modulo another")
        return self - self // other * other

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        return self.number() ** other

    def __rpow__(self, other: Any, modulus: Any = None) -> Any:
        return other ** self.number()

    def __float__(self) -> NoReturn:
        self._refuse("made a float")

    def __rsub__(self, other: Any) -> Any:
        if isinstance(other, SymbolicDim) or not isinstance(other, int):
            self._refuse(f"taken from {other!r}")
        return self * -1 + other

    def __neg__(self) -> Any:
        return self * -1

    # It compares greater than 1, as for broadcasting, and not equal to 1.
    # To every other number it compares as -1, by which programs know it.
    def __gt__(self, other: Any) -> bool:
        return other == 1 or int.__gt__(self, other)

    def __ge__(self, other: Any) -> bool:
        return other == 2 or int.__ge__(self, other)

    def __le__(self, other: Any) -> bool:
        return other != 1 and int.__le__(self, other)

    def __lt__(self, other: Any) -> bool:
        return other != 2 and int.__lt__(self, other)

    def __reduce__(self) -> Any:
        return int, (-1,)  # the arrays of a recording end with it

    # int's own, which a class that adds others would lose
    __hash__ = int.__hash__

    def _refuse(self, what: str) -> NoReturn:
        raise UnimplementedError(
            "[shape] a symbolic dimension supports + - * / // % and **, got one that "
            f"is {what}; give its size in InputSpec"
        )


#: Axes that an array has at most; `sized` names axes by it.
_AXES = 8

_core.set_symbolic_dim(SymbolicDim)


def number_of(size: Any) -> Tensor:
    """A size, open or known, as a 0-d int32 tensor."""
    if isinstance(size, SymbolicDim):
        return size.number()
    if isinstance(size, Tensor):
        return ops.cast(size, dtype="int32")
    return ops.full(shape=[], value=int(size), dtype="int32")


class Sizes(list[Any]):
    """Sizes of a shape that is not known whole, which do what tensors do as well.

    A list, so that they can be parts of other shapes; computed with, and used for what
    tensors have, they are an int32 tensor, as the shape of a known one is.
    """

    def tensor(self) -> Tensor:
        """The sizes as an int32 tensor."""
        return SymbolicDim.stacked(self)

    def __getitem__(self, item: Any) -> Any:
        found = super().__getitem__(item)
        return Sizes(found) if isinstance(item, slice) else found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.tensor(), name)

    def __add__(self, other: Any) -> Any:
        return self.tensor() + other

    def __radd__(self, other: Any) -> Any:
        return other + self.tensor()

    def __sub__(self, other: Any) -> Any:
        return self.tensor() - other

    def __rsub__(self, other: Any) -> Any:
        return other - self.tensor()

    def __mul__(self, other: Any) -> Any:
        return self.tensor() * other

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self.tensor() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.tensor()

    def __floordiv__(self, other: Any) -> Any:
        return self.tensor() // other


def has_symbolic_dims(shape: Any) -> TypeGuard[Sequence[Any]]:
    """Whether the shape has symbolic dimensions."""
    return _core.has_symbolic_dims(shape)


def same_size(a: Any, b: Any) -> bool | None:
    """Whether two sizes are equal; None if a run alone knows.

    A symbolic dimension is taken not to be 1, as for broadcasting.
    """
    if not isinstance(a, SymbolicDim):
        a, b = b, a
    if not isinstance(a, SymbolicDim):
        return bool(a == b)
    if isinstance(b, SymbolicDim):
        return True if a._terms() == b._terms() else None
    return False if b == 1 or (b < 0 and a.is_not_negative()) else None


def of_shape(tensor: Tensor, shape: Any) -> Tensor:
    """What an operator without arrays made, whose shape may have sizes that only a run
    of a static program knows.
    """
    if has_symbolic_dims(shape) and (builder := static_builder()) is not None:
        builder.note_symbolic_shape(tensor, shape)
    return tensor


def sized(shape: Sequence[Any], first: Any = None) -> Tensor:
    """An array with a shape with symbolic dimensions, without memory.

    Args:
        shape: Sizes; -1 for one lets the array have as many elements as ``first``.
        first: A tensor to begin with; one that a size follows from if None.
    """
    arrays: list[Any] = [] if first is None else [first]
    columns = zip(*(_row(size, arrays) for size in shape), strict=True)
    sizes, axes, divisors, extras, plus = columns if len(shape) else [()] * 5
    return ops.sized(
        *arrays, sizes=sizes, axes=axes, divisors=divisors, extras=extras, plus=plus
    )


def _name(arrays: list[Any], array: Any, axis: int) -> int:
    """What `sized` calls an array's axis; the array is among those given to it."""
    at = [i for i, known in enumerate(arrays) if known is array]
    if not at:
        at = [len(arrays)]
        arrays.append(array)
    return at[0] * _AXES + axis


def _row(size: Any, arrays: list[Any]) -> tuple[int, int, int, int, int]:
    """The numbers by which `sized` computes a size, of which those arrays are part."""
    if not isinstance(size, SymbolicDim):
        number = size.item() if isinstance(size, Tensor) else size
        return int(number), -1, 1, 0, -1
    more = -1
    if size.plus is not None:
        array, axis, sign = size.plus
        named = _name(arrays, array, axis)
        more = named if sign > 0 else -2 - named
    at = _name(arrays, size.of, size.axis)
    return size.factor, at, size.divisor, size.extra, more


def limited(size: Any, x: Tensor, axis: int, *, from_end: bool = False) -> Any:
    """A size, or the nearest one of 0 and those up to that of an axis of x.

    Args:
        size: The size, which may be symbolic and negative.
        x: What has the axis.
        axis: The axis, counted from the first.
        from_end: Negative sizes count from the axis's end, as bounds of slices do.
    """
    arrays: list[Any] = []
    number, at, divisor, extra, plus = _row(size, arrays)
    limit = _name(arrays, x, axis)
    found = ops.sized(
        *arrays, sizes=[number], axes=[at], divisors=[divisor], extras=[extra],
        plus=[plus], limits=[-2 - limit if from_end else limit],
    )  # fmt: skip
    return found.shape[0]


def maximum(a: Any, b: Any) -> Any:
    """The larger of two sizes, of which some are symbolic.

    None for symbolic ones that may be below zero.
    """
    if not isinstance(a, SymbolicDim):
        a, b = b, a
    if not isinstance(a, SymbolicDim):
        return max(a, b)
    if isinstance(b, SymbolicDim):
        if same_size(a, b):
            return a
        if not (a.is_not_negative() and b.is_not_negative()):
            return None
    return b + _not_negative(a - b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two sizes, of which some are symbolic.

    A run refuses a symbolic one that is below zero next to another.
    """
    if not isinstance(a, SymbolicDim):
        a, b = b, a
    if not isinstance(a, SymbolicDim):
        return min(a, b)
    if isinstance(b, SymbolicDim):
        if same_size(a, b):
            return a
        if not a.is_not_negative():
            a, b = b, a
        return limited(a if a.is_not_negative() else a.plain(), sized([b]), 0)
    if a.is_not_negative():
        return limited(a, sized([b], a.of), 0) if b > 0 else b
    return _not_negative(b - a) * -1 + b


def _not_negative(size: SymbolicDim) -> Any:
    """A size, or 0 in its place if it is below zero."""
    if size.is_not_negative():
        return size
    bound = size.upper_bound()
    if not isinstance(bound, SymbolicDim):
        return 0 if bound == 0 else limited(size, sized([bound], size.of), 0)
    return limited(size, sized([bound]), 0)


def steps_from(start: Any, span: Any, step: int) -> Tensor:
    """``start``, ``start + step``, … of ``span`` integers, as int64; sizes may be
    symbolic.
    """
    count = (span + abs(step) - 1) // abs(step)
    if isinstance(count, SymbolicDim):
        each = ops.full_like(sized([count]), value=step, dtype="int64")
    else:
        each = ops.full(shape=[count], value=step, dtype="int64")
    number = ops.cumsum(each, axis=0)
    if isinstance(start, SymbolicDim):  # it is known as the length of an array alone
        ones = ops.full_like(sized([start]), value=1, dtype="int64")
        return number + ops.sum(ones, axis=[]) - step
    return ops.scale(number, scale=1, bias=start - step)
