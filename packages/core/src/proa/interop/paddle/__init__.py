"""PaddlePaddle's files: models, state dicts (pickles) and parameter streams.

`load` makes a Layer of a model, `save` writes one. They need ``proa[paddle]``.
"""

import importlib as _importlib
import typing as _typing

from proa.interop.paddle.pickles import read_pickle
from proa.interop.paddle.streams import read_folder, read_stream, write_stream

if _typing.TYPE_CHECKING:
    from proa.interop.paddle.exporter.save import save
    from proa.interop.paddle.importer.layer import PaddleGraph
    from proa.interop.paddle.importer.load import load

#: What is imported when it is first named: hapi needs the readers of state alone.
_LAZY = {"PaddleGraph": "importer.layer", "load": "importer.load",
         "save": "exporter.save"}  # fmt: skip

__all__ = [
    "PaddleGraph", "load", "read_folder", "read_pickle", "read_stream", "save",
    "write_stream",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> _typing.Any:
    if name in _LAZY:
        module = _importlib.import_module(f"proa.interop.paddle.{_LAZY[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'proa.interop.paddle' has no attribute {name!r}")
