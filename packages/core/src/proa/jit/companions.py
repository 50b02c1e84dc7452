"""Loops of tensors with companions, which are carried as well.

A sequence's lengths are its companions: a loop that carries its rows carries these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proa.ir.record import Recorder
from proa.jit.pytree import flatten, is_tensor

Function = Callable[..., Any]


class _Dropped(Exception):
    """A body gives a tensor without the companions that it was given."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place


def _leaves(tree: Any) -> list[Any]:
    return flatten(tree, is_tensor)[0]


def attach(recorder: Recorder, tree: Any, companions: dict[int, list[Any]]) -> None:
    """Let leaves of a pytree, by number, have companions."""
    leaves = _leaves(tree)
    for place, own in companions.items():
        recorder.accompany(leaves[place], own)


def loop_with_companions(
    recorder: Recorder,
    record: Callable[[Function, Function, Sequence[Any]], list[Any]],
    condition: Function,
    body: Function,
    loop_vars: Sequence[Any],
) -> list[Any]:
    """Record a loop that also carries the companions of what it carries.

    Where a body gives a tensor without some, it is carried without.

    Args:
        recorder: Knows companions.
        record: Records a loop of a condition, a body and first values.
        condition, body: The loop's.
        loop_vars: The first values.
    """
    given = {i: recorder.companions(t) for i, t in enumerate(_leaves(list(loop_vars)))}
    carried = {i: own for i, own in given.items() if own}
    count = len(loop_vars)
    while True:

        def goes_on(*state: Any) -> Any:
            attach(recorder, list(state[:count]), state[count])
            return condition(*state[:count])

        def once(*state: Any) -> list[Any]:
            held = state[count]
            attach(recorder, list(state[:count]), held)
            result = body(*state[:count])
            result = list(result) if isinstance(result, (list, tuple)) else [result]
            leaves = _leaves(result)
            after = {}
            for place, own in held.items():
                found = (
                    recorder.companions(leaves[place]) if place < len(leaves) else []
                )
                if len(found) != len(own):
                    raise _Dropped(place)
                after[place] = found
            return [*result, after]

        try:
            *results, companions = record(goes_on, once, [*loop_vars, carried])
        except _Dropped as dropped:
            del carried[dropped.place]
            continue
        attach(recorder, results, companions)
        return results
