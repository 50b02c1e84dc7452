"""Attributes of Layers as they were before a recording that ends in an error."""

from __future__ import annotations

from typing import Any

from proa.jit.convert.state import recording_state


def note(layer: Any) -> None:
    """Remember the attributes of a Layer that is about to compute."""
    if id(layer) not in recording_state.layers:
        state = {k: v for k, v in layer.__dict__.items() if _is_users(k)}
        copies = {k: _copied(v) for k, v in state.items()}
        recording_state.layers[id(layer)] = layer, state, copies


def _is_users(name: str) -> bool:
    return not name.startswith("_") or name == "_buffers"


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, (list, dict)) else None


def put_back() -> None:
    """Give the Layers their attributes back, so that no symbols stay in them."""
    for layer, state, copies in recording_state.layers.values():
        now = layer.__dict__
        for name in [k for k in now if _is_users(k) and k not in state]:
            del now[name]
        now.update(state)
        for name, content in copies.items():
            if isinstance(content, list):
                state[name][:] = content
            elif content is not None:
                state[name].clear()
                state[name].update(content)
