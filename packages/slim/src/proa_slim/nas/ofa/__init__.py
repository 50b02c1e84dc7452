"""Once-for-all training under the names of PaddleSlim; `search.OFA` is what is below.

from proa_slim.nas.ofa import OFA, DistillConfig, RunConfig
from proa_slim.nas.ofa.convert_super import Convert, supernet
"""

from proa_slim.nas.ofa.convert_super import Convert, supernet
from proa_slim.nas.ofa.distillation import DistillConfig
from proa_slim.nas.ofa.training import OFA, RunConfig

__all__ = ["OFA", "Convert", "DistillConfig", "RunConfig", "supernet"]


def __dir__() -> list[str]:
    return __all__
