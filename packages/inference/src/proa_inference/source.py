"""Where a model comes from: a file, Paddle's files, ONNX, or memory."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proa.base import files
from proa.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from proa_inference.arguments import path as path_of
from proa_inference.encryption import Key, decrypt, is_encrypted

_PADDLE_FOLDER = "__model__"


@dataclass(frozen=True)
class Source:
    """A model, not read yet.

    Attributes:
        program: The model's file or folder, or its bytes; None if none was given.
        params: The file of parameters of a Paddle model, or its bytes.
        key: Key of an encrypted model, or what returns it.
        rounds: Whether a Paddle model rounds by its attributes out_threshold.
    """

    program: Path | bytes | None = None
    params: Path | bytes | None = None
    key: Key | Callable[[], Key] | None = None
    rounds: bool = False

    @property
    def in_memory(self) -> bool:
        """Whether the bytes were given."""
        return isinstance(self.program, bytes)

    def path(self) -> str:
        """Path of the model; empty if it is a buffer or not given."""
        return str(self.program) if isinstance(self.program, Path) else ""

    def is_plain_file(self) -> bool:
        """Whether it is a .proa file, which the engine can read by itself."""
        if self.rounds:
            return False
        if not isinstance(self.program, Path) or not self.program.is_file():
            return False
        return _foreign(self) is None and not self.is_encrypted()

    def is_encrypted(self) -> bool:
        """Whether it is an encrypted model, a file or bytes."""
        if isinstance(self.program, bytes):
            return is_encrypted(self.program)
        if self.program is None or not self.program.is_file():
            return False
        with self.program.open("rb") as stream:
            return is_encrypted(stream.read(16))

    def is_onnx(self) -> bool:
        """Whether it is an ONNX model, a file or bytes."""
        if isinstance(self.program, Path):
            return self.program.suffix == ".onnx"
        return self.program is not None and _looks_like_onnx(self.program)

    def content(self) -> bytes | memoryview:
        """The bytes of the model file, in memory; those of another format are imported.

        Raises:
            InvalidArgumentError: If no model was given, or it is damaged.
            PreconditionNotMetError: If it is encrypted and there is no key.
        """
        if self.program is None:
            raise InvalidArgumentError(
                "[Config] expected a model from Config(path), set_model or "
                "set_model_buffer, got none"
            )
        read = _foreign(self)
        if self.rounds and (read is None or self.is_onnx()):
            raise UnimplementedError(
                "[Config.enable_mkldnn_int8] expected a model of PaddlePaddle, whose "
                "attributes out_threshold it rounds by, got another one: a .proa file "
                "computes in int8 as proa_slim wrote it"
            )
        if read is not None:
            return _converted(read())
        held: bytes | memoryview
        if isinstance(self.program, bytes):
            held = self.program
        else:
            held = files.read(self.program, where="Config")
        if not is_encrypted(held):
            return held
        return Source(decrypt(held, self.key), rounds=self.rounds).content()


def located(model: str | os.PathLike[str]) -> Path:
    """The file or folder that a path or the prefix of a path names.

    Raises:
        NotFoundError: If there is neither.
    """
    path = Path(path_of("Config", "model", model))
    if path.is_file() or (path / _PADDLE_FOLDER).is_file():
        return path
    for suffix in (".proa", ".pdmodel"):
        if path.with_name(path.name + suffix).is_file():
            return path.with_name(path.name + suffix)
    raise NotFoundError(
        f"[Config] model must be a file, or a folder with {_PADDLE_FOLDER}, "
        f"got {str(path)!r}"
    )


def _foreign(source: Source) -> Callable[[], Any] | None:
    """What imports the model if it is of another format, else None."""
    program, params = source.program, source.params
    if isinstance(program, Path):
        if program.suffix == ".onnx":
            return lambda: _onnx(str(program))
        if program.is_dir():
            return lambda: _paddle(source, str(program))
        if params is None and program.suffix == ".pdmodel":
            return lambda: _paddle(source, str(program))
    if params is not None:
        return lambda: _paddle(source, None, _bytes_of(program), _bytes_of(params))
    if isinstance(program, bytes) and _looks_like_onnx(program):
        return lambda: _onnx(program)
    return None


def _looks_like_onnx(content: bytes) -> bool:
    # Field 1 of a ModelProto is ir_version, a small number; a .proa file begins with
    # the length of a header of JSON.
    return content[:1] == b"\x08" and content[8:9] != b"{"


def _bytes_of(part: Path | bytes | None) -> bytes:
    if isinstance(part, Path):
        return bytes(files.read(part, where="Config"))
    return part or b""


def _onnx(source: str | bytes) -> Any:
    import proa.onnx

    return proa.onnx.load(source)


def _paddle(source: Source, path: str | None, *parts: bytes) -> Any:
    from proa.interop import paddle

    return paddle.load(path, None, *parts, out_thresholds=source.rounds)


def _converted(layer: Any) -> bytes:
    """The model file of an imported Layer, whose outputs keep their names."""
    import proa

    buffer = io.BytesIO()
    proa.jit.save(layer, buffer, layer.input_spec)
    return buffer.getvalue()
