"""Numbers of the model file, as FORMAT.md has them."""

from __future__ import annotations

import numpy as np

from proa.ir.program import Kind

MAGIC = b"PROAGRPH"
FORMAT = 1
HEADER_BYTES = 104
CHECKSUM_AT = 32
TABLES_AT = 40
NO_VALUE = 0xFFFFFFFF
ALIGN = 64
#: Offsets in the graph have 32 bits.
MAX_GRAPH_BYTES = 0xFFFFFFFF
GRAPH = "__proa__"
PAD = "__pad."
KINDS: tuple[Kind, ...] = ("node", "input", "const", "param")

#: The tables in the order of the header, and a record of each.
TABLES: dict[str, np.dtype[np.void] | np.dtype[np.uint32] | np.dtype[np.uint8]] = {
    "strings": np.dtype([("offset", "<u4"), ("size", "<u4")]),
    "ops": np.dtype([("name", "<u4"), ("version", "<u4")]),
    "values": np.dtype(
        [
            ("name", "<u4"),
            ("dtype", "u1"),
            ("rank", "i1"),
            ("kind", "u1"),
            ("zero", "u1"),
            ("shape", "<i8", (8,)),
            ("data_offset", "<u8"),
            ("data_size", "<u8"),
        ]
    ),
    "nodes": np.dtype(
        [
            ("op", "<u4"),
            ("input_first", "<u4"),
            ("input_count", "<u4"),
            ("output_first", "<u4"),
            ("output_count", "<u4"),
            ("attr_offset", "<u4"),
            ("attr_size", "<u4"),
            ("zero", "<u4"),
        ]
    ),
    "blocks": np.dtype(
        [
            ("node_first", "<u4"),
            ("node_count", "<u4"),
            ("value_first", "<u4"),
            ("value_count", "<u4"),
            ("input_count", "<u4"),
            ("output_first", "<u4"),
            ("output_count", "<u4"),
            ("zero", "<u4"),
        ]
    ),
    "ids": np.dtype("<u4"),
    "metadata": np.dtype([("key", "<u4"), ("value", "<u4")]),
    "attributes": np.dtype("u1"),
}

#: dtype -> its name in safetensors and how many of those make an element.
SAFETENSORS = {
    "bool": ("BOOL", 1),
    "uint8": ("U8", 1),
    "int8": ("I8", 1),
    "int16": ("I16", 1),
    "int32": ("I32", 1),
    "int64": ("I64", 1),
    "float16": ("F16", 1),
    "bfloat16": ("BF16", 1),
    "float32": ("F32", 1),
    "float64": ("F64", 1),
    "complex64": ("F32", 2),
    "complex128": ("F64", 2),
}


def align(n: int, to: int = ALIGN) -> int:
    """The least multiple of `to` that is not below n."""
    return -(-n // to) * to
