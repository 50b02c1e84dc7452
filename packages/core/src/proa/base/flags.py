"""Process-wide switches, by PaddlePaddle's names; `FLAGS_...` of the environment set
them too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from proa import _core, errors
from proa.base.observers import layer_observers
from proa.base.stored_flags import STORED
from proa.errors import InvalidArgumentError, locations


@dataclass
class Flag:
    """A switch: its value, how a given value is read, and what a change does."""

    value: Any
    read: Callable[[str, Any], Any]
    apply: Callable[[], None] = lambda: None


def _truth(name: str, value: Any) -> bool:
    if isinstance(value, str):
        if value.lower() in {"", "0", "false", "off", "no"}:
            return False
        if value.lower() in {"1", "true", "on", "yes"}:
            return True
    elif isinstance(value, (bool, int, float)):
        return bool(value)
    raise InvalidArgumentError(f"[set_flags] {name} must be a bool, got {value!r}")


def _level(maximum: int) -> Callable[[str, Any], int]:
    def read(name: str, value: Any) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = -1
        if 0 <= number <= maximum:
            return number
        raise InvalidArgumentError(
            f"[set_flags] {name} must be an int of 0 to {maximum}, got {value!r}"
        )

    return read


def _names(name: str, value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable) or not all(isinstance(i, str) for i in items):
        raise InvalidArgumentError(
            f"[set_flags] expected {name} to be a list of names, or names separated "
            f"by commas, got {value!r}"
        )
    return tuple(i.strip() for i in items if i.strip())


def _like(default: bool | int | float | str) -> Callable[[str, Any], Any]:
    """Reads values of the default's type, from text too (of the environment)."""
    kind = type(default)
    if kind is bool:
        return _truth

    def read(name: str, value: Any) -> Any:
        kinds = (int, float, str) if kind is float else (kind, str)
        try:
            if isinstance(value, kinds) and not isinstance(value, bool):
                return kind(value)
        except ValueError:
            pass
        raise InvalidArgumentError(
            f"[set_flags] expected {name} to be of type {kind.__name__}, got {value!r}"
        )

    return read


def _check_finite() -> None:
    skipped = _FLAGS["FLAGS_check_nan_inf_skip_ops"].value
    ops = [name for name in skipped if ":" not in name]
    roles = [name for name in ops if name in ("forward", "backward", "optimize")]
    outputs = [tuple(name.split(":", 1)) for name in skipped if ":" in name]
    _core.set_finite_check(
        _FLAGS["FLAGS_check_nan_inf"].value,
        _FLAGS["FLAGS_check_nan_inf_level"].value > 0,
        "forward" in roles,
        "backward" in roles,
        "optimize" in roles,
        [name for name in ops if name not in roles],
        [(op, _output_number(op, output)) for op, output in outputs],
    )
    _watch_lines()


class _Unchecked:
    """What computes inside is not searched, nor its backward."""

    def __enter__(self) -> None:
        _core.unchecked(1)

    def __exit__(self, *args: object) -> None:
        _core.unchecked(-1)


def _leave_out(layer: Any) -> AbstractContextManager[None]:
    skipped = _FLAGS["FLAGS_check_nan_inf_skip_layers"].value
    if type(layer).__name__ in skipped or layer.full_name() in skipped:
        return _Unchecked()
    return nullcontext()


def _observe_layers() -> None:
    if _leave_out in layer_observers:
        layer_observers.remove(_leave_out)
    if _FLAGS["FLAGS_check_nan_inf_skip_layers"].value:
        layer_observers.append(_leave_out)


def _output_number(op: str, output: str) -> int:
    from proa.schema import ROWS

    if op in ROWS and output in ROWS[op].outputs:
        return ROWS[op].outputs.index(output)
    known = f"one of {ROWS[op].outputs}" if op in ROWS else "of a known op"
    raise InvalidArgumentError(
        f"[set_flags] the output in FLAGS_check_nan_inf_skip_ops must be {known}, "
        f"got {op}:{output}"
    )


def _stack_level() -> None:
    locations.stack_level = _FLAGS["FLAGS_call_stack_level"].value
    _core.error_stacks(locations.stack_level >= 2)
    _watch_lines()


def _watch_lines() -> None:
    _core.watch_lines(
        _FLAGS["FLAGS_check_nan_inf"].value
        or _FLAGS["FLAGS_call_stack_level"].value >= 2
    )


_FLAGS: dict[str, Flag] = {
    # Search every op's results for NaN and infinity.
    "FLAGS_check_nan_inf": Flag(False, _truth, _check_finite),
    # What follows: 0 an error, 1 (or more) a line on stderr.
    "FLAGS_check_nan_inf_level": Flag(0, _level(4), _check_finite),
    # Ops, "op:output" pairs and roles (forward, backward, optimize) to leave out.
    "FLAGS_check_nan_inf_skip_ops": Flag((), _names, _check_finite),
    # Layers to leave out with their backward: class names, or their full_name().
    "FLAGS_check_nan_inf_skip_layers": Flag((), _names, _observe_layers),
    # The detail of errors; see proa.errors.locations.stack_level.
    "FLAGS_call_stack_level": Flag(1, _level(2), _stack_level),
    # Without meaning here: stored and reported.
    **{f"FLAGS_{name}": Flag(value, _like(value)) for name, value in STORED.items()},
}


def _similar(name: Any) -> str:
    import difflib

    close = difflib.get_close_matches(str(name), _FLAGS, 3)
    return f"; similar: {', '.join(close)}" if close else ""


def _known(where: str, name: str) -> Flag:
    if name not in _FLAGS:
        raise InvalidArgumentError(
            f"[{where}] expected a public flag of PaddlePaddle 2.x (FLAGS_...), got "
            f"{name!r}{_similar(name)}"
        )
    return _FLAGS[name]


def checks_finite() -> bool:
    """Whether results are searched for NaN: then programs run op by op, which names
    the op that made one.
    """
    return bool(_FLAGS["FLAGS_check_nan_inf"].value)


def set_flags(flags: Mapping[str, Any]) -> None:
    """Set switches: ``set_flags({"FLAGS_check_nan_inf": True})``.

    ``FLAGS_check_nan_inf`` lets every op search its results for NaN and infinity; the
    error names the op, the output and how many there are.
    ``FLAGS_check_nan_inf_skip_ops`` leaves ops out: names with commas between them,
    "op:output" for one output, or ``forward``, ``backward``, ``optimize``;
    ``FLAGS_check_nan_inf_skip_layers`` leaves Layers out, by class or full name.
    ``FLAGS_check_nan_inf_level`` 1 writes a line instead of raising.
    ``FLAGS_call_stack_level`` is the detail of errors besides their message: 0 nothing,
    1 the user's line, 2 the C++ stack and where an op was called whose backward failed.

    The other public flags of PaddlePaddle 2.x (of allocators, devices, cuDNN, NCCL, …)
    are stored and reported by `get_flags`, without effect here.

    Raises:
        InvalidArgumentError: If there is no such switch or value; nothing is changed.
    """
    if not isinstance(flags, Mapping):
        raise errors.InvalidTypeError(
            f"[set_flags] flags must be a dict, got {type(flags).__name__}"
        )
    values = {n: _known("set_flags", n).read(n, v) for n, v in flags.items()}
    before = {n: _FLAGS[n].value for n in values}
    for name, value in values.items():
        _FLAGS[name].value = value
    try:
        for apply in dict.fromkeys(_FLAGS[n].apply for n in values):
            apply()
    except Exception:
        for name, value in before.items():
            _FLAGS[name].value = value
        raise


def get_flags(flags: str | Iterable[str]) -> dict[str, Any]:
    """The values of one or more switches, by name."""
    wanted = [flags] if isinstance(flags, str) else list(flags)
    return {name: _known("get_flags", name).value for name in wanted}


def _read_environment() -> None:
    given = {name: os.environ[name] for name in _FLAGS if name in os.environ}
    # PaddlePaddle's older variables for what the search for NaN leaves out.
    older = [
        os.environ.get(f"PADDLE_INF_NAN_SKIP_{part}", "")
        for part in ("OP", "ROLE", "VAR")
    ]
    skipped = ",".join(
        [given.get("FLAGS_check_nan_inf_skip_ops", ""), *filter(None, older)]
    ).strip(",")
    if skipped:
        given["FLAGS_check_nan_inf_skip_ops"] = skipped
    if given:
        set_flags(given)


def disable_signal_handler() -> None:
    """Write no report when a signal such as SIGSEGV ends the process.

    Libraries that install handlers of their own may want this.
    """
    _core.report_crashes(False)


_read_environment()
_core.report_crashes(sys.stderr is not None)
