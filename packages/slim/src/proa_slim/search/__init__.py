"""Architecture search: spaces, controllers, and searches that go on after a kill."""

from proa_slim.search.blocks import BLOCKS, Block, Network
from proa_slim.search.controllers import (
    Controller,
    Evolution,
    RandomSearch,
    SimulatedAnnealing,
)
from proa_slim.search.early_stop import (
    EarlyStopBase,
    MedianStop,
    asha_stop,
    median_stop,
)
from proa_slim.search.latency import LatencyTable, bench
from proa_slim.search.nas import RLNAS, SANAS
from proa_slim.search.policy import Reinforce
from proa_slim.search.space import ChoiceSpace, SearchSpace
from proa_slim.search.spaces import (
    SEARCHSPACE,
    BlazeFaceSpace,
    MobileNetV1BlockSpace,
    MobileNetV1Space,
    MobileNetV2BlockSpace,
    MobileNetV2Space,
    ResNetBlockSpace,
    ResNetSpace,
)
from proa_slim.search.study import CONTROLLERS, Record, Search, Stopped, Trial

__all__ = [
    "BLOCKS",
    "CONTROLLERS",
    "SEARCHSPACE",
    "BlazeFaceSpace",
    "Block",
    "ChoiceSpace",
    "Controller",
    "EarlyStopBase",
    "Evolution",
    "LatencyTable",
    "MedianStop",
    "MobileNetV1BlockSpace",
    "MobileNetV1Space",
    "MobileNetV2BlockSpace",
    "MobileNetV2Space",
    "Network",
    "RLNAS",
    "RandomSearch",
    "Record",
    "Reinforce",
    "ResNetBlockSpace",
    "ResNetSpace",
    "SANAS",
    "Search",
    "SearchSpace",
    "SimulatedAnnealing",
    "Stopped",
    "Trial",
    "asha_stop",
    "bench",
    "median_stop",
]


def __dir__() -> list[str]:
    return __all__
