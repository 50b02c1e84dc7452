"""Embedding."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.attr import ParamAttr
from proa.nn.layer.base import Layer
from proa.nn.schemes import Initializer, chosen

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.nn.attr import ParamAttrLike

__all__ = ["Embedding"]


class _ZeroRow(Initializer):
    """Another initializer's table with zeros in one row."""

    def __init__(self, init: Initializer, row: int) -> None:
        self.init, self.row = init, row

    def make(self, shape: list[int], dtype: DTypeLike) -> Tensor:
        table = self.init.make(shape, dtype)
        with NoTape():
            table[self.row] = 0
        return table


class Embedding(Layer):
    """Rows of a learned table.

    Args:
        num_embeddings: Rows of the table.
        embedding_dim: Length of a row.
        padding_idx: The index that gives zeros and is not trained.
        sparse: Whether the table's gradient holds the rows that were looked up alone,
            which optimizers then update by themselves.
        weight_attr: How the table is made.

    Shape:
        x: any shape, int32 or int64. Returns (.., embedding_dim).
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: ParamAttrLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_embeddings <= 0 or embedding_dim <= 0:
            raise InvalidArgumentError(
                "[Embedding] num_embeddings and embedding_dim must be positive, "
                f"got {num_embeddings} and {embedding_dim}"
            )
        if (
            padding_idx is not None
            and not -num_embeddings <= padding_idx < num_embeddings
        ):
            raise InvalidArgumentError(
                f"[Embedding] padding_idx must be in [{-num_embeddings}, "
                f"{num_embeddings}), got {padding_idx}"
            )
        self._num, self._dim = num_embeddings, embedding_dim
        self._sparse = sparse
        self._padding_idx = (
            None if padding_idx is None else padding_idx % num_embeddings
        )
        attr = ParamAttr.of(weight_attr)
        if attr is not None and self._padding_idx is not None:
            attr = copy(attr)
            attr.initializer = _ZeroRow(
                chosen(attr.initializer, None, False), self._padding_idx
            )
        self.weight = self.create_parameter(
            [num_embeddings, embedding_dim], attr=False if attr is None else attr
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.embedding(x, self.weight, self._padding_idx, self._sparse)

    def extra_repr(self) -> str:
        text = f"{self._num}, {self._dim}"
        pad = self._padding_idx
        return text if pad is None else f"{text}, padding_idx={pad}"
