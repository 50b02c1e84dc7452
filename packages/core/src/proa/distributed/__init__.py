"""Training beyond one process; at present what helps in one as well."""

from proa.distributed.parallel import (
    ParallelEnv,
    get_rank,
    get_world_size,
    init_parallel_env,
    is_initialized,
)

__all__ = [
    "ParallelEnv", "get_rank", "get_world_size", "init_parallel_env", "is_initialized",
]  # fmt: skip
