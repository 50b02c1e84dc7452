"""What a row of an exporter's table is called with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from proa.interop.exporter.target import NotExpressibleError, Ref
from proa.ir.program import Node, Value

if TYPE_CHECKING:
    from proa.interop.exporter.lowering import Lowering


class Call(ABC):
    """One operator to be written: what its results must be, and means to write others.

    Attributes:
        name: The operator's.
        outputs: The results' dtypes and shapes.
    """

    def __init__(self, node: Node, lowering: Lowering) -> None:
        self.name, self.outputs = node.op, node.outputs
        self._node, self._lowering = node, lowering

    # -- the program -----------------------------------------------------------------
    def given(self, at: int) -> Value | None:
        """The program's value that is input `at`."""
        return self._node.inputs[at]

    def maker_of(self, value: Value | None) -> Node | None:
        """The program's node that made a value, also if in another block."""
        source = self._lowering.source
        return None if value is None else source.get(value, value).producer

    def written(self, value: Value | None) -> Ref | None:
        """The array of a value that is made before this operator, or a constant."""
        refs, source = self._lowering.refs, self._lowering.source
        return None if value is None else refs.get(source.get(value, value))

    def refuse(self, why: str) -> NoReturn:
        """Say that nothing of the format does this."""
        raise NotExpressibleError(why)

    def row(self, name: str, *inputs: Any, **attrs: Any) -> Any:
        """What another operator of Proa gives: an array, or a tuple. Numbers take the
        dtype of the arrays next to them.
        """
        refs = [i for i in inputs if isinstance(i, Ref)]
        like = [r for r in refs if r.dtype != "bool"] or refs
        given = [
            self.number(i, like[0]) if isinstance(i, (bool, int, float)) else i
            for i in inputs
        ]
        found = self._lowering.lower(name, given, attrs)
        return found[0] if len(found) == 1 else found

    # -- arrays ----------------------------------------------------------------------
    @abstractmethod
    def const(self, data: Any, dtype: str) -> Ref:
        """A constant of a dtype other than bfloat16."""

    @abstractmethod
    def number(self, value: float, like: Ref) -> Ref:
        """A number of the array's dtype, without axes."""

    @abstractmethod
    def ints(self, values: Sequence[int]) -> Ref:
        """A list of numbers, of the dtype that the format has for sizes."""

    @abstractmethod
    def cast(self, x: Ref, dtype: str) -> Ref:
        """x in another dtype."""

    # -- sizes -----------------------------------------------------------------------
    @abstractmethod
    def _shape_of(self, x: Ref) -> Ref:
        """An operator that gives the sizes of all axes."""

    @abstractmethod
    def _element(self, x: Ref, at: int) -> Ref:
        """An operator that gives an element of a list, as a list of one."""

    @abstractmethod
    def _times(self, a: Ref, b: Ref) -> Ref:
        """An operator that gives the product of lists of one element."""

    def _once(self, key: Any, result: Callable[[], Ref]) -> Ref:
        target = self._lowering.target
        known = target.remembered(key)
        return target.remember(key, result()) if known is None else known

    def shape(self, x: Ref) -> Ref:
        """The sizes of all axes, a list."""
        if x.shape is not None and -1 not in x.shape:
            return self.ints(x.shape)
        return self._once(("shape", x.name), lambda: self._shape_of(x))

    def size(self, x: Ref, axis: int) -> int | Ref:
        """The size of an axis: a number, or a list of one element."""
        axis %= x.rank
        assert x.shape is not None
        if x.shape[axis] >= 0:
            return x.shape[axis]
        key = ("size", x.name, axis)
        return self._once(key, lambda: self._element(self.shape(x), axis))

    def product(self, sizes: Sequence[int | Ref]) -> int | Ref:
        """The product of sizes."""
        known = 1
        found: Ref | None = None
        for size in sizes:
            if isinstance(size, int):
                known *= size
            else:
                found = size if found is None else self._times(found, size)
        if found is None or known == 1:
            return known if found is None else found
        return self._times(found, self.ints([known]))
