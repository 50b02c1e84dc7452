"""The operator table. Standard library only: the build itself reads it."""

from proa.schema import ops as _ops  # noqa: F401  (fills ROWS)
from proa.schema.row import COMPOSITE, ROWS, Array, Attribute, Row, op

__all__ = ["COMPOSITE", "ROWS", "Array", "Attribute", "Row", "op"]
