"""Datasets, samplers and the loader of batches."""

import typing as _typing

from proa.base.moved import moved as _moved
from proa.base.public import publish as _publish
from proa.io import dataset, sampler
from proa.io.collate import default_collate_fn, default_convert_fn
from proa.io.dataset import *  # noqa: F403
from proa.io.loader import DataLoader
from proa.io.sampler import *  # noqa: F403
from proa.io.worker import get_worker_info

__all__ = [
    "DataLoader", "default_collate_fn", "default_convert_fn", "get_worker_info",
    *dataset.__all__, *sampler.__all__,
]  # fmt: skip


def __getattr__(name: str) -> _typing.Any:
    return _moved(__name__, name)


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
