"""What Python does with values when a recorded program runs: printing, asserting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from proa._core import Tensor
from proa.jit.convert.state import recording_state
from proa.jit.python_calls import Callback, call_python


@contextmanager
def left_out() -> Iterator[None]:
    """While open, effects are not recorded: a model file has no Python in it."""
    before, recording_state.has_effects = recording_state.has_effects, False
    try:
        yield
    finally:
        recording_state.has_effects = before


def when_run(function: Callable[..., Any], tensors: Sequence[Tensor]) -> None:
    """Call the function with the tensors whenever the recorded program runs."""
    if recording_state.has_effects:
        call_python(Callback(function, (), (), len(tensors)), tensors)
