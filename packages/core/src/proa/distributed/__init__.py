"""Training beyond one process; at present what helps in one as well."""

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
    "ParallelEnv", "get_rank", "get_world_size", "init_parallel_env", "is_initialized",
    *_collective,
]  # fmt: skip
