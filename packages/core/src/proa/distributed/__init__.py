"""Training beyond one process; at present what helps in one as well."""

from proa.distributed import fleet
from proa.distributed.collective import *  # noqa: F403
from proa.distributed.collective import __all__ as _collective
from proa.distributed.parallel import (
    ParallelEnv,
    get_rank,
    get_world_size,
    init_parallel_env,
    is_initialized,
)

__all__ = [
    "ParallelEnv", "fleet", "get_rank", "get_world_size", "init_parallel_env",
    "is_initialized",
    *_collective,
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
