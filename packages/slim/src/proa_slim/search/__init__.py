"""Architecture search: spaces, controllers, and searches that go on after a kill."""

from proa_slim.analysis.times import bench
from proa_slim.search.blocks import BLOCKS, Block, Network
from proa_slim.search.controllers import (
    Controller,
    Evolution,
    RandomSearch,
    SimulatedAnnealing,
)
from proa_slim.search.darts import (
    OPERATIONS,
    DartsNetwork,
    DerivedNetwork,
    Genotype,
    MixedOperation,
    PartialMixedOperation,
)
from proa_slim.search.darts_search import DARTSearch
from proa_slim.search.early_stop import (
    EarlyStopBase,
    MedianStop,
    asha_stop,
    median_stop,
)
from proa_slim.search.latency import LatencyTable
from proa_slim.search.nas import RLNAS, SANAS
from proa_slim.search.once_for_all import OFA
from proa_slim.search.one_shot import OneShot, SuperNet
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
    "DARTSearch",
    "SEARCHSPACE",
    "BlazeFaceSpace",
    "Block",
    "ChoiceSpace",
    "Controller",
    "DartsNetwork",
    "DerivedNetwork",
    "EarlyStopBase",
    "Evolution",
    "Genotype",
    "LatencyTable",
    "MixedOperation",
    "OneShot",
    "PartialMixedOperation",
    "MedianStop",
    "MobileNetV1BlockSpace",
    "MobileNetV1Space",
    "MobileNetV2BlockSpace",
    "MobileNetV2Space",
    "Network",
    "OFA",
    "OPERATIONS",
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
    "SuperNet",
    "Trial",
    "asha_stop",
    "bench",
    "median_stop",
]


def __dir__() -> list[str]:
    return __all__
