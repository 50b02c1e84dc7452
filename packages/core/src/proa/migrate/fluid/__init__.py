"""What programs of Paddle 1.x call and 2.x has no equal for.

Programs that `proa migrate` has rewritten import it; other programs do not need it. It
has the modules and names of ``paddle.fluid``, as far as the table of names refers to
them, with the arguments and the results that they had.
"""

from proa.base.public import publish as _publish
from proa.migrate.fluid import (
    clip,
    dataset,
    dygraph,
    io,
    layers,
    metrics,
    nets,
    optimizer,
    reader,
)
from proa.migrate.fluid.average import WeightedAverage
from proa.migrate.fluid.feeding import (
    DataFeeder,
    LoDTensorArray,
    create_random_int_lodtensor,
    cuda_pinned_places,
    memory_optimize,
    release_memory,
)
from proa.migrate.fluid.py_reader import EOFException

__all__ = [
    "DataFeeder", "EOFException", "LoDTensorArray", "WeightedAverage", "clip",
    "create_random_int_lodtensor", "cuda_pinned_places", "dataset", "dygraph", "io",
    "layers", "memory_optimize", "metrics", "nets", "optimizer", "reader",
    "release_memory",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
