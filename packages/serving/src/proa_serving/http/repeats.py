"""Requests over HTTP that a client repeats, but for the tensors after their JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proa_serving.http.answers import FastAnswer
from proa_serving.http.messages import Request
from proa_serving.transport.repeats import Repeats


def learn_request(
    repeats: Repeats,
    head: bytes,
    request: Request,
    find: Callable[[Request], tuple[int, FastAnswer] | None],
    touch: Callable[[], None],
) -> None:
    """Let the transport answer what repeats a request that was answered.

    Args:
        repeats: Of the connection.
        head: Its bytes, to the end of the empty line.
        request: The rest of it.
        find: Finds what answers it, and the bytes of its JSON.
        touch: Called after each that the transport answered.
    """
    if request.body is None or not repeats.is_worth:
        return
    found = find(request)
    if found is None:
        return
    size, answer = found

    def repeat(data: bytes) -> Sequence[Any] | None:
        parts = answer(data)
        if parts is not None:
            repeats.repeated()
            touch()
        return parts

    size += len(head)
    repeats.learn(head + bytes(request.data()), ((0, size),), size, (), repeat)
