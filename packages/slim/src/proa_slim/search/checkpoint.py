"""Checkpoints of trainings that searches begin with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import proa


def write(path: Path, state: Mapping[str, Any]) -> None:
    """Save a state; the file that was there is replaced in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    proa.save(dict(state), str(partial))
    os.replace(partial, path)


def renamed(
    state: Mapping[str, Any], names: Sequence[str], parameters: Sequence[Any]
) -> dict[str, Any]:
    """An optimizer's state, with keys ``PARAMETER_SLOT_0``, for parameters that have
    other names now.

    Args:
        state: What `state_dict` of the optimizer gave.
        names: Names of the parameters then.
        parameters: They, in the same order.
    """
    now = dict(zip(names, (p.name for p in parameters), strict=True))
    result = {}
    for key, value in state.items():
        owner = key
        while owner and owner not in now:
            owner = owner.rpartition("_")[0]
        result[now.get(owner, "") + key[len(owner) :]] = value
    return result
