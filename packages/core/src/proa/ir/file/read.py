"""Model file -> Program."""

from __future__ import annotations

import os
import struct
from typing import Any, NoReturn

import numpy as np

from proa.base import files
from proa.base.collector import collector_paused
from proa.base.file_formats import format_of_bytes, starts_safetensors
from proa.errors import InvalidArgumentError, ResourceExhaustedError, VersionError
from proa.ir.attributes import row_of, unpack
from proa.ir.file.compressed import expand
from proa.ir.file.layout import (
    ALIGN,
    CHECKSUM_AT,
    FORMAT,
    HEADER_BYTES,
    KINDS,
    MAGIC,
    MAX_GRAPH_BYTES,
    NO_VALUE,
    TABLES,
    TABLES_AT,
)
from proa.ir.flow import check_flow
from proa.ir.program import NUMPY_TYPES, Array, Block, Node, Program, Value
from proa.ir.versions import check_version, upgrade
from proa.schema.dtypes import CODES

_DTYPES = {code: name for name, code in CODES.items()}


class _Reader:
    """Checks as open_model of csrc/portable/model does, and builds objects."""

    def __init__(self, raw: memoryview, where: str) -> None:
        self.where = where
        self.file = raw
        if not starts_safetensors(raw) and (kind := format_of_bytes(raw)):
            self.fail("a graph as the first tensor of a safetensors file", kind)
        if len(raw) < 8:
            self.fail("at least 8 bytes", len(raw) or "none")
        (json_size,) = struct.unpack_from("<Q", raw)
        if json_size > len(raw) - 8 or (json_size + 8) % ALIGN:
            self.fail("a safetensors header", f"one of {json_size} bytes")
        self.start = json_size + 8
        self.data = raw[self.start :]
        if len(self.data) < HEADER_BYTES or self.data[:8] != MAGIC:
            self.fail("a graph as the first tensor", "a file of tensors alone")
        self.header()
        self.tables: dict[str, Any] = {
            n: self.table(i, n) for i, n in enumerate(TABLES)
        }
        self.strings = [self.string(int(o), int(s)) for o, s in self.tables["strings"]]
        self.earlier: dict[Node, int] = {}  # nodes of earlier versions of their op

    def fail(self, must: str, got: object) -> NoReturn:
        raise InvalidArgumentError(
            f"[{self.where}] a model file must have {must}, got {got}"
        )

    def header(self) -> None:
        version, size = struct.unpack_from("<II", self.data, 8)
        self.size, data_size = struct.unpack_from("<QQ", self.data, 16)
        if version != FORMAT:
            raise VersionError(
                f"[{self.where}] the model file must have format {FORMAT}, "
                f"got {version}"
            )
        if data_size != len(self.data):
            self.fail(f"{data_size} bytes of data", len(self.data))
        if not HEADER_BYTES <= size <= self.size <= len(self.data):
            self.fail("its graph inside", f"{size}, {self.size}")
        if self.size > MAX_GRAPH_BYTES:
            raise ResourceExhaustedError(
                f"[{self.where}] expected a graph of at most {MAX_GRAPH_BYTES} bytes, "
                f"got {self.size}"
            )

    def verify_checksum(self) -> None:
        from proa import _core

        at = self.start + CHECKSUM_AT
        crc = _core.crc32(self.file[:at])
        crc = _core.crc32(self.file[at + 4 :], _core.crc32(bytes(4), crc))
        (expected,) = struct.unpack_from("<I", self.file, at)
        if crc != expected:
            self.fail(
                f"the checksum {expected:08x}", f"{crc:08x}: some bytes were changed"
            )

    def table(self, index: int, name: str) -> Any:
        offset, count = struct.unpack_from("<II", self.data, TABLES_AT + 8 * index)
        record = TABLES[name]
        if offset % 8 or offset + count * record.itemsize > self.size:
            self.fail(f"the table {name} inside its graph", (offset, count))
        if name == "attributes":
            return (offset, count)
        return np.frombuffer(self.data, record, count, offset)

    def string(self, offset: int, size: int) -> str:
        if offset + size >= self.size or self.data[offset + size] != 0:
            self.fail("strings inside its graph", (offset, size))
        raw = bytes(self.data[offset : offset + size])
        try:
            text = str(raw, "utf-8")
        except UnicodeDecodeError:
            self.fail("UTF-8 names", raw)
        if "\0" in text:
            self.fail("names without NUL", raw)
        return text

    def text(self, index: Any) -> str:
        if int(index) >= len(self.strings):
            self.fail(f"{len(self.strings)} strings", f"a use of string {index}")
        return self.strings[int(index)]

    def value(self, record: Any) -> Value:
        rank, code, kind = (
            int(record["rank"]),
            int(record["dtype"]),
            int(record["kind"]),
        )
        if not 0 <= rank <= 8 or code not in _DTYPES or kind >= len(KINDS):
            self.fail("values of known dtype, rank and kind", (code, rank, kind))
        shape = tuple(int(d) for d in record["shape"][:rank])
        value = Value(self.text(record["name"]), _DTYPES[code], shape, KINDS[kind])
        if min(shape, default=0) < (0 if value.is_constant else -1):
            self.fail("dimensions >= 0", shape)
        if value.is_constant:
            value.data = self.array(
                value, int(record["data_offset"]), int(record["data_size"])
            )
        return value

    def array(self, value: Value, offset: int, size: int) -> Array:
        kind = np.dtype(NUMPY_TYPES[value.dtype]).newbyteorder("<")
        count = 1
        for d in value.shape:
            count *= d
        if (
            count * kind.itemsize != size
            or offset % ALIGN
            or offset + size > len(self.data)
            or (size > 0 and offset < self.size)
        ):
            self.fail(f"the data of {value} behind the graph, aligned", (offset, size))
        return np.frombuffer(self.data, kind, count, offset).reshape(value.shape)

    def pick(self, what: str, first: Any, count: Any, total: int) -> range:
        if int(first) + int(count) > total:
            self.fail(f"{total} {what}", (int(first), int(count)))
        return range(int(first), int(first) + int(count))

    def node(
        self, record: Any, reach: range, constants: int, values: list[Value]
    ) -> Node:
        ops, ids = self.tables["ops"], self.tables["ids"]
        if int(record["op"]) >= len(ops):
            self.fail(f"{len(ops)} ops", f"a node with op {record['op']}")
        name = self.text(ops[int(record["op"])]["name"])
        version = int(ops[int(record["op"])]["version"])
        check_version(name, version, self.where)
        chosen = self.pick(
            "ids", record["input_first"], record["input_count"], len(ids)
        )
        inputs: list[Value | None] = []
        for i in (int(ids[k]) for k in chosen):
            if i != NO_VALUE and not (i < constants or i in reach):
                self.fail("nodes that read what is defined before them", f"value {i}")
            inputs.append(None if i == NO_VALUE else values[i])
        offset, size = int(record["attr_offset"]), int(record["attr_size"])
        begin, count = self.tables["attributes"]
        if size and not begin <= offset <= offset + size <= begin + count:
            self.fail("attributes inside their table", (offset, size))
        attrs = unpack(name, bytes(self.data[offset : offset + size]))
        node = Node(name, inputs, [], attrs)
        if version != row_of(name).version:
            self.earlier[node] = version
        return node

    def block(
        self, record: Any, at: tuple[int, int], constants: int, values: list[Value]
    ) -> Block:
        nodes = self.tables["nodes"]
        if (int(record["node_first"]), int(record["value_first"])) != at:
            self.fail("blocks in order", record)
        first = at[1]
        own = self.pick("values", first, record["value_count"], len(values))
        inputs = self.pick("values", first, record["input_count"], own.stop)
        block = Block([values[i] for i in inputs])
        following = inputs.stop
        for k in self.pick("nodes", at[0], record["node_count"], len(nodes)):
            node = self.node(nodes[k], range(first, following), constants, values)
            if int(nodes[k]["output_first"]) != following:
                self.fail("nodes' outputs in order", nodes[k])
            result = self.pick("values", following, nodes[k]["output_count"], own.stop)
            node.outputs = [values[i] for i in result]
            for value in node.outputs:
                value.producer = node
            following = result.stop
            block.nodes.append(node)
        self.check_kinds(block, own.stop == following)
        ids = self.tables["ids"]
        chosen = self.pick(
            "ids", record["output_first"], record["output_count"], len(ids)
        )
        for i in (int(ids[k]) for k in chosen):
            if not (i < constants or i in own):
                self.fail("outputs that are defined", f"value {i}")
            block.outputs.append(values[i])
        return block

    def check_kinds(self, block: Block, complete: bool) -> None:
        kinds = {v.kind for v in block.inputs} - {"input"}
        kinds |= {v.kind for n in block.nodes for v in n.outputs} - {"node"}
        names = {v.name for v in block.inputs}
        if kinds or not complete or len(names) != len(block.inputs):
            self.fail("values where their kind belongs", kinds or "another order")

    def program(self) -> Program:
        values = [self.value(r) for r in self.tables["values"]]
        constants = 0
        while constants < len(values) and values[constants].is_constant:
            constants += 1
        program, at = Program(), (0, constants)
        program.blocks = []
        for record in self.tables["blocks"]:
            block = self.block(record, at, constants, values)
            program.blocks.append(block)
            at = (at[0] + len(block.nodes), at[1] + int(record["value_count"]))
        if not program.blocks or at != (len(self.tables["nodes"]), len(values)):
            self.fail("every node and value in a block", at)
        check_flow(program)
        for record in self.tables["metadata"]:
            program.metadata[self.text(record["key"])] = self.text(record["value"])
        for value in values:
            program.reserve(value.name)
        if self.earlier:
            upgrade(program, self.earlier)
        return program

    def versions(self) -> dict[str, int]:
        return {self.text(r["name"]): int(r["version"]) for r in self.tables["ops"]}


def operator_versions(raw: bytes | memoryview) -> dict[str, int]:
    """The version of each operator that a model file names, by its name.

    The operators may be unknown here, and later than this library's.

    Args:
        raw: The bytes of the file, of which the weights are not read.

    Raises:
        InvalidArgumentError: If the bytes are no model file.
    """
    where = "ir.operator_versions"
    return _Reader(expand(memoryview(raw).cast("B"), where), where).versions()


def stated_checksum(path: str | os.PathLike[str]) -> int | None:
    """The checksum in the head of a model file, of which no more is read and which is
    not compared; None if it is compressed or no model file.
    """
    with open(path, "rb") as stream:
        (json_size,) = struct.unpack("<Q", stream.read(8).ljust(8, b"\0"))
        if json_size > os.fstat(stream.fileno()).st_size:
            return None
        stream.seek(json_size + 8)
        head = stream.read(HEADER_BYTES)
    if len(head) < HEADER_BYTES or head[:8] != MAGIC:
        return None
    (checksum,) = struct.unpack_from("<I", head, CHECKSUM_AT)
    return int(checksum)


@collector_paused()
def from_bytes(
    raw: bytes | memoryview, *, where: str = "ir.read", verify: bool = True
) -> Program:
    """The program in the bytes of a model file; `verify` compares the checksum.

    Nodes of an earlier version of their operator are converted (`proa.ir.versions`).

    Raises:
        InvalidArgumentError: If the bytes are no model file, or were changed.
        VersionError: If the format, or an operator, is of a later version than this
            library's, or of an earlier one that nothing converts.
    """
    reader = _Reader(expand(memoryview(raw).cast("B"), where), where)
    program = reader.program()
    if verify:
        reader.verify_checksum()
    return program


def read(path: str | os.PathLike[str], *, verify: bool = True) -> Program:
    """The program in a model file. Its weights are views of the file's bytes, which are
    read once.
    """
    data = files.read(path, where="ir.read")
    return from_bytes(data, where=os.fspath(path), verify=verify)
