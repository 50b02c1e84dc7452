"""A table of blocks' times, measured by ``proa-infer bench``."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import proa
from proa.errors import InvalidArgumentError, PreconditionNotMetError, UnavailableError
from proa.static import InputSpec
from proa_slim.search.blocks import Block, Network, sized
from proa_slim.search.space import ChoiceSpace

_FORMAT = "proa-latency-1"


def bench(
    model: str | PathLike[str],
    batch: int = 1,
    threads: int = 1,
    runs: int = 50,
    shapes: Sequence[str] = (),
) -> float:
    """Milliseconds of a run of a model file on random input: the median that
    ``proa-infer bench`` measures in a process of its own.

    Args:
        model: The file.
        batch: The first size of inputs where it is symbolic.
        threads: Number of threads of a run.
        runs: Number of runs, of which the median counts.
        shapes: ``NAME=1,3,224,224`` for inputs with other symbolic sizes.

    Raises:
        UnavailableError: If proa-inference is not installed.
        PreconditionNotMetError: If the model cannot be run; it has the command's words.
    """
    command = [sys.executable, "-m", "proa_inference.cli", "bench", os.fspath(model)]
    command += ["--batch", str(batch), "--threads", str(threads), "--runs", str(runs)]
    for shape in shapes:
        command += ["--shape", shape]
    done = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        if "No module named" in done.stderr:
            raise UnavailableError(
                "[bench] expected proa-inference to be installed: pip install "
                "proa-inference"
            )
        raise PreconditionNotMetError(
            f"[bench] expected a model that runs, got: {done.stderr.strip()}"
        )
    return float(json.loads(done.stdout)["p50_ms"])


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
        self.path = None if path is None else Path(path)
        self.threads, self.runs = threads, runs
        self.cpu = _cpu()
        #: Milliseconds by block and size of its input: ``conv 3>8 k3 s2 e1 @ 224``.
        self.times: dict[str, float] = {}
        if self.path is not None and self.path.exists():
            self._read(self.path)

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
            self.times[key] = self._time(block, size)
            self._write()
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

    def _read(self, path: Path) -> None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError
            times = {str(k): float(v) for k, v in content["milliseconds"].items()}
            made = (content["cpu"], content["threads"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InvalidArgumentError(
                f"[LatencyTable] expected a table that was written by measure, got "
                f"{path}"
            ) from None
        if made != (self.cpu, self.threads):
            raise InvalidArgumentError(
                f"[LatencyTable] expected times of {self.cpu!r} with {self.threads} "
                f"threads in {path}, got those of {made[0]!r} with {made[1]}"
            )
        self.times = times

    def _write(self) -> None:
        if self.path is None:
            return
        content = {
            "format": _FORMAT,
            "cpu": self.cpu,
            "threads": self.threads,
            "milliseconds": self.times,
        }
        partial = self.path.with_name(f"{self.path.name}.partial")
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
        os.replace(partial, self.path)


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


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
