"""`proa.save` and `proa.load`: state dicts, tensors, layers and programs as files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proa._core import Tensor
from proa.base import files, safetensors
from proa.base.file_formats import format_of_bytes, is_pickle
from proa.base.safetensors import Stored
from proa.errors import InvalidArgumentError, MissingFileError
from proa.interop.paddle.pickles import read_pickle
from proa.interop.paddle.streams import (
    read_folder,
    read_pair,
    read_stream,
    write_stream,
)
from proa.ir import file as model_file
from proa.ir.program import Program
from proa.nn.layer import Layer
from proa.tensor.saving import pack, restored, stored, unpack

if TYPE_CHECKING:
    from typing import IO

    from proa.base.files import PathLike

_GRAPH = "__proa__"
_PROTOCOLS = (2, 3, 4, 5)


def save(
    obj: object, path: PathLike | IO[bytes], protocol: int = 4, **configs: object
) -> None:
    """Write a state dict, or any nesting of dicts, lists, tensors and plain values.

    Files are safetensors files (of a Program: model files). Nothing is pickled.

    Args:
        obj: Tensors, NumPy arrays, numbers, text, bool, None, and dicts with text keys,
            lists and tuples of them; a Layer, whose state dict is written; a Program.
        path: The file, whose name is taken as it is; it is replaced as a whole or not
            at all. Or an object with ``write`` for bytes.
        protocol: Kept for callers, 2 to 5; has no meaning here.
        use_binary_format: Write a lone tensor as PaddlePaddle's tensor stream.
    """
    if protocol not in _PROTOCOLS:
        raise InvalidArgumentError(
            f"[save] protocol must be one of {_PROTOCOLS}, got {protocol!r}"
        )
    if isinstance(obj, Layer):
        obj = obj.state_dict()
    if isinstance(obj, Program):
        _put(path, [model_file.to_bytes(obj)])
        return
    if configs.get("use_binary_format", False):
        if not isinstance(obj, Tensor):
            raise InvalidArgumentError(
                "[save] use_binary_format=True expects a Tensor, got "
                f"{type(obj).__name__}"
            )
        _put(path, [write_stream(stored(obj))])
        return
    _put(path, safetensors.chunks(*pack(obj)))


def _put(path: Any, buffers: Any) -> None:
    if hasattr(path, "write"):
        for buffer in buffers:
            path.write(buffer)
    else:
        files.replace(path, buffers)


def load(path: PathLike | IO[bytes], **configs: Any) -> Any:
    """Read what `save` wrote, or any safetensors file (as a flat dict of tensors).

    PaddlePaddle's tensor streams are known by their first bytes, and a folder (or the
    beginning of the names ``X.pdmodel`` and ``X.pdiparams``) gives a dict of its
    parameters.

    Args:
        path: The file or folder, or an object with ``read`` for bytes.
        return_numpy: Give NumPy arrays instead of tensors.
        allow_pickle: Read PaddlePaddle's pickled ``.pdparams`` and ``.pdopt`` too, by a
            reader that makes arrays and plain values alone.
        keep_name_table: Keep the table of names that such a file has.

    Raises:
        MissingFileError: If there is no such file.
        InvalidArgumentError: If it is damaged or something else.
    """
    as_numpy = bool(configs.get("return_numpy", False))
    if hasattr(path, "read"):
        return parse(path.read(), "the stream", as_numpy, configs)
    place = Path(os.fspath(path))
    if place.is_dir():
        return _all(read_folder(place), as_numpy)
    if not place.exists():
        if place.with_name(place.name + ".pdiparams").exists():
            return _all(read_pair(place), as_numpy)
        raise MissingFileError(f"[load] no such file: {place}")
    return parse(files.read(place), place, as_numpy, configs)


def _is_model(contents: safetensors.Contents) -> bool:
    return next(iter(contents.tensors), "") == _GRAPH


def parse(
    data: bytes | memoryview,
    path: object,
    as_numpy: bool = False,
    configs: Mapping[str, Any] | None = None,
) -> Any:
    """What bytes of any of the forms that `load` reads hold."""
    configs = configs or {}
    if is_pickle(data) and configs.get("allow_pickle", False):
        value, named = read_pickle(
            data, keep_name_table=bool(configs.get("keep_name_table", False))
        )
        return value if as_numpy else _tensors(value, named)
    if is_pickle(data):
        raise InvalidArgumentError(
            f"[load] {path} must be a safetensors file: got {format_of_bytes(data)}; "
            "allow_pickle=True reads PaddlePaddle's state dicts, without running any "
            "code"
        )
    if data[:4] == bytes(4) and len(data) >= 4:
        tensor, end = read_stream(data)
        if end != len(data):
            raise InvalidArgumentError(
                f"[load] {path} must hold one tensor, got {len(data) - end} bytes "
                "after it"
            )
        return restored(tensor, as_numpy)
    contents = safetensors.parse(data, path)
    if _is_model(contents):
        return model_file.from_bytes(data)
    return unpack(contents, path, as_numpy)


def _all(found: dict[str, Stored], as_numpy: bool) -> dict[str, Any]:
    return {name: restored(tensor, as_numpy) for name, tensor in found.items()}


def _tensor(array: Any) -> Tensor:
    kind = "bfloat16" if array.dtype.name == "uint16" else array.dtype.name
    tensor: Tensor = restored(Stored(array, kind), False)
    return tensor


def _tensors(value: Any, named: bool) -> Any:
    """A pickle's value with tensors where PaddlePaddle had them: the arrays of a state
    dict, and pairs of a name and an array.
    """
    if hasattr(value, "dtype"):
        return _tensor(value) if named else value
    if isinstance(value, dict):
        inner = named or all(not isinstance(v, (list, tuple)) for v in value.values())
        return {k: _tensors(v, inner) for k, v in value.items()}
    if isinstance(value, tuple) and len(value) == 2 and hasattr(value[1], "dtype"):
        tensor = _tensor(value[1])
        tensor.name = str(value[0])
        return tensor
    if isinstance(value, (list, tuple)):
        return type(value)(_tensors(v, named) for v in value)
    return value
