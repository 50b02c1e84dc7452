"""The side that computes knowledge."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa_slim.pantheon.channel import open_channels, ray_module
from proa_slim.pantheon.knowledge import describe, halved, size
from proa_slim.pantheon.prediction import batches, predictor
from proa_slim.pantheon.shards import ShardWriter


class Teacher:
    """Computes knowledge and writes it to files, sends it to a student, or both.

        teacher = Teacher(out_port=8080)
        teacher.start()
        teacher.start_knowledge_service(
            feed_list=[0], schema={"logits": ""}, program=network,
            reader_config={"sample_generator": samples, "batch_size": 64})

    Args:
        out_path: Folder of the knowledge, for a student that comes later.
        out_port: Where a student finds this teacher: a number that no other teacher of
            this machine has. The student's `in_address` is ``HOST:PORT`` with the
            machine's address in the Ray cluster.
        channels: Actors that batches go through by turns; more hide latency.
        resume: Go on where a killed teacher of the same port or path was: batches that
            were taken are not computed again. The reader must give the same batches.

    Raises:
        InvalidArgumentError: If there is neither a path nor a port, or no channel.
    """

    def __init__(
        self,
        out_path: str | os.PathLike[str] | None = None,
        out_port: int | None = None,
        *,
        channels: int = 1,
        resume: bool = False,
    ) -> None:
        if out_path is None and out_port is None:
            raise InvalidArgumentError(
                "[Teacher] expected out_path, out_port or both, got neither"
            )
        if channels < 1:
            raise InvalidArgumentError(
                f"[Teacher] channels must be at least 1, got {channels}"
            )
        self._path, self._port = out_path, out_port
        self._count, self._resume = channels, resume
        self._channels: list[Any] = []
        self._writer: ShardWriter | None = None
        self._started = False
        #: Bytes of the arrays that were sent to the student.
        self.bytes_sent = 0

    def start(self, buf_size: int = 10) -> None:
        """Open the path and the port.

        Args:
            buf_size: Batches that each channel holds before the teacher waits.

        Raises:
            AlreadyExistsError: If the path has knowledge, or the port is in use, and
                `resume` is false.
            UnavailableError: If Ray, or safetensors for files, is not installed.
        """
        if self._path is not None:
            self._writer = ShardWriter(self._path, self._resume)
        if self._port is not None:
            self._channels = open_channels(
                self._port, self._count, buf_size, self._resume
            )
        self._started = True

    @property
    def bytes_written(self) -> int:
        """Bytes of the files that were written."""
        return 0 if self._writer is None else self._writer.bytes_written

    def _first_channel(self, where: str) -> Any:
        if not self._channels:
            raise PreconditionNotMetError(
                f"[Teacher.{where}] expected a teacher with out_port that was started, "
                "got one without channels"
            )
        return self._channels[0]

    def send(self, data: Any) -> None:
        """Send a message to the student, which `Student.recv` returns.

        Raises:
            PreconditionNotMetError: If there is no channel.
        """
        channel = self._first_channel("send")
        ray_module().get(channel.send.remote("student", data))

    def recv(self) -> Any:
        """Wait for the next message of `Student.send`.

        Raises:
            PreconditionNotMetError: If there is no channel.
        """
        channel = self._first_channel("recv")
        return ray_module().get(channel.receive.remote("teacher"))

    def start_knowledge_service(
        self,
        feed_list: Sequence[Any],
        schema: Mapping[str, Any],
        program: Any,
        reader_config: Mapping[str, Any],
        exe: Any = None,
        buf_size: int = 10,
        use_fp16: bool = False,
        times: int = 1,
    ) -> None:
        """Compute the knowledge of every batch; returns when all of it was taken.

        Args:
            feed_list: Variables or names that the program is fed, in the order of the
                reader's arrays; of a Layer, positions of its inputs in the reader's
                tuples.
            schema: Names of knowledge -> Variables of the program or their names; of a
                Layer, paths of layers, "" for the network itself.
            program: A static Program for tests, or a Layer.
            reader_config: One of ``sample_generator`` with ``batch_size`` and perhaps
                ``drop_last``, ``sample_list_generator``, and ``batch_generator``:
                functions that return iterators.
            exe: The Executor of a program.
            buf_size: Kept for callers; `start` sets it.
            use_fp16: Whether float32 knowledge is sent and stored as float16.
            times: Passes over the reader.

        Raises:
            PreconditionNotMetError: If the teacher was not started, or the reader gave
                no batch.
            InvalidArgumentError: If knowledge has not one row for each sample, or a
                value beyond float16, or the reader's description is wrong.
        """
        if not self._started:
            raise PreconditionNotMetError(
                "[Teacher.start_knowledge_service] expected a started teacher, got one "
                "before start()"
            )
        run = predictor(feed_list, schema, program, exe)
        progress = _Progress(self._channels, self._writer)
        described = None
        number = 0
        for _ in range(times):
            for arrays in batches(reader_config):
                if described is None or not progress.has(number):
                    knowledge = run(arrays)
                    if described is None:
                        described = describe(knowledge)
                        progress.describe(described)
                    block = halved(knowledge) if use_fp16 else knowledge
                    self.bytes_sent += progress.put(number, block)
                number += 1
        if described is None:
            raise PreconditionNotMetError(
                "[Teacher.start_knowledge_service] expected a reader that gives at "
                "least one batch, got none"
            )
        progress.finish(described)


class _Progress:
    """What each output has taken: of n channels, channel c takes batches c, c + n, ..

    Args:
        channels: Actors, perhaps none.
        writer: Writes files, if any.
    """

    def __init__(self, channels: list[Any], writer: ShardWriter | None) -> None:
        self._channels, self._writer = channels, writer
        self._ray = ray_module() if channels else None
        taken = [channel.accepted.remote() for channel in channels]
        self._taken = self._ray.get(taken) if self._ray else []
        self._written = 0 if writer is None else writer.accepted
        #: For each channel, the put that is in progress.
        self._pending: dict[int, Any] = {}

    def _sent(self, number: int) -> bool:
        count = len(self._channels)
        return count == 0 or number // count < self._taken[number % count]

    def _is_written(self, number: int) -> bool:
        return self._writer is None or number < self._written

    def has(self, number: int) -> bool:
        """Whether every output has the batch from before."""
        return self._sent(number) and self._is_written(number)

    def describe(self, description: Any) -> None:
        for channel in self._channels:
            channel.describe.remote(description)

    def put(self, number: int, block: Any) -> int:
        """Give a batch to the outputs that lack it; returns the bytes sent."""
        if self._writer is not None and not self._is_written(number):
            self._writer.put(block)
        if self._ray is None or self._sent(number):
            return 0
        count = len(self._channels)
        index = number % count
        if index in self._pending:
            self._ray.get(self._pending[index])
        channel = self._channels[index]
        self._pending[index] = channel.put.remote(number // count, block)
        return size(block)

    def finish(self, description: Any) -> None:
        """Wait until everything was taken, and say so."""
        if self._writer is not None:
            self._writer.close(description)
        if self._ray is not None:
            self._ray.get(list(self._pending.values()))
            self._ray.get([channel.end.remote() for channel in self._channels])
