"""Channels between a teacher and a student: actors of Ray, found by address.

A channel belongs to no process: it outlives a teacher that is killed, knows how many
batches it took, and takes each once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from proa.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)

NAMESPACE = "proa-pantheon"
#: What `get` gives when the teacher has sent everything.
END = "end"


class Channel:
    """The state of one channel; its methods run in the actor.

    Args:
        capacity: Batches that it holds before `put` waits.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._changed = asyncio.Condition()
        self._blocks: deque[Any] = deque()
        self._accepted = 0
        self._description: Any = None
        self._ended = False
        self._messages: dict[str, deque[Any]] = {"student": deque(), "teacher": deque()}

    async def put(self, number: int, block: Any) -> int:
        """Take batch `number` unless it was taken before; returns how many were."""
        # The arguments are memory of the teacher, which may die.
        own = {name: array.copy() for name, array in block.items()}
        async with self._changed:
            if number != self._accepted:
                return self._accepted
            await self._changed.wait_for(lambda: len(self._blocks) < self._capacity)
            if number == self._accepted:  # no other put came first
                self._blocks.append(own)
                self._accepted += 1
                self._changed.notify_all()
            return self._accepted

    async def get(self, number: int) -> Any:
        """Give away batch `number`, once, after those before it; or END."""

        def is_next() -> bool:
            given = self._accepted - len(self._blocks)
            return number == given and bool(self._blocks)

        async with self._changed:
            await self._changed.wait_for(
                lambda: is_next() or (self._ended and number >= self._accepted)
            )
            if number >= self._accepted:
                return END
            self._changed.notify_all()
            return self._blocks.popleft()

    async def accepted(self) -> int:
        """How many batches were taken."""
        return self._accepted

    async def end(self) -> None:
        """No more batches come."""
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def ended(self) -> bool:
        """Whether no more batches come."""
        return self._ended

    async def describe(self, description: Any) -> None:
        """Note what knowledge looks like."""
        async with self._changed:
            self._description = description
            self._changed.notify_all()

    async def description(self) -> Any:
        """What knowledge looks like, once the teacher has said it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._description is not None)
            return self._description

    async def send(self, to: str, message: Any) -> None:
        """Leave a message for the "student" or the "teacher"."""
        async with self._changed:
            self._messages[to].append(message)
            self._changed.notify_all()

    async def receive(self, by: str) -> Any:
        """The next message for the "student" or the "teacher"."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._messages[by])
            return self._messages[by].popleft()


def ray_module() -> Any:
    """Ray, connected to the cluster that there is, or to a new one on this machine.

    Raises:
        UnavailableError: If it is not installed.
    """
    try:
        import ray
    except ImportError:
        raise UnavailableError(
            "[pantheon] knowledge is sent by Ray: expected `ray`, which "
            "`pip install proa-slim[pantheon]` brings, got none"
        ) from None
    if not ray.is_initialized():
        ray.init(namespace=NAMESPACE, log_to_driver=False)
    return ray


def _own_address(ray: Any) -> str:
    return str(ray.util.get_node_ip_address())


def _name(ray: Any, host: str, port: int, index: int) -> str:
    if host in ("localhost", "127.0.0.1", "::1"):
        host = _own_address(ray)
    return f"{host}:{port}/{index}"


def open_channels(port: int, channels: int, capacity: int, resume: bool) -> list[Any]:
    """A teacher's channels: new ones, or those that it had before it was killed.

    Raises:
        AlreadyExistsError: If another teacher of this machine has the port, or had it
            and did not finish, unless `resume`.
    """
    ray = ray_module()
    found = []
    for index in range(channels):
        name = _name(ray, _own_address(ray), port, index)
        actor = _known(ray, name)
        if actor is not None and not resume:
            if not ray.get(actor.ended.remote()):
                raise AlreadyExistsError(
                    f"[Teacher] expected out_port that no unfinished teacher of this "
                    f"machine has, got {port}; resume=True continues with its work"
                )
            ray.kill(actor)
            actor = None
        found.append(actor or _created(ray, name, capacity))
    return found


def _known(ray: Any, name: str) -> Any:
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None


def _created(ray: Any, name: str, capacity: int) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    options = {
        "name": name,
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "num_cpus": 0,
        "get_if_exists": True,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=True),
    }
    return ray.remote(Channel).options(**options).remote(capacity)


def find_channels(address: str, timeout: float) -> list[Any]:
    """The channels of the teacher at an address, ``HOST:PORT``.

    Raises:
        InvalidArgumentError: If the address has no port.
        NotFoundError: If no teacher is there for so many seconds.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidArgumentError(
            f"[Student] in_address must be HOST:PORT, got {address!r}"
        )
    ray = ray_module()
    first = _await(ray, _name(ray, host, int(port), 0), timeout)
    if first is None:
        raise NotFoundError(
            f"[Student] expected a teacher at {address} within {timeout:g} s, got none"
        )
    found = [first]
    while actor := _known(ray, _name(ray, host, int(port), len(found))):
        found.append(actor)
    return found


def _await(ray: Any, name: str, timeout: float) -> Any:
    import time

    until = time.monotonic() + timeout
    while (actor := _known(ray, name)) is None and time.monotonic() < until:
        time.sleep(0.1)
    return actor
