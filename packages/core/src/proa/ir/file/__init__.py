"""Model files: FORMAT.md describes the bytes."""

from proa.ir.file.read import from_bytes, read
from proa.ir.file.write import to_bytes, write

__all__ = ["from_bytes", "read", "to_bytes", "write"]
