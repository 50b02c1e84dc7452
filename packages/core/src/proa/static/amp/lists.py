"""Which operators of a program are to compute in 16 bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from proa.amp.autocast import low_dtype
from proa.amp.lists import classes
from proa.schema import ROWS

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike


class AutoMixedPrecisionLists:
    """Operators by class: the rows' own, and what is requested.

    Args:
        custom_white_list: Operators (PaddlePaddle's names or the rows') to compute in
            16 bits.
        custom_black_list: Operators to compute in float32.
        custom_black_varnames: Names of values; what reads or makes one stays float32.
        dtype: "float16" or "bfloat16".

    Attributes:
        white_list: Names of rows that compute in 16 bits.
        black_list: Names of rows that compute in float32.
        gray_list: Names of rows that compute in what they are given.

    Raises:
        InvalidArgumentError: If an operator is in both custom lists.
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Iterable[str] | None = None,
        dtype: DTypeLike = "float16",
    ) -> None:
        where = type(self).__name__
        self._dtype = low_dtype(where, dtype).name
        self._white = None if custom_white_list is None else set(custom_white_list)
        self._black = None if custom_black_list is None else set(custom_black_list)
        self.black_varnames = set(custom_black_varnames or ())
        found = self.classes("O1")
        self.white_list = {name for name, kind in found.items() if kind == "white"}
        self.black_list = {name for name, kind in found.items() if kind == "black"}
        self.gray_list = set(found) - self.white_list - self.black_list

    def classes(self, level: str) -> dict[str, str]:
        """The class of every row at level "O1" or "O2": white, black, gray or mixed."""
        found: dict[str, str] = {row.name: row.autocast for row in ROWS.values()}
        own = classes(type(self).__name__, level, self._white, self._black)
        return {**found, **(own or {})}


CustomOpLists = AutoMixedPrecisionLists
