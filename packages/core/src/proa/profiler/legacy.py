"""`proa.utils.profiler`: the names up to Paddle 2.1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from proa import _core
from proa.errors import InvalidArgumentError, NotFoundError, UnavailableError
from proa.profiler.profiler import start_recording, stop_recording
from proa.profiler.result import ProfilerResult
from proa.profiler.summary import SortedKeys, Summary

__all__ = [
    "Profiler", "ProfilerOptions", "cuda_profiler", "get_profiler", "profiler",
    "reset_profiler", "start_profiler", "stop_profiler",
]  # fmt: skip

_LEVELS = {"Default": 0, "OpDetail": 1, "AllOpDetail": 2}
_ORDERS = {
    None: SortedKeys.CPUTotal, "default": SortedKeys.CPUTotal,
    "calls": SortedKeys.CPUTotal, "total": SortedKeys.CPUTotal,
    "max": SortedKeys.CPUMax, "min": SortedKeys.CPUMin, "ave": SortedKeys.CPUAvg,
}  # fmt: skip

_running: list[tuple[int, bool]] = []


def _check_choice(where: str, name: str, value: Any, known: Mapping[Any, Any]) -> Any:
    if value not in known:
        raise InvalidArgumentError(
            f"[{where}] {name} must be one of {list(known)}, got {value!r}"
        )
    return known[value]


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Begin to record.

    Args:
        state: "CPU" or "All"; "GPU" is not there.
        tracer_option: "Default" records ops, "OpDetail" kernels too, "AllOpDetail"
            also how they are prepared.
    """
    if state == "GPU":
        raise UnavailableError("[start_profiler] state must be 'CPU', got 'GPU'")
    _check_choice("start_profiler", "state", state, {"CPU": 0, "All": 0})
    level = _check_choice("start_profiler", "tracer_option", tracer_option, _LEVELS)
    if not _running:
        start_recording(level)
        _running.append((level, False))


def stop_profiler(
    sorted_key: str | None = None, profile_path: str = "/tmp/profile"
) -> None:
    """Stop, print tables, and write the trace to `profile_path`."""
    order = _check_choice("stop_profiler", "sorted_key", sorted_key, _ORDERS)
    if not _running:
        return
    _running.clear()
    result: ProfilerResult = stop_recording()
    print(Summary(result, order).text())
    if profile_path:
        result.save(profile_path)


def reset_profiler() -> None:
    """Forget what was recorded so far."""
    if _running:
        _core.start_events(*_running[-1])


@contextmanager
def profiler(
    state: str,
    sorted_key: str | None = None,
    profile_path: str = "/tmp/profile",
    tracer_option: str = "Default",
) -> Iterator[None]:
    """start_profiler and stop_profiler around a block."""
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


def cuda_profiler(*args: object, **kwargs: object) -> NoReturn:
    """NVIDIA's profiler.

    Raises:
        UnavailableError: Always: this build drives no GPU.
    """
    raise UnavailableError("[cuda_profiler] expected a CUDA device, got none")


class ProfilerOptions:
    """Settings of `Profiler`, by name: ``options["state"]``.

    batch_range ([first, end]), state, sorted_key, tracer_level, profile_path,
    timer_only, exit_on_finished.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options: dict[str, Any] = {
            "state": "All", "sorted_key": "default", "tracer_level": "Default",
            "batch_range": [0, 1 << 62], "output_thread_detail": False,
            "profile_path": "none", "timeline_path": "none", "op_summary_path": "none",
            "exit_on_finished": True, "timer_only": True,
        }  # fmt: skip
        for name, value in (options or {}).items():
            if name not in self.options:
                raise InvalidArgumentError(
                    f"[ProfilerOptions] names must be among {list(self.options)}, got "
                    f"{name!r}"
                )
            self.options[name] = value

    def with_state(self, state: str) -> ProfilerOptions:
        """These options for another state."""
        self.options["state"] = state
        return self

    def __getitem__(self, name: str) -> Any:
        if name not in self.options:
            raise NotFoundError(
                f"[ProfilerOptions] the name must be of {list(self.options)}, "
                f"got {name!r}"
            )
        return None if self.options[name] == "none" else self.options[name]


class Profiler:
    """Records the batches of ``batch_range``; a context manager."""

    def __init__(
        self,
        enabled: bool = True,
        options: ProfilerOptions | Mapping[str, Any] | None = None,
    ) -> None:
        is_ready = isinstance(options, ProfilerOptions)
        self.profiler_options: Any = options if is_ready else ProfilerOptions(options)  # type: ignore[arg-type]  # is_ready says which
        self.enabled, self.batch_id = enabled, 0

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.stop()

    def _inside(self) -> bool:
        first, end = self.profiler_options["batch_range"]
        return bool(first <= self.batch_id < end)

    def start(self) -> None:
        """Begin, if the batch is one to record."""
        if self.enabled and self._inside():
            start_profiler(
                self.profiler_options["state"], self.profiler_options["tracer_level"]
            )

    def stop(self) -> None:
        """Stop and print tables."""
        if self.enabled and _running:
            stop_profiler(
                self.profiler_options["sorted_key"],
                self.profiler_options["profile_path"] or "",
            )

    def reset(self) -> None:
        """Forget what was recorded so far."""
        reset_profiler()

    def record_step(self, change_profiler_status: bool = True) -> None:
        """A batch ends here."""
        self.batch_id += 1
        if not change_profiler_status:
            return
        if self._inside():
            self.start()
        else:
            self.stop()


_current: list[Profiler] = []


def get_profiler() -> Profiler:
    """The one Profiler of the process, made when first requested."""
    if not _current:
        _current.append(Profiler())
    return _current[0]
