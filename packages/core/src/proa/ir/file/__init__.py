"""Model files: FORMAT.md describes the bytes."""

from proa.ir.file.read import from_bytes, operator_versions, read, stated_checksum
from proa.ir.file.write import check_storable, to_bytes, to_parts, write, write_all

__all__ = [
    "check_storable",
    "from_bytes",
    "operator_versions",
    "read",
    "stated_checksum",
    "to_bytes",
    "to_parts",
    "write",
    "write_all",
]
