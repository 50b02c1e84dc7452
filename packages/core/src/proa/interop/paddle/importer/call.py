"""What a row of the table sees of its operator."""

from __future__ import annotations

from typing import Any

from proa.interop.graph.call import Call as GraphCall
from proa.interop.paddle.proto import DTYPES


class Call(GraphCall):
    """An operator of a Paddle program that is being computed."""

    __slots__ = ()

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean attribute."""
        return bool(self.get(name, default))

    def wants(self, at: int) -> bool:
        """Whether an output of a row without lists of them is read."""
        return len(self.node.outputs) > at and bool(self.node.outputs[at])

    def dtype(self, code: int) -> str:
        """The dtype with a number."""
        if code not in DTYPES:
            raise self.refuse(f"elements of type {code}")
        return DTYPES[code]

    def numbers(self, name: str, tensor: Any = None, tensors: Any = ()) -> list[Any]:
        """An attribute that tensors may replace: one for all numbers, or one for each.

        Args:
            name: The attribute.
            tensor: The input with all numbers.
            tensors: The inputs with one number each.
        """
        if tensors:
            return [self.host(t).reshape(-1)[0] for t in map(self.plain, tensors)]
        if tensor is not None:
            items: list[Any] = self.host(tensor).reshape(-1).tolist()
            return items
        return list(self.get(name) or [])

    def plain(self, value: Any) -> Any:
        """A known value as an array of Python's numbers, symbolic ones among them."""
        return self.host(value).astype(object)

    def axis(self, rank: int, name: str = "axis", default: int = -1) -> int:
        """An attribute that is an axis, counted from the front."""
        axis = int(self.get(name, default))
        return axis + rank if axis < 0 else axis
