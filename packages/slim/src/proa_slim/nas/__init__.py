"""Searches under the names of PaddleSlim; `proa_slim.search` documents them."""

from proa_slim.search import (
    OFA,
    RLNAS,
    SANAS,
    SEARCHSPACE,
    BlazeFaceSpace,
    DARTSearch,
    EarlyStopBase,
    MedianStop,
    MobileNetV1BlockSpace,
    MobileNetV1Space,
    MobileNetV2BlockSpace,
    MobileNetV2Space,
    ResNetBlockSpace,
    ResNetSpace,
)
from proa_slim.search import SearchSpace as SearchSpaceBase

__all__ = [
    "OFA",
    "RLNAS",
    "SANAS",
    "SEARCHSPACE",
    "BlazeFaceSpace",
    "DARTSearch",
    "EarlyStopBase",
    "MedianStop",
    "MobileNetV1BlockSpace",
    "MobileNetV1Space",
    "MobileNetV2BlockSpace",
    "MobileNetV2Space",
    "ResNetBlockSpace",
    "ResNetSpace",
    "SearchSpaceBase",
]


def __dir__() -> list[str]:
    return __all__
