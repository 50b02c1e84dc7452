"""A table of blocks' times, measured by ``proa-infer bench``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from os import PathLike

import proa
from proa.errors import InvalidArgumentError
from proa.static import InputSpec
from proa_slim.analysis.times import TimesFile, bench
from proa_slim.search.blocks import Block, Network, sized
from proa_slim.search.space import ChoiceSpace


class LatencyTable:
    """Milliseconds of blocks, measured once and kept in a file.

        table = LatencyTable("latency.json")
        shape = [None, 3, 224, 224]
        table.measure(space, shape)
        fast = lambda tokens: table.predict(space, tokens, shape) < 8
        search = Search(space, constraint=fast)

    A network's time is the sum of its blocks'. The file is replaced in one step after
    each measurement, so that one that was stopped continues.

    Args:
        path: A JSON file; None keeps the table in memory.
        threads: Number of threads of a run.
        runs: Number of runs, of which the median counts.

    Raises:
        InvalidArgumentError: If the file is no table, or of another processor or number
            of threads.
    """

    def __init__(
        self, path: str | PathLike[str] | None = None, threads: int = 1, runs: int = 50
    ) -> None:
        self.threads, self.runs = threads, runs
        self._file = TimesFile("LatencyTable", path, threads)
        #: Milliseconds by block and size of its input: ``conv 3>8 k3 s2 e1 @ 224``.
        self.times = self._file.times

    def measure(
        self,
        space: ChoiceSpace,
        shape: Sequence[int | None],
        architectures: Sequence[Sequence[int]] | None = None,
        progress: bool = False,
    ) -> dict[str, float]:
        """Measure the blocks that are not in the table yet.

        Args:
            space: With a plan of blocks.
            shape: Shape of the input: (N or None, C, H, W), H = W.
            architectures: Tokens whose blocks are measured; of all neighbours of the
                space's first architecture if not given, which has each option once.
            progress: Whether each measurement writes a line to standard error.

        Returns:
            The table.
        """
        wanted: dict[str, tuple[Block, int]] = {}
        for tokens in _neighbours(space) if architectures is None else architectures:
            wanted.update(self._blocks(space, tokens, shape))
        new = {key: block for key, block in wanted.items() if key not in self.times}
        for count, (key, (block, size)) in enumerate(new.items(), 1):
            self._file.note(key, self._time(block, size))
            if progress:
                line = f"[latency] {count}/{len(new)} {key}: {self.times[key]:.4f} ms"
                print(line, file=sys.stderr, flush=True)
        return self.times

    def predict(
        self, space: ChoiceSpace, tokens: Sequence[int], shape: Sequence[int | None]
    ) -> float:
        """Milliseconds of an architecture: the sum of its blocks'. Blocks that are not
        in the table are measured first.
        """
        blocks = self._blocks(space, tokens, shape)
        if any(key not in self.times for key in blocks):
            self.measure(space, shape, [tokens])
        plan = [b for b in space.plan(tokens) if b is not None]
        return sum(
            self.times[_key(block, size)]
            for block, size in sized(plan, _height(shape))
            if block.kind != "identity"
        )

    def _blocks(
        self, space: ChoiceSpace, tokens: Sequence[int], shape: Sequence[int | None]
    ) -> dict[str, tuple[Block, int]]:
        plan = [b for b in space.plan(tokens) if b is not None]
        return {
            _key(block, size): (block, size)
            for block, size in sized(plan, _height(shape))
            if block.kind != "identity"
        }

    def _time(self, block: Block, size: int) -> float:
        spec = [InputSpec([1, block.in_channels, size, size], "float32", "x")]
        network = Network([block])
        network.eval()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "block.proa")
            proa.jit.save(network, path, spec)
            return bench(path, threads=self.threads, runs=self.runs)


def _key(block: Block, size: int) -> str:
    return f"{block} @ {size}"


def _height(shape: Sequence[int | None]) -> int:
    if len(shape) != 4 or shape[2] is None or shape[2] != shape[3]:
        raise InvalidArgumentError(
            f"[LatencyTable] expected a shape (N, C, H, W) of square images, got "
            f"{list(shape)}"
        )
    return shape[2]


def _neighbours(space: ChoiceSpace) -> list[list[int]]:
    first = space.init_tokens()
    found = [first]
    for i, count in enumerate(space.range_table()):
        for value in range(count):
            found.append([*first[:i], value, *first[i + 1 :]])
    return found
