"""When to record: states of a profiler, and the function that gives one for a step."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from proa.errors import InvalidArgumentError


class ProfilerState(Enum):
    """What a profiler does in a step."""

    CLOSED = 0
    READY = 1  # as CLOSED here: there is nothing to warm up
    RECORD = 2
    RECORD_AND_RETURN = 3  # the last step of a span: then its trace is ready


class ProfilerTarget(Enum):
    """What is profiled."""

    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM_DEVICE = 3


class TracerEventType(Enum):
    """Kinds of events."""

    Operator = 0
    Dataloader = 1
    ProfileStep = 2
    CudaRuntime = 3
    Kernel = 4
    Memcpy = 5
    Memset = 6
    UserDefined = 7
    OperatorInner = 8
    Forward = 9
    Backward = 10
    Optimization = 11
    Communication = 12
    PythonOp = 13
    PythonUserDefined = 14


Scheduler = Callable[[int], ProfilerState]


def make_scheduler(
    *, closed: int, ready: int, record: int, repeat: int = 0, skip_first: int = 0
) -> Scheduler:
    """A scheduler that repeats: `closed` steps, `ready` steps, `record` steps.

    Args:
        closed: Steps without recording.
        ready: Steps before recording.
        record: Steps that are recorded, at least 1.
        repeat: How often; 0 means without end.
        skip_first: Steps before all that.

    Raises:
        InvalidArgumentError: If a number is negative or `record` is 0.
    """
    given = {
        "closed": closed, "ready": ready, "repeat": repeat, "skip_first": skip_first,
    }  # fmt: skip
    for name, value in given.items():
        if value < 0:
            raise InvalidArgumentError(
                f"[make_scheduler] {name} must not be negative, got {value}"
            )
    if record < 1:
        raise InvalidArgumentError(
            f"[make_scheduler] record must be at least 1, got {record}"
        )
    period = closed + ready + record

    def state(step: int) -> ProfilerState:
        if step < skip_first or (repeat and step - skip_first >= repeat * period):
            return ProfilerState.CLOSED
        at = (step - skip_first) % period
        if at < closed:
            return ProfilerState.CLOSED
        if at < closed + ready:
            return ProfilerState.READY
        if at < period - 1:
            return ProfilerState.RECORD
        return ProfilerState.RECORD_AND_RETURN

    return state


def as_scheduler(given: Scheduler | tuple[int, int] | None) -> Scheduler:
    """The scheduler that a Profiler's argument means.

    Raises:
        InvalidArgumentError: If it is neither None, (first, end) nor a function.
    """
    if given is None:
        return lambda step: ProfilerState.RECORD
    if callable(given):
        return given
    try:
        first, end = given
    except (TypeError, ValueError):
        first = end = -1
    if not 0 <= first < end:
        raise InvalidArgumentError(
            "[Profiler] scheduler must be a function, or (first, end) with "
            f"0 <= first < end, got {given!r}"
        )
    return make_scheduler(closed=0, ready=0, record=end - first, repeat=1,
                          skip_first=first)  # fmt: skip
