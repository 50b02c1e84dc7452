"""The model file read by others' eyes: safetensors, and NumPy over the tables."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from proa import _core
from proa.errors import InvalidArgumentError, NotFoundError, VersionError
from proa.ir import Builder, Program, describe, from_bytes, read, to_bytes, write
from proa.ir.file import stated_checksum
from proa.ir.program import Node, Value

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.proa"))


def written_by_hand() -> Program:
    """linear and softmax, put together without the shape rules."""
    program = Program()
    block = program.main
    x = Value("x", "float32", (-1, 4), "input")
    w = Value("fc.weight", "float32", (4, 3), "param", np.ones((4, 3), np.float32))
    b = Value("fc.bias", "float32", (3,), "param", np.arange(3, dtype=np.float32))
    block.inputs.append(x)
    previous = x
    for op, inputs, attrs in (
        ("linear", [x, w, b], {}),
        ("softmax", [None], {"axis": -1}),
    ):
        node = Node(op, [previous if v is None else v for v in inputs], [], attrs)
        previous = Value(f"{op}_0", "float32", (-1, 3), "node", producer=node)
        node.outputs = [previous]
        block.nodes.append(node)
    block.outputs = [previous]
    return program


class Tables:
    """FORMAT.md, read again from its text."""

    RECORDS = (2, 2, 22, 8, 8, 1, 2, 0)  # u32s in a record of each table

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        start = struct.unpack_from("<Q", raw)[0] + 8
        self.raw, self.start, self.graph = raw, start, raw[start:]
        words = np.frombuffer(self.graph[: len(self.graph) // 4 * 4], "<u4")
        self.tables = []
        for i, width in enumerate(self.RECORDS):
            offset, count = words[10 + 2 * i], words[11 + 2 * i]
            records = words[offset // 4 : offset // 4 + count * width]
            self.tables.append(records.reshape(-1, width) if width else (offset, count))

    def string(self, i: int) -> str:
        offset, size = self.tables[0][i]
        return self.graph[offset : offset + size].decode()

    def ops(self) -> list[str]:
        return [self.string(self.tables[1][n[0]][0]) for n in self.tables[3]]

    def constants(self) -> dict[str, tuple[int, tuple[int, ...], int, int]]:
        found = {}
        for record in self.tables[2]:
            tail = record[1:2].tobytes()
            dtype, rank, kind = tail[0], tail[1], tail[2]
            if kind >= 2:
                shape = tuple(record[2:18].view("<i8")[:rank].tolist())
                offset, size = record[18:22].view("<u8").tolist()
                found[self.string(record[0])] = (dtype, shape, offset, size)
        return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_any_safetensors_tool_opens_the_file(path: Path) -> None:
    tensors = load_file(path) if "every" not in path.name else {}
    with safe_open(path, "np") as file:
        names = set(file.keys())
    assert "__proa__" in names
    program = read(path)
    for value in program.constants():
        assert value.name in names
        if tensors:
            np.testing.assert_array_equal(tensors[value.name], value.data)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_the_tables_say_what_the_document_says(path: Path) -> None:
    tables = Tables(path)
    assert tables.start % 64 == 0
    assert tables.graph[:8] == b"PROAGRPH"
    version, header = struct.unpack_from("<II", tables.graph, 8)
    assert (version, header) == (1, 104)
    assert struct.unpack_from("<Q", tables.graph, 24)[0] == len(tables.graph)
    program = read(path)
    assert tables.ops() == [n.op for n in program.nodes()]
    entries = json.loads(tables.raw[8 : tables.start])
    constants = tables.constants()
    assert set(constants) == {v.name for v in program.constants()}
    for name, (_, shape, offset, size) in constants.items():
        assert offset % 64 == 0
        assert entries[name]["data_offsets"] == [offset, offset + size]
        assert tuple(entries[name]["shape"][: len(shape)]) == shape


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_the_checksum_is_the_crc_of_the_file_without_it(path: Path) -> None:
    tables = Tables(path)
    raw = bytearray(tables.raw)
    expected = struct.unpack_from("<I", raw, tables.start + 32)[0]
    struct.pack_into("<I", raw, tables.start + 32, 0)
    assert zlib.crc32(raw) == expected == stated_checksum(path)


def test_files_that_state_no_checksum(tmp_path: Path) -> None:
    write(read(FILES[0]), tmp_path / "compressed", compressed=True)
    whole = FILES[0].read_bytes()
    (start,) = struct.unpack_from("<Q", whole)
    for name, content in {
        "empty": b"", "short": b"abc", "head": whole[: start + 8],
        "cut": whole[: start + 8 + 103], "huge": b"\xff" * 300,
        "tensors": whole.replace(b"PROAGRPH", b"x" * 8),
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
    assert [stated_checksum(path) for path in tmp_path.iterdir()] == [None] * 7


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_a_golden_file_is_written_again_as_it_was(path: Path) -> None:
    program = read(path)
    again = from_bytes(to_bytes(program))
    assert str(again) == str(program)
    assert again.metadata == program.metadata
    for a, b in zip(again.constants(), program.constants(), strict=True):
        np.testing.assert_array_equal(a.data, b.data)


def test_golden_weights_are_those_that_were_written() -> None:
    tensors = load_file(GOLDEN / "small_cnn.v1.proa")
    ramp = ((np.arange(54) % 17 - 8) * 0.125).astype(np.float32)
    np.testing.assert_array_equal(tensors["conv.weight"], ramp.reshape(3, 2, 3, 3))
    dtypes = {v.name: v for v in read(GOLDEN / "every_dtype.v1.proa").main.constants()}
    assert dtypes["w.bfloat16"].data is not None
    assert (dtypes["w.bfloat16"].data == 0x3FC0).all()
    assert dtypes["w.complex128"].data is not None
    assert (dtypes["w.complex128"].data == 1).all()


@pytest.mark.parametrize("n", [0, 1, 4])
def test_the_golden_control_flow_runs_as_its_document_says(n: int) -> None:
    def ramp(*shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        return ((np.arange(count) % 17 - 8) * 0.125).astype(np.float32).reshape(shape)

    x = start = np.array([[2, -9.5, 1]], np.float32)
    for _ in range(n):
        x = x @ ramp(3, 3) if x.sum() < 9 else x - 4
    engine = _core.Engine.load(str(GOLDEN / "control_flow.v1.proa"))
    (result,) = engine.run([start, np.array(n)])
    np.testing.assert_allclose(result, x + ramp(3), rtol=1e-6)


def test_every_kind_of_attribute_survives() -> None:
    program = read(GOLDEN / "every_dtype.v1.proa")
    attrs = {n.op: n.attrs for n in program.main.nodes}
    assert attrs["clip"] == {"min": -1, "max": 2.5}
    assert isinstance(attrs["clip"]["min"], int)
    assert attrs["pad"] == {
        "low": (0, 1),
        "high": (1, 0),
        "mode": "replicate",
        "value": 0,
    }
    assert attrs["full"] == {"shape": (1, 3), "value": 7, "dtype": "float32"}


def test_a_program_survives_the_file(tmp_path: Path) -> None:
    program = written_by_hand()
    program.metadata["name"] = "Häuser"
    write(program, tmp_path / "m.proa")
    again = read(tmp_path / "m.proa")
    assert str(again) == str(program)
    assert again.metadata == {"name": "Häuser"}
    assert "linear x1, softmax x1" in describe(tmp_path / "m.proa")


def test_a_weight_used_twice_is_stored_once(tmp_path: Path) -> None:
    program = written_by_hand()
    first = program.main.nodes[0]
    again = Node("linear", list(first.inputs), [], {})
    again.outputs = [Value("other", "float32", (-1, 3), "node", producer=again)]
    program.main.nodes.append(again)
    program.main.outputs.append(again.outputs[0])
    write(program, tmp_path / "m.proa")
    assert sum(k.startswith("fc.") for k in load_file(tmp_path / "m.proa")) == 2


def test_weights_of_one_name_are_distinguished(tmp_path: Path) -> None:
    program = written_by_hand()
    weight, bias = program.main.nodes[0].inputs[1:]
    assert weight is not None and bias is not None
    bias.name = weight.name
    write(program, tmp_path / "m.proa")
    shapes = sorted(
        v.shape for k, v in load_file(tmp_path / "m.proa").items() if "fc" in k
    )
    assert shapes == [(3,), (4, 3)]


@pytest.mark.parametrize(("content", "given"), [(b"", "none"), (b"abc", "3")])
def test_a_file_that_is_too_short_says_how_much_was_given(
    content: bytes, given: str
) -> None:
    text = rf"a model file must have at least 8 bytes, got {given}$"
    with pytest.raises(InvalidArgumentError, match=text):
        from_bytes(content)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no such file: .*nowhere\.proa"):
        read(tmp_path / "nowhere.proa")


def test_an_unknown_op_needs_a_newer_version() -> None:
    raw = bytearray(to_bytes(written_by_hand())).replace(b"softmax\0", b"sofTmax\0")
    with pytest.raises(VersionError, match="got 'sofTmax'"):
        from_bytes(bytes(raw), verify=False)


def test_another_format_version_is_refused() -> None:
    raw = bytearray(to_bytes(written_by_hand()))
    struct.pack_into("<I", raw, raw.index(b"PROAGRPH") + 8, 9)
    with pytest.raises(VersionError, match="must have format 1, got 9"):
        from_bytes(bytes(raw))


@pytest.mark.parametrize("keep", [0, 7, 100, 900, -1])
def test_a_truncated_file_is_refused(keep: int) -> None:
    with pytest.raises(InvalidArgumentError, match="a model file must have"):
        from_bytes(to_bytes(written_by_hand())[:keep])


@pytest.mark.fuzz
def test_any_flipped_bit_is_found() -> None:
    raw = to_bytes(written_by_hand())
    for at in range(len(raw)):
        changed = bytearray(raw)
        changed[at] ^= 1 << (at % 8)
        with pytest.raises((InvalidArgumentError, VersionError)):
            from_bytes(bytes(changed))


@pytest.mark.fuzz
@pytest.mark.parametrize("source", ["written_by_hand", "control_flow"])
def test_python_refuses_any_bytes_with_a_typed_error(source: str) -> None:
    random = np.random.default_rng(5)
    raw = to_bytes(
        written_by_hand()
        if source == "written_by_hand"
        else read(GOLDEN / f"{source}.v1.proa")
    )
    start = raw.index(b"PROAGRPH")
    for _ in range(3000):
        changed = bytearray(raw)
        for _ in range(random.integers(1, 5)):
            at = int(random.integers(start, len(raw)))
            changed[at] = int(random.integers(256))
        with contextlib.suppress(InvalidArgumentError, VersionError):
            from_bytes(bytes(changed), verify=False)


def test_an_interrupted_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.proa"
    write(written_by_hand(), path)
    before = path.read_bytes()
    script = f"""
        import os, signal
        from proa.ir import read, write
        program = read({str(path)!r})
        os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGINT)
        write(program, {str(path)!r})
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
    )
    assert done.returncode in (-signal.SIGINT, 130, 1)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.proa"]


def test_a_value_read_before_it_is_produced_cannot_be_written() -> None:
    program = written_by_hand()
    program.main.nodes.reverse()
    with pytest.raises(InvalidArgumentError, match="must be defined before its use"):
        to_bytes(program)


def test_builder_and_file_agree_on_shapes(tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x", "float32", [-1, 3, 8, 8])
    w = b.parameter("w", np.zeros((4, 3, 3, 3), np.float32))
    b.output(b.flatten(b.conv2d(x, w, None), start_axis=1))
    write(b.program, tmp_path / "m.proa")
    assert read(tmp_path / "m.proa").main.outputs[0].shape == (-1, 4 * 6 * 6)
