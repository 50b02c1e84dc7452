"""PaddlePaddle 2.x's files: state dicts (pickles) and parameter streams."""

from proa.interop.paddle.pickles import read_pickle
from proa.interop.paddle.streams import read_folder, read_stream, write_stream

__all__ = ["read_folder", "read_pickle", "read_stream", "write_stream"]


def __dir__() -> list[str]:
    return __all__
