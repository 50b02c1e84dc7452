"""Which kind of file bytes are, by their first ones: for errors that name it."""

from __future__ import annotations

#: A longer header of a safetensors file is refused, as the reference reader does.
HEADER_LIMIT = 100_000_000
_TORCH_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
#: Where a file's first bytes are these, at this offset, it is that.
_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (
        0,
        _TORCH_LEGACY,
        "a PyTorch file (pickled); save its state dict with safetensors",
    ),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes for weights"),
    (0, b"\x93NUMPY", "a NumPy array; numpy.load reads it"),
    (0, b"GGUF", "a GGUF model"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (0, b"version https://git-lfs", "a Git LFS pointer; `git lfs pull` gets the file"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ\0", "an xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"\x7fELF", "a program or library"),
    (0, b"<", "a text in HTML or XML, as failed downloads leave"),
    (0, b"{", "a JSON text"),
)


def starts_safetensors(data: bytes | memoryview) -> bool:
    """Whether the bytes begin as a safetensors file: a length that fits, then JSON."""
    length = int.from_bytes(data[:8], "little")
    fits = 2 <= length <= min(HEADER_LIMIT, len(data) - 8)
    return fits and data[8:9] == b"{"


def is_pickle(data: bytes | memoryview) -> bool:
    """Whether the bytes are a Python pickle of protocol 2 to 5.

    A safetensors file whose header is, say, 640 bytes long begins with the same two.
    """
    starts = data[:1] == b"\x80" and bytes(data[1:2]) in (b"\2", b"\3", b"\4", b"\5")
    return starts and not starts_safetensors(data)


def format_of_bytes(data: bytes | memoryview) -> str:
    """The kind of file in words, or "" if it is unknown."""
    start = bytes(data[:512])
    if start[:4] == b"PK\3\4":
        return _zip_kind(start)
    for offset, signature, kind in _SIGNATURES:
        if start[offset : offset + len(signature)] == signature:
            return kind
    if is_pickle(data):
        return "a Python pickle"
    return _protobuf_kind(start)


def _zip_kind(start: bytes) -> str:
    """What a ZIP archive is, by the name of its first entry."""
    size = int.from_bytes(start[26:28], "little")
    name = start[30 : 30 + size]
    if name.endswith((b"/data.pkl", b"/byteorder", b"/version", b"/.format_version")):
        return (
            "a PyTorch file (a ZIP archive of a pickle); save its state dict with "
            "safetensors"
        )
    if name.endswith(b".npy"):
        return "a NumPy .npz archive; numpy.load reads it"
    if name in (b"metadata.json", b"config.json", b"model.weights.h5"):
        return "a Keras model (a ZIP archive)"
    return "a ZIP archive"


def _protobuf_kind(start: bytes) -> str:
    """Models in protobuf have no signature, but known first fields."""
    # ModelProto: ir_version (field 1, varint), then a text or the graph.
    if start[:1] == b"\x08" and start[2:3] in (b"\x12", b"\x1a", b"\x3a", b"\x42"):
        if start[1:2] == b"\x01":
            return "a TensorFlow SavedModel (protobuf)"
        if start[1] <= 32:
            return "an ONNX model (protobuf)"
    # ProgramDesc: blocks (field 1), each with idx and parent_idx (fields 1 and 2).
    if start[:1] == b"\x0a" and any(start[k : k + 2] == b"\x08\0" for k in range(2, 8)):
        return "a PaddlePaddle program (protobuf, .pdmodel)"
    return ""
