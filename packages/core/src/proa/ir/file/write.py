"""Program -> model file."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from proa.base import files
from proa.base.collector import collector_paused
from proa.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    UnimplementedError,
)
from proa.ir.attributes import attributes_key, pack, row_of
from proa.ir.file.compressed import compress
from proa.ir.file.layout import (
    CHECKSUM_AT,
    FORMAT,
    GRAPH,
    HEADER_BYTES,
    KINDS,
    MAGIC,
    MAX_GRAPH_BYTES,
    NO_VALUE,
    PAD,
    SAFETENSORS,
    TABLES,
    TABLES_AT,
    align,
)
from proa.ir.program import NUMPY_TYPES, Array, Block, Node, Program, Value
from proa.schema.dtypes import CODES

_NO_AXES = (0,) * 8


class _Graph:
    """Collects the records of the tables."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {name: [] for name in TABLES}
        self.text = bytearray()
        self.attributes = bytearray()
        self._strings: dict[str, int] = {}
        self._ops: dict[str, int] = {}
        self._attrs: dict[bytes, int] = {}
        self._packed: dict[tuple[str, str], tuple[int, int]] = {}
        self.ids: dict[Value, int] = {}

    def string(self, text: str) -> int:
        if text not in self._strings:
            raw = text.encode()
            if b"\0" in raw:
                raise InvalidArgumentError(
                    f"[ir.write] expected names without NUL characters, got {text!r}"
                )
            self._strings[text] = len(self._strings)
            self.rows["strings"].append((len(self.text), len(raw)))
            self.text += raw + b"\0"
        return self._strings[text]

    def op(self, name: str) -> int:
        if name not in self._ops:
            self._ops[name] = len(self._ops)
            self.rows["ops"].append((self.string(name), row_of(name).version))
        return self._ops[name]

    def value(self, value: Value, offset: int = 0, size: int = 0) -> None:
        if value in self.ids:
            raise InvalidArgumentError(f"[ir.write] {value} must be defined once")
        self.ids[value] = len(self.ids)
        shape = value.shape
        self.rows["values"].append(
            (
                self.string(value.name),
                CODES[value.dtype],
                len(shape),
                KINDS.index(value.kind),
                0,
                shape + _NO_AXES[len(shape) :],
                offset,
                size,
            )
        )

    def _list(self, values: list[Value | None]) -> int:
        first = len(self.rows["ids"])
        for v in values:
            if v is not None and v not in self.ids:
                raise InvalidArgumentError(
                    f"[ir.write] {v} must be defined before its use"
                )
            self.rows["ids"].append(NO_VALUE if v is None else self.ids[v])
        return first

    def attribute_bytes(self, node: Node) -> tuple[int, int]:
        """Where the node's attributes are among all, and their size."""
        key = (node.op, attributes_key(node.attrs))
        if key not in self._packed:
            raw = pack(node.op, node.attrs)
            at = self._attrs.setdefault(raw, len(self.attributes))
            if at == len(self.attributes):
                self.attributes += raw
            self._packed[key] = at, len(raw)
        return self._packed[key]

    def node(self, node: Node) -> None:
        at, size = self.attribute_bytes(node)
        first = self._list(node.inputs)
        output = len(self.ids)
        for value in node.outputs:
            self.value(value)
        self.rows["nodes"].append(
            (
                self.op(node.op),
                first,
                len(node.inputs),
                output,
                len(node.outputs),
                at,  # made an offset in the graph by bytes()
                size,
                0,
            )
        )

    def block(self, block: Block) -> None:
        node_first, value_first = len(self.rows["nodes"]), len(self.ids)
        for value in block.inputs:
            self.value(value)
        for node in block.nodes:
            self.node(node)
        self.rows["blocks"].append(
            (
                node_first,
                len(block.nodes),
                value_first,
                len(self.ids) - value_first,
                len(block.inputs),
                self._list(list(block.outputs)),
                len(block.outputs),
                0,
            )
        )

    def tables(self, constants: int) -> dict[str, bytes]:
        """The tables' bytes. Offsets of strings, of attributes and of the data of the
        first values, which are `constants`, are made absolute.
        """
        sizes = {n: len(self.rows[n]) * TABLES[n].itemsize for n in TABLES}
        sizes["attributes"] = len(self.attributes)
        self.offsets, at = {}, HEADER_BYTES
        for name in TABLES:
            self.offsets[name] = at
            at = align(at + sizes[name], 8)
        self.text_at, self.size = at, align(at + len(self.text))
        self.counts = {n: sizes[n] // TABLES[n].itemsize for n in TABLES}
        if self.size > MAX_GRAPH_BYTES:
            raise ResourceExhaustedError(
                f"[ir.write] a model file holds a graph of at most {MAX_GRAPH_BYTES} "
                f"bytes (weights apart), got {self.size}: {self.counts['values']} "
                f"values, {self.counts['nodes']} nodes"
            )
        raw: dict[str, Any] = {
            n: np.array(self.rows[n], TABLES[n]) for n in TABLES if n != "attributes"
        }
        raw["strings"]["offset"] += self.text_at
        raw["values"]["data_offset"][:constants] += self.size
        raw["nodes"]["attr_offset"] += self.offsets["attributes"]
        result = {n: a.tobytes() for n, a in raw.items()}
        result["attributes"] = bytes(self.attributes)
        return result

    def bytes(self, tables: dict[str, bytes], data_size: int) -> bytearray:
        out = bytearray(self.size)
        struct.pack_into(
            "<8sIIQQII", out, 0, MAGIC, FORMAT, HEADER_BYTES, self.size, data_size, 0, 0
        )
        for i, (name, raw) in enumerate(tables.items()):
            at = self.offsets[name]
            struct.pack_into("<II", out, TABLES_AT + 8 * i, at, self.counts[name])
            out[at : at + len(raw)] = raw
        out[self.text_at : self.text_at + len(self.text)] = self.text
        return out


def _unique_names(constants: list[Value]) -> list[str]:
    names: dict[str, None] = {}
    for value in constants:
        name, k = value.name, 1
        while name in names or name.startswith((GRAPH, PAD)) or name == "__metadata__":
            name, k = f"{value.name}.{k}", k + 1
        names[name] = None
    return list(names)


def _held(value: Value) -> Array:
    if value.data is None:
        raise InvalidArgumentError(
            f"[ir.write] constant {value} must have data, got none"
        )
    kind = np.dtype(NUMPY_TYPES[value.dtype]).newbyteorder("<")
    return np.ascontiguousarray(value.data, kind).reshape(value.shape)


def _header(entries: dict[str, Any]) -> bytes:
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (align(8 + len(text)) - 8 - len(text))
    return struct.pack("<Q", len(text)) + text


def _entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@collector_paused()
def _lay_out(
    program: Program, constants: list[Value]
) -> tuple[bytes, bytearray, list[Array], list[int]]:
    """The header, the graph, the constants' arrays in this order, and how many bytes of
    padding are before each of them.
    """
    arrays = [_held(v) for v in constants]
    g, at, offsets = _Graph(), 0, []
    for value, array in zip(constants, arrays, strict=True):
        offsets.append(at)
        g.value(value, at, array.nbytes)  # made an offset in the data by tables()
        at = align(at + array.nbytes)
    for block in program.blocks:
        g.block(block)
    for key, text in program.metadata.items():
        g.rows["metadata"].append((g.string(key), g.string(text)))
    tables = g.tables(len(constants))
    entries: dict[str, Any] = {"__metadata__": {"format": "proa"}}
    entries[GRAPH] = _entry("U8", [g.size], 0, g.size)
    end, gaps = g.size, []
    names = _unique_names(constants)
    for k, (value, array, offset) in enumerate(
        zip(constants, arrays, offsets, strict=True)
    ):
        begin = g.size + offset
        gaps.append(begin - end)
        if begin > end:
            entries[f"{PAD}{k}"] = _entry("U8", [begin - end], end, begin)
        kind, parts = SAFETENSORS[value.dtype]
        shape = [*value.shape, 2] if parts == 2 else list(value.shape)
        end = begin + array.nbytes
        entries[names[k]] = _entry(kind, shape, begin, end)
    return _header(entries), g.bytes(tables, end), arrays, gaps


def _data(array: Array) -> bytes | memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def encode(
    program: Program, constants: list[Value] | None = None
) -> list[bytes | bytearray | memoryview]:
    """The program's file, as consecutive chunks.

    Args:
        program: What is written.
        constants: All of its constants, in the order in which the file has them.
    """
    from proa import _core

    if constants is None:
        constants = program.constants()
    header, graph, arrays, gaps = _lay_out(program, constants)
    chunks: list[bytes | bytearray | memoryview] = [header, graph]
    for array, gap in zip(arrays, gaps, strict=True):
        if gap:
            chunks.append(bytes(gap))
        chunks.append(_data(array))
    checksum = 0
    for chunk in chunks:
        checksum = _core.crc32(chunk, checksum)
    struct.pack_into("<I", graph, CHECKSUM_AT, checksum)
    return chunks


def to_parts(program: Program) -> tuple[bytes, list[bytes | memoryview]]:
    """The program's file up to the end of its graph, without a checksum, and the memory
    of its constants: what an engine needs that is to copy no weights.
    """
    header, graph, arrays, _ = _lay_out(program, program.constants())
    return header + graph, [_data(array) for array in arrays]


def to_bytes(program: Program, *, compressed: bool = False) -> bytes:
    """The program's file, or a compressed one."""
    return _compressed(program) if compressed else b"".join(encode(program))


def _compressed(program: Program) -> bytes:
    """The program's compressed file. Constants of one dtype follow each other, as their
    bytes are alike; the header, the graph and each dtype begin a block of the stream.
    """
    constants = sorted(program.constants(), key=lambda v: v.dtype)
    chunks = encode(program, constants)
    starts = [len(chunks[0]), len(chunks[0]) + len(chunks[1])]
    at, before = starts[-1], ""
    for value in constants:
        if before not in ("", value.dtype):
            starts.append(at)
        at, before = align(at + _held(value).nbytes), value.dtype
    return compress(b"".join(chunks), starts)


def check_storable(program: Program) -> None:
    """Raise UnimplementedError if the program can run in this process alone."""
    for node in program.nodes():
        if row_of(node.op).calls_python:
            line = f", recorded at {node.line}" if node.line else ""
            raise UnimplementedError(
                "[save] a model file must hold operators, got a Python function "
                f"(py_func){line}"
            )


def write(
    program: Program, path: str | os.PathLike[str], *, compressed: bool = False
) -> None:
    """Write the program's file.

    Whatever happens, `path` then holds a whole file or what it held before.

    Args:
        program: What is written.
        path: Of the file.
        compressed: Whether it is a compressed file, which every runtime reads as well,
            and tools for safetensors do not.

    Raises:
        UnimplementedError: If the program calls functions of this process.
    """
    write_all({path: program}, compressed=compressed)


def write_all(programs: Mapping[Any, Program], *, compressed: bool = False) -> None:
    """Write several files, by their paths, as a unit: none is replaced before all are
    on the disk, and they are replaced in this order.

    Raises:
        As `write` does.
    """
    for program in programs.values():
        check_storable(program)
    files.replace_all([
        files.Replacement(n, [_compressed(p)] if compressed else encode(p))
        for n, p in programs.items()
    ])  # fmt: skip
