"""`Profiler`: records spans of a program by a schedule."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from proa import _core
from proa.base.observers import layer_observers, phase, reader
from proa.errors import PreconditionNotMetError, UnavailableError
from proa.profiler.export import export_chrome_tracing
from proa.profiler.result import Event, ProfilerResult
from proa.profiler.schedule import (
    ProfilerState,
    ProfilerTarget,
    Scheduler,
    as_scheduler,
)
from proa.profiler.summary import SortedKeys, Summary

_RECORDS = (ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN)


def _observe(layer: Any) -> AbstractContextManager[None]:
    return phase(layer.full_name(), "layer")


def start_recording(level: int, shapes: bool = False) -> None:
    """Collect events: 0 ops, 1 kernels too, 2 and the preparation of kernels."""
    if _observe not in layer_observers:
        layer_observers.append(_observe)
    _core.start_events(level, shapes)


def stop_recording() -> ProfilerResult:
    """Stop, and get what was collected."""
    if _observe in layer_observers:
        layer_observers.remove(_observe)
    return ProfilerResult([Event(*fields) for fields in _core.stop_events()])


class _Timer:
    """Time of steps since the last question."""

    def __init__(self) -> None:
        self.reset()
        self.begin = time.perf_counter()

    def reset(self) -> None:
        self.steps, self.samples, self.seconds = 0, 0, 0.0
        self.reader_seconds = reader.seconds

    def step(self, samples: int | None) -> None:
        now = time.perf_counter()
        self.steps += 1
        self.samples += samples or 0
        self.seconds += now - self.begin
        self.begin = now

    def text(self, unit: str | None) -> str:
        steps = max(self.steps, 1)
        waited = (reader.seconds - self.reader_seconds) / steps
        cost = self.seconds / steps
        done = self.samples or self.steps
        rate = done / self.seconds if self.seconds else 0.0
        what = unit or ("samples" if self.samples else "steps")
        return (
            f"reader_cost: {waited:.5f} s batch_cost: {cost:.5f} s "
            f"ips: {rate:.3f} {what}/s"
        )


class Profiler:
    """Records the events of chosen steps; a context manager.

    Args:
        targets: Only ProfilerTarget.CPU is there.
        scheduler: A function from the step to a ProfilerState, (first, end), or None
            to record every step.
        on_trace_ready: Called with the profiler after each recorded span; by
            default the trace is written into ``./profiler_log``.
        record_shapes: Note shapes and dtypes of inputs.
        profile_memory: Without effect: memory is always noted.
        timer_only: Only measure steps, for `step_info`.
        emit_nvtx: Without effect on the CPU.
        custom_device_types: Must be empty.
        with_flops: Note shapes, so that `summary` shows the rates of kernels, as shares
            of what the machine can do. (For the operations of a Layer see
            `proa.flops`.)
        detail: 0 records ops, 1 kernels too, 2 also how they are prepared.

    Raises:
        UnavailableError: If a device other than the CPU is requested.
    """

    def __init__(
        self,
        *,
        targets: Sequence[ProfilerTarget] | None = None,
        scheduler: Scheduler | tuple[int, int] | None = None,
        on_trace_ready: Callable[[Profiler], object] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        timer_only: bool = False,
        emit_nvtx: bool = False,
        custom_device_types: Sequence[str] = (),
        with_flops: bool = False,
        detail: int = 1,
    ) -> None:
        others = [t for t in targets or () if t is not ProfilerTarget.CPU]
        if others or custom_device_types:
            raise UnavailableError(
                "[Profiler] targets must be ProfilerTarget.CPU in this build, got "
                f"{[*others, *custom_device_types]}"
            )
        self.scheduler = as_scheduler(scheduler)
        self.on_trace_ready = on_trace_ready or export_chrome_tracing("./profiler_log/")
        self.record_shapes, self.timer_only, self.detail = (
            record_shapes or with_flops,
            timer_only,
            detail,
        )
        self.step_num = 0
        self.current_state = ProfilerState.CLOSED
        self.profiler_result: ProfilerResult | None = None
        self._timer = _Timer()
        self._step_mark: tuple[int, int] | None = None
        self._recording = False

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the state of the current step."""
        self._timer = _Timer()
        if self.timer_only:
            return
        self.current_state = self.scheduler(self.step_num)
        if self.current_state in _RECORDS:
            self._begin()

    def stop(self) -> None:
        """End; a span that is being recorded is ready."""
        if self._recording:
            if self.step_num > 0:
                self._step_mark = None  # the step that was begun but not made
            self._finish()
        self.current_state = ProfilerState.CLOSED

    def step(self, num_samples: int | None = None) -> None:
        """A step ends here and the next begins.

        Args:
            num_samples: Samples of the step, for `step_info`.
        """
        self._timer.step(num_samples)
        if self.timer_only:
            self.step_num += 1
            return
        self._end_step()
        before = self.current_state
        self.step_num += 1
        self.current_state = self.scheduler(self.step_num)
        records = self.current_state in _RECORDS
        if self._recording and (
            before is ProfilerState.RECORD_AND_RETURN or not records
        ):
            self._finish()
        if records and not self._recording:
            self._begin()
        elif self._recording:
            self._step_mark = _core.event_mark()

    def _begin(self) -> None:
        start_recording(self.detail, self.record_shapes)
        self._recording = True
        self._step_mark = _core.event_mark()

    def _end_step(self) -> None:
        if self._step_mark is not None:
            _core.add_event(f"ProfileStep#{self.step_num}", "step", self._step_mark)
            self._step_mark = None

    def _finish(self) -> None:
        self._end_step()
        self._recording = False
        self.profiler_result = stop_recording()
        self.on_trace_ready(self)

    def step_info(self, unit: str | None = None) -> str:
        """Averages since the last call: time to read data, time of a step, speed."""
        text = self._timer.text(unit)
        self._timer.reset()
        return text

    def _result(self, where: str) -> ProfilerResult:
        if self.profiler_result is None:
            raise PreconditionNotMetError(
                f"[Profiler.{where}] expected a finished recording, got none"
            )
        return self.profiler_result

    def export(self, path: str = "", format: str = "json") -> None:
        """Write the last recorded span as a trace for Perfetto.

        Raises:
            PreconditionNotMetError: If nothing was recorded.
            UnimplementedError: For format "pb".
        """
        self._result("export").save(path, format)

    def summary(
        self,
        sorted_by: SortedKeys = SortedKeys.CPUTotal,
        op_detail: bool = True,
        thread_sep: bool = False,
        time_unit: str = "ms",
        views: object = None,
    ) -> None:
        """Print tables of the last recorded span.

        Args:
            sorted_by: Order of rows.
            op_detail: Show kernels below ops.
            thread_sep: Tables for each thread on its own.
            time_unit: s, ms, us or ns.
            views: A SummaryView or a list of them; None for all.

        Raises:
            PreconditionNotMetError: If nothing was recorded.
        """
        result = self._result("summary")
        parts = [("", result)]
        if thread_sep:
            parts = [
                (
                    f"Thread {t}\n",
                    ProfilerResult([e for e in result.events if e.thread == t]),
                )
                for t in result.threads()
            ]
        for title, part in parts:
            summary = Summary(part, sorted_by, op_detail, time_unit)
            print(title + summary.text(views))
