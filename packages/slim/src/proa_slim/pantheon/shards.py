"""Knowledge in files: a folder of safetensors shards, and an index when complete."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proa.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    PreconditionNotMetError,
    UnavailableError,
)
from proa_slim.pantheon.knowledge import Description, Knowledge, size

_INDEX = "index.json"
#: A shard is written when it has so many bytes or batches.
_SHARD_BYTES, _SHARD_BATCHES = 64 << 20, 256


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise UnavailableError(
            "[pantheon] files of knowledge need `safetensors`, which `pip install "
            "proa-slim[pantheon]` brings, got none"
        ) from None
    return safetensors


class ShardWriter:
    """Writes batches to a folder, shard by shard, each in one step.

    Args:
        folder: Made if need be.
        resume: Whether to go on after the shards that are there.

    Raises:
        AlreadyExistsError: If there are shards and `resume` is false.
    """

    def __init__(self, folder: str | os.PathLike[str], resume: bool) -> None:
        self._library = _safetensors()
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        known = _shards(self._folder)
        if known and not resume:
            raise AlreadyExistsError(
                f"[Teacher] out_path must be a folder without knowledge, got {folder}, "
                f"which has {len(known)} files; resume=True continues after them"
            )
        self._number = len(known)
        #: Batches in finished shards.
        self.accepted = sum(_batches(self._library, path) for path in known)
        self._held: list[Knowledge] = []
        self.bytes_written = 0

    def put(self, batch: Knowledge) -> None:
        """Add a batch."""
        self._held.append(batch)
        enough = sum(map(size, self._held)) >= _SHARD_BYTES
        if enough or len(self._held) >= _SHARD_BATCHES:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if not self._held:
            return
        arrays = {f"{i}/{n}": a for i, b in enumerate(self._held) for n, a in b.items()}
        noted = {"batches": str(len(self._held))}
        path = self._folder / f"{self._number:06d}.safetensors"
        content = self._library.numpy.save(arrays, noted)
        _write(path, content)
        self.bytes_written += len(content)
        self._number += 1
        self._held = []

    def close(self, description: Description) -> None:
        """Write the rest, and the index that says that all is there."""
        self.flush()
        index = {"shards": self._number, "description": description}
        _write(self._folder / _INDEX, json.dumps(index, indent=1).encode())


def _write(path: Path, content: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(content)
    os.replace(part, path)


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _batches(library: Any, path: Path) -> int:
    with library.safe_open(path, "numpy") as opened:
        return int(opened.metadata()["batches"])


def read_description(folder: str | os.PathLike[str]) -> Description:
    """What the knowledge in a folder looks like.

    Raises:
        NotFoundError: If there is no such folder.
        PreconditionNotMetError: If its teacher has not finished.
    """
    return _index(folder)["description"]  # type: ignore[no-any-return]


def _index(folder: str | os.PathLike[str]) -> dict[str, Any]:
    path = Path(folder)
    if not path.is_dir():
        raise NotFoundError(f"[Student] in_path must be a folder, got {folder}")
    if not (path / _INDEX).is_file():
        raise PreconditionNotMetError(
            f"[Student] in_path must have what a teacher finished, got {folder} with "
            f"{len(_shards(path))} files and no {_INDEX}"
        )
    index: dict[str, Any] = json.loads((path / _INDEX).read_text(encoding="utf-8"))
    return index


def read_batches(folder: str | os.PathLike[str]) -> Iterator[Knowledge]:
    """The batches of a folder, in order.

    Raises:
        InvalidArgumentError: If a shard is missing.
        NotFoundError, PreconditionNotMetError: As `read_description`.
    """
    library, found = _safetensors(), _shards(Path(folder))
    wanted = int(_index(folder)["shards"])
    if len(found) != wanted:
        raise InvalidArgumentError(
            f"[Student] expected {wanted} files of knowledge in {folder}, got "
            f"{len(found)}"
        )
    for path in found:
        with library.safe_open(path, "numpy") as opened:
            keys = list(opened.keys())
            names = sorted({key.partition("/")[2] for key in keys})
            for i in range(int(opened.metadata()["batches"])):
                yield {name: opened.get_tensor(f"{i}/{name}") for name in names}


def batch_numbers(folder: str | os.PathLike[str]) -> Iterator[int]:
    """The numbers of the batches of a folder, without reading them."""
    library, number = _safetensors(), 0
    for path in _shards(Path(folder)):
        for _ in range(_batches(library, path)):
            yield number
            number += 1
