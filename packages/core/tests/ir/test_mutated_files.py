"""Files with mutated bytes: refused with a typed error or read.

A model file is signed again after its mutations, to get beyond the checksum.
"""

from __future__ import annotations

import io
import pickle
import resource
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest

import proa
from proa import _core, nn
from proa.errors import Error, InvalidArgumentError
from proa.ir import from_bytes, to_bytes
from proa.jit import TranslatedLayer
from proa.static import InputSpec

_EXTREMES = (0, 1, 2, 7, 8, 9, 63, 64, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1,
             2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip


def mutated(data: bytes, rng: np.random.Generator, end: int | None = None) -> bytes:
    """A copy with one to three mutations before byte `end`."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        last = min(end or len(out), len(out))
        if last < 9:
            break
        at, kind = int(rng.integers(last)), int(rng.integers(9))
        size = int(rng.integers(1, 65))
        if kind <= 1:
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            out[at] = int(rng.integers(256))
        elif kind <= 5:  # a number, often at a boundary
            width = (4, 8)[kind % 2]
            at = min(at - at % 4, len(out) - width)
            number = int(rng.choice(np.array(_EXTREMES, np.uint64)))
            if rng.integers(2):  # or near the one that is there
                old = int.from_bytes(out[at : at + width], "little")
                number = old + int(rng.integers(-9, 10))
            out[at : at + width] = (number % 256**width).to_bytes(width, "little")
        elif kind == 6:
            del out[at : at + size]
        elif kind == 7:
            out[at:at] = out[at : at + size]
        else:
            del out[at + size :]
    return bytes(out)


def signed(data: bytes) -> bytes:
    """A model file with the checksum of its bytes, if it has a place for one."""
    if len(data) < 64:
        return data
    at = struct.unpack_from("<Q", data)[0] + 8 + 32
    if at + 4 > len(data):
        return data
    out = bytearray(data)
    out[at : at + 4] = bytes(4)
    out[at : at + 4] = struct.pack("<I", zlib.crc32(out))
    return bytes(out)


def model_file() -> bytes:
    net = nn.Sequential(
        nn.Conv2D(1, 2, 3), nn.BatchNorm2D(2), nn.ReLU(), nn.Pad2D(1), nn.Flatten(),
        nn.Linear(72, 3), nn.Softmax(),
    )  # fmt: skip
    file = io.BytesIO()
    proa.jit.save(net, file, [InputSpec([None, 1, 6, 6], "float32", "x")])
    return file.getvalue()


def saved(value: object, **options: bool) -> bytes:
    file = io.BytesIO()
    proa.save(value, file, **options)
    return file.getvalue()


def graph_end(data: bytes) -> int:
    start = int.from_bytes(data[:8], "little") + 8
    return start + int.from_bytes(data[start + 16 : start + 24], "little")


def read_model(data: bytes) -> None:
    program = from_bytes(data)
    engine = _core.Engine.from_bytes(data)
    assert isinstance(engine.metadata, dict)
    TranslatedLayer(program)


def read_state(data: bytes) -> None:
    proa.load(io.BytesIO(data), allow_pickle=True)


STATE = {
    "a": np.ones((3, 4), "f4"),
    "b": [1, {"c": np.arange(5), "d": "text"}],
    "m": np.array([True, False]),
}
FILES: dict[str, tuple[Callable[[], bytes], Callable[[bytes], None]]] = {
    "model": (model_file, read_model),
    "state": (lambda: saved(STATE), read_state),
    "pickle": (lambda: pickle.dumps(STATE, 2), read_state),
    "stream": (lambda: saved(proa.ones([3, 2]), use_binary_format=True), read_state),
}


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def check_mutations(kind: str, count: int, seed: int) -> None:
    make, read = FILES[kind]
    data, rng = make(), np.random.default_rng(seed)
    read(data)
    before, refused = resident(), 0
    for _ in range(count):
        if kind == "model":
            case = signed(mutated(data, rng, graph_end(data)))
        else:
            case = mutated(data, rng)
        try:
            read(case)
        except Error:
            refused += 1
    assert refused > count // 2
    assert resident() - before < 64 * 1024, "KiB"


@pytest.mark.parametrize("kind", FILES)
def test_mutated_files_are_refused_or_read(kind: str) -> None:
    check_mutations(kind, 300, seed=0)


@pytest.mark.full
@pytest.mark.parametrize("kind", FILES)
def test_fifty_thousand_mutated_files(kind: str) -> None:
    check_mutations(kind, 50_000, seed=1)


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"PK\3\4" + bytes(22) + b"\x10\0\0\0archive/data.pkl", "a PyTorch file"),
        (b"PK\3\4" + bytes(22) + b"\5\0\0\0a.npy", "a NumPy .npz archive"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (b"\x08\x08\x12\x07pytorch", "an ONNX model"),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "a PyTorch file"),
        (b"\x93NUMPY\1\0", "a NumPy array"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer"),
    ],
)
def test_foreign_files_are_named(start: bytes, kind: str) -> None:
    data = start + bytes(range(256))
    for read in (lambda: proa.load(io.BytesIO(data)), lambda: from_bytes(data)):
        with pytest.raises(Error, match=f"got {kind}"):
            read()


def test_a_header_of_640_bytes_is_no_pickle() -> None:
    text = b'{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'.ljust(640)
    state = proa.load(io.BytesIO(len(text).to_bytes(8, "little") + text + b"\7"))
    assert state["x"].tolist() == [7]


def test_a_shape_that_the_op_does_not_give_is_refused() -> None:
    program = from_bytes(model_file())
    (pad,) = [node for node in program.nodes() if node.op == "pad"]
    pad.attrs["low"] = [0, 0, 1, 1 << 27]
    with pytest.raises(
        InvalidArgumentError,
        match="the shapes in the file are those that the op infers",
    ):
        _core.Engine.from_bytes(to_bytes(program))


def test_a_constant_in_the_graph_is_refused() -> None:
    data = bytearray(model_file())
    start = int.from_bytes(data[:8], "little") + 8
    size = graph_end(bytes(data)) - start
    # The third table has the values, 88 bytes each, the data's offset from byte 72.
    values, count = struct.unpack_from("<II", data, start + 40 + 8 * 2)
    for at in range(start + values, start + values + 88 * count, 88):
        (kind,) = struct.unpack_from("<B", data, at + 6)
        if kind >= 2:
            struct.pack_into("<Q", data, at + 72, (size - 1) // 64 * 64)
            break
    changed = signed(bytes(data))
    with pytest.raises(InvalidArgumentError, match="behind the graph"):
        from_bytes(changed)
    with pytest.raises(InvalidArgumentError, match="data is in the graph"):
        _core.Engine.from_bytes(changed)
