"""The side that learns: knowledge of several teachers in batches of its own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    UnavailableError,
)
from proa_slim.pantheon import shards
from proa_slim.pantheon.channel import END, find_channels, ray_module
from proa_slim.pantheon.knowledge import (
    Description,
    Knowledge,
    count,
    joined,
    restored,
    rows,
)

#: Batches that are requested ahead from each channel.
_AHEAD = 4


class _Source(Protocol):
    """Where a teacher's knowledge comes from."""

    def description(self) -> Description:
        """What it looks like."""
        ...

    def read(self) -> Iterator[Knowledge]:
        """All batches, once."""
        ...

    def ready(self) -> int:
        """Batches that are received already, so that none waits for them."""
        ...


class Student:
    """Reads what teachers compute, from files or from their processes.

        student = Student(merge_strategy={"logits": "mean"})
        student.register_teacher(in_address="10.0.0.2:8080")
        student.register_teacher(in_path="knowledge")
        student.start()
        for batch in student.get_knowledge_generator(batch_size=32):
            ...  # {"logits": array of (32, classes), ..}

    Samples of the teachers are matched by their order: all must read the same data.

    Args:
        merge_strategy: For names of knowledge that several teachers have: ``sum`` or
            ``mean``.
        timeout: Seconds to wait for a teacher to appear, and for each batch: as long as
            one that was killed may take to come back.

    Raises:
        InvalidArgumentError: If a strategy is another.
    """

    def __init__(
        self,
        merge_strategy: Mapping[str, Literal["sum", "mean"]] | None = None,
        *,
        timeout: float = 600.0,
    ) -> None:
        self._strategy = dict(merge_strategy or {})
        for name, strategy in self._strategy.items():
            if strategy not in ("sum", "mean"):
                raise InvalidArgumentError(
                    "[Student] merge_strategy must be 'sum' or 'mean', got "
                    f"{strategy!r} for {name!r}"
                )
        self._timeout = timeout
        self._registered: list[tuple[str | os.PathLike[str] | None, str]] = []
        self._sources: list[_Source] = []
        self._buffers: list[_Buffer] = []

    def register_teacher(
        self,
        in_path: str | os.PathLike[str] | None = None,
        in_address: str | None = None,
    ) -> int:
        """Add a teacher: of files, or of another process.

        Args:
            in_path: Its out_path.
            in_address: ``HOST:PORT``, with its out_port.

        Returns:
            Its number, the first being 0.

        Raises:
            InvalidArgumentError: If there is not exactly one of the two.
        """
        if (in_path is None) == (in_address is None):
            raise InvalidArgumentError(
                "[Student.register_teacher] expected in_path or in_address, got "
                f"{in_path!r} and {in_address!r}"
            )
        self._registered.append((in_path, in_address or ""))
        return len(self._registered) - 1

    def start(self) -> None:
        """Connect to all teachers.

        Raises:
            PreconditionNotMetError: If none was registered, or files are unfinished.
            NotFoundError: If a teacher did not appear in time.
            InvalidArgumentError: If teachers have knowledge of the same name without a
                merge_strategy, or of different shapes.
        """
        if not self._registered:
            raise PreconditionNotMetError(
                "[Student.start] expected at least one registered teacher, got none"
            )
        self._sources = [
            _Offline(path) if path is not None else _Online(address, self._timeout)
            for path, address in self._registered
        ]
        self._check_descriptions()
        self._buffers = [_Buffer(source) for source in self._sources]

    def _started(self, where: str) -> list[_Source]:
        if not self._sources:
            raise PreconditionNotMetError(
                f"[Student.{where}] expected a started student, got one before start()"
            )
        return self._sources

    def _online(self, where: str, teacher_id: int) -> _Online:
        sources = self._started(where)
        source = sources[teacher_id] if 0 <= teacher_id < len(sources) else None
        if not isinstance(source, _Online):
            raise InvalidArgumentError(
                f"[Student.{where}] expected the number of a teacher with in_address, "
                f"got {teacher_id}"
            )
        return source

    def send(self, data: Any, teacher_ids: Sequence[int] | None = None) -> None:
        """Send a message to teachers, all with in_address if None.

        Raises:
            InvalidArgumentError: If a teacher is one of files.
        """
        sources = self._started("send")
        online = [i for i, x in enumerate(sources) if isinstance(x, _Online)]
        for number in online if teacher_ids is None else teacher_ids:
            self._online("send", number).send(data)

    def recv(self, teacher_id: int) -> Any:
        """Wait for the next message of a teacher.

        Raises:
            InvalidArgumentError: If the teacher is one of files.
            UnavailableError: If none came in time.
        """
        return self._online("recv", teacher_id).receive()

    # -- knowledge ---------------------------------------------------------------------
    def get_knowledge_desc(self) -> Description:
        """Shape (-1 for the samples), dtype and lod_level of all knowledge, by name."""
        description: Description = {}
        for source in self._started("get_knowledge_desc"):
            description.update(source.description())
        return description

    def _check_descriptions(self) -> None:
        found: Description = {}
        for source in self._sources:
            for name, description in source.description().items():
                if name in found and name not in self._strategy:
                    raise InvalidArgumentError(
                        "[Student] expected a merge_strategy for knowledge that "
                        f"several teachers have, got none for {name!r}"
                    )
                if found.setdefault(name, description) != description:
                    raise InvalidArgumentError(
                        f"[Student] teachers must agree in {name!r}, got "
                        f"{found[name]} and {description}"
                    )

    def get_knowledge_qsize(self) -> int:
        """Teachers' batches that are there without waiting: of the teacher that has
        fewest.
        """
        return min(source.ready() for source in self._started("get_knowledge_qsize"))

    def get_knowledge_generator(
        self, batch_size: int, drop_last: bool = False
    ) -> Iterator[Knowledge]:
        """The knowledge of all teachers, in batches of any size.

        Args:
            batch_size: Samples of a batch, whatever the teachers' are.
            drop_last: Whether a last batch that is smaller is left out.

        Returns:
            An iterator over dictionaries of arrays. Knowledge can be read once.

        Raises:
            InvalidArgumentError: If batch_size is not positive, or samples of one name
                have several shapes.
            PreconditionNotMetError: If the student was not started, or a teacher ended
                before another.
            UnavailableError: If a teacher gave nothing in time.
        """
        self._started("get_knowledge_generator")
        if batch_size < 1:
            raise InvalidArgumentError(
                "[Student.get_knowledge_generator] batch_size must be positive, got "
                f"{batch_size}"
            )
        return self._merged(batch_size, drop_last)

    def _merged(self, batch_size: int, drop_last: bool) -> Iterator[Knowledge]:
        while True:
            parts = [buffer.take(batch_size) for buffer in self._buffers]
            counts = [0 if part is None else count(part) for part in parts]
            if len(set(counts)) > 1:
                totals = [buffer.taken for buffer in self._buffers]
                raise PreconditionNotMetError(
                    "[Student] teachers must have equally many samples, got "
                    f"{totals} when the first of them ended"
                )
            found = [part for part in parts if part is not None]
            if not found or (counts[0] < batch_size and drop_last):
                return
            yield self._merge(found)

    def _merge(self, parts: list[Knowledge]) -> Knowledge:
        results: dict[str, list[Any]] = {}
        for part in parts:
            for name, array in part.items():
                results.setdefault(name, []).append(array)
        return {name: self._one(name, arrays) for name, arrays in results.items()}

    def _one(self, name: str, arrays: list[Any]) -> Any:
        if len(arrays) == 1:
            return arrays[0]
        total = np.sum(arrays, axis=0, dtype=arrays[0].dtype)
        if self._strategy[name] == "sum":
            return total
        return (total / len(arrays)).astype(arrays[0].dtype)


class _Buffer:
    """Samples of one teacher that were read and not yet taken."""

    def __init__(self, source: _Source) -> None:
        self._description = source.description()
        self._batches = source.read()
        self._held: deque[Knowledge] = deque()
        self._count = 0
        self.taken = 0

    def take(self, wanted: int) -> Knowledge | None:
        """The next samples: as many as wanted or as there are; None at the end."""
        while self._count < wanted:
            batch = next(self._batches, None)
            if batch is None:
                break
            self._held.append(restored(batch, self._description))
            self._count += count(batch)
        if not self._count:
            return None
        parts, missing = [], min(wanted, self._count)
        while missing:
            first = self._held.popleft()
            size = count(first)
            if size > missing:
                self._held.appendleft(rows(first, missing, size))
                first, size = rows(first, 0, missing), missing
            parts.append(first)
            missing -= size
            self._count -= size
            self.taken += size
        return joined(parts)


class _Offline:
    """Knowledge of files."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._description = shards.read_description(path)
        self._left = sum(1 for _ in shards.batch_numbers(path))

    def description(self) -> Description:
        return self._description

    def read(self) -> Iterator[Knowledge]:
        for batch in shards.read_batches(self._path):
            self._left -= 1
            yield batch

    def ready(self) -> int:
        return self._left


class _Online:
    """Knowledge of another process, by its channels in turn."""

    def __init__(self, address: str, timeout: float) -> None:
        self._address, self._timeout = address, timeout
        self._channels = find_channels(address, timeout)
        self._ray = ray_module()
        self._description = self._wait(self._channels[0].description.remote())
        self._requested: deque[Any] = deque()
        self._next = 0

    def _wait(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference, timeout=self._timeout)
        except self._ray.exceptions.GetTimeoutError:
            raise UnavailableError(
                f"[Student] expected the teacher at {self._address} to answer within "
                f"{self._timeout:g} s, got nothing"
            ) from None
        except self._ray.exceptions.RayActorError as error:
            raise UnavailableError(
                f"[Student] the channel of the teacher at {self._address} was lost"
            ) from error

    def description(self) -> Description:
        found: Description = self._description
        return found

    def _request(self) -> None:
        while len(self._requested) < _AHEAD * len(self._channels):
            number, index = divmod(self._next, len(self._channels))
            self._requested.append(self._channels[index].get.remote(number))
            self._next += 1

    def read(self) -> Iterator[Knowledge]:
        while True:
            self._request()
            batch = self._wait(self._requested[0])
            if isinstance(batch, str) and batch == END:
                return
            self._requested.popleft()
            yield batch

    def ready(self) -> int:
        self._request()
        found, _ = self._ray.wait(
            list(self._requested), num_returns=len(self._requested), timeout=0
        )
        return len(found)

    def send(self, data: Any) -> None:
        self._wait(self._channels[0].send.remote("teacher", data))

    def receive(self) -> Any:
        return self._wait(self._channels[0].receive.remote("student"))
