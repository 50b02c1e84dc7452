"""Where time and memory go: ops, kernels, Layers, backward nodes and events of yours.

::

    with Profiler(scheduler=(2, 5), on_trace_ready=export_chrome_tracing("log")) as p:
        for batch in loader:
            with RecordEvent("augment"):
                ...
            step(batch)
            p.step()
    p.summary()

The trace opens in Perfetto or chrome://tracing. While nothing is recorded, an op pays
one load of a flag.
"""

from proa.profiler.export import (
    export_chrome_tracing,
    export_protobuf,
    load_profiler_result,
)
from proa.profiler.profiler import Profiler
from proa.profiler.record import RecordEvent
from proa.profiler.result import ProfilerResult
from proa.profiler.schedule import (
    ProfilerState,
    ProfilerTarget,
    TracerEventType,
    make_scheduler,
)
from proa.profiler.summary import SortedKeys, SummaryView

__all__ = [
    "Profiler",
    "ProfilerResult",
    "ProfilerState",
    "ProfilerTarget",
    "RecordEvent",
    "SortedKeys",
    "SummaryView",
    "TracerEventType",
    "export_chrome_tracing",
    "export_protobuf",
    "load_profiler_result",
    "make_scheduler",
]


def __dir__() -> list[str]:
    return __all__
