"""Checkpoints: ``X.pdparams`` with ``X.pdopt``, which are written and read as one unit.

Both files are state dicts as `proa.save` writes them. Besides its tensors each has, in
the metadata, the identity of the checkpoint; the parameters' also how far training was.
The optimizer's file is renamed into place first: where the parameters of a new
checkpoint are, it is complete. A process killed between the two renames leaves files
of two checkpoints; reading them then finishes the second rename.
"""

from __future__ import annotations

import json
import os
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proa.base import files, safetensors
from proa.errors import (
    Error,
    InvalidArgumentError,
    MissingFileError,
    PreconditionNotMetError,
)
from proa.interop.saving import parse
from proa.tensor.saving import pack

_KEY = "proa.checkpoint"
_PARAMETERS, _OPTIMIZER = ".pdparams", ".pdopt"


@dataclass
class Progress:
    """How far training was.

    Attributes:
        epoch: The last whole epoch, counted from 0; None within an epoch.
        random: State of the default generator.
        scaler: State of the GradScaler.
        names: Names of the parameters by those in the network's state dict.
        optimizer: Whether the checkpoint has an optimizer's state.
        identity: Shared by the files of one checkpoint.
    """

    epoch: int | None = None
    random: tuple[int, int] | None = None
    scaler: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    optimizer: bool = False
    identity: str = ""

    def next_epoch(self, path: str) -> int:
        """The first epoch that is still to be trained."""
        if self.epoch is None:
            raise InvalidArgumentError(
                "[Model.fit] expected a checkpoint of a whole epoch, as fit writes "
                f"them, to resume from, got {path!r}"
            )
        return self.epoch + 1

    def renamed(
        self, optimizer: Mapping[str, Any], network: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The optimizer's state for parameters that have other names now.

        Its keys are ``PARAMETER_SLOT_0``.

        Args:
            optimizer: Its state dict.
            network: The network's state dict now.
        """
        now = {self.names[k]: t.name for k, t in network.items() if k in self.names}
        result: dict[str, Any] = {}
        for key, value in optimizer.items():
            if key == "master_weights":
                result[key] = {now.get(k, k): v for k, v in value.items()}
                continue
            owner = key
            while owner and owner not in now:
                owner = owner.rpartition("_")[0]
            result[now.get(owner, "") + key[len(owner) :]] = value
        return result


def write(
    path: str,
    parameters: Mapping[str, Any],
    optimizer: Mapping[str, Any] | None,
    progress: Progress,
) -> None:
    """Write ``path.pdparams`` and, where there is an optimizer, ``path.pdopt``."""
    progress.identity, progress.optimizer = secrets.token_hex(16), optimizer is not None
    progress.names = {key: value.name for key, value in parameters.items()}
    identity = {"identity": progress.identity}
    parts = [(f"{path}{_PARAMETERS}", parameters, asdict(progress))]
    if optimizer is not None:
        parts.insert(0, (f"{path}{_OPTIMIZER}", optimizer, identity))
    replacements = []
    for name, state, about in parts:
        tensors, metadata = pack(dict(state))
        metadata[_KEY] = json.dumps(about)
        replacements.append(
            files.Replacement(name, safetensors.chunks(tensors, metadata))
        )
    files.replace_all(replacements, where="Model.save")


def read(
    path: str, *, optimizer: bool
) -> tuple[dict[str, Any], dict[str, Any] | None, Progress]:
    """The states of network and optimizer, and how far training was.

    The optimizer's state is None if it is not requested or missing, which warns.

    Raises:
        MissingFileError: If there are no parameters.
        PreconditionNotMetError: If the two files are of different checkpoints.
    """
    name = f"{path}{_PARAMETERS}"
    data = files.read(name, where="Model.load")
    parameters, progress = parse(data, name), _progress(data, name)
    if not optimizer:
        return parameters, None, progress
    name = f"{path}{_OPTIMIZER}"
    try:
        data = files.read(name, where="Model.load")
    except MissingFileError:
        warnings.warn(
            f"[Model.load] expected the optimizer's state in {name}, got no such file; "
            "the optimizer starts from scratch",
            stacklevel=3,
        )
        return parameters, None, progress
    other = _progress(data, name).identity
    if other != progress.identity:
        if _finish(path, other):
            return read(path, optimizer=True)
        raise PreconditionNotMetError(
            f"[Model.load] expected {path}{_PARAMETERS} and {name} of one checkpoint, "
            "got those of two; Model.load(path, reset_optimizer=True) takes the "
            "parameters alone"
        )
    return parameters, parse(data, name), progress


def found(resume: bool | str, save_dir: str | None) -> str | None:
    """The checkpoint that ``Model.fit(resume=…)`` means; None to start from scratch."""
    if resume is not True:
        return resume or None
    if save_dir is None:
        raise InvalidArgumentError(
            "[Model.fit] expected save_dir with resume=True, got None"
        )
    return latest_checkpoint(save_dir)


def latest_checkpoint(save_dir: str | os.PathLike[str]) -> str | None:
    """The path, without suffix, of the latest complete checkpoint in a directory.

    That is the one after the most epochs, of those that `Model.fit` wrote: of a
    checkpoint with an optimizer both files are there. None if there is none.
    """
    found: list[tuple[int, int, str]] = []
    for path in sorted(Path(save_dir).glob(f"*{_PARAMETERS}")):
        stem = os.fspath(path).removesuffix(_PARAMETERS)
        epoch = _complete_epoch(stem)
        if epoch is not None:
            found.append((epoch, path.stat().st_mtime_ns, stem))
    return max(found)[2] if found else None


def remove_older(save_dir: str | os.PathLike[str], epoch: int, keep: int) -> None:
    """Remove the checkpoints of all but the last `keep` epochs up to this one."""
    stems = {
        path.stem
        for suffix in (_PARAMETERS, _OPTIMIZER)
        for path in Path(save_dir).glob(f"*{suffix}")
    }
    epochs = sorted(int(s) for s in stems if s.isdecimal() and int(s) <= epoch)
    for old in epochs[:-keep]:
        # Parameters first: what is left of a checkpoint is never taken for one.
        for suffix in (_PARAMETERS, _OPTIMIZER):
            Path(save_dir, f"{old}{suffix}").unlink(missing_ok=True)


def _complete_epoch(stem: str) -> int | None:
    try:
        progress = _progress_of_file(f"{stem}{_PARAMETERS}")
        if progress.optimizer:
            other = _progress_of_file(f"{stem}{_OPTIMIZER}").identity
            if other != progress.identity:
                return _complete_epoch(stem) if _finish(stem, other) else None
    except Error:
        return None
    return progress.epoch


def _finish(stem: str, identity: str) -> bool:
    """Put the parameters of this identity into place if a killed process did not."""

    def accept(part: Path) -> bool:
        try:
            return bool(identity) and (
                _progress_of_file(os.fspath(part)).identity == identity
            )
        except Error:
            return False

    return files.finish_replacement(f"{stem}{_PARAMETERS}", accept)


def _progress_of_file(name: str) -> Progress:
    return _from_metadata(safetensors.read_metadata(name), name)


def _progress(data: memoryview, name: str) -> Progress:
    return _from_metadata(safetensors.parse(data, name).metadata, name)


def _from_metadata(metadata: Mapping[str, str], name: str) -> Progress:
    try:
        progress = Progress(**json.loads(metadata.get(_KEY, "{}")))
        if progress.random is not None:
            seed, offset = progress.random
            progress.random = int(seed), int(offset)
    except (ValueError, TypeError, RecursionError):
        progress = Progress(identity="damaged", epoch=-1)
    kinds = {"scaler": dict, "names": dict, "optimizer": bool, "identity": str}
    sound = all(isinstance(getattr(progress, k), kind) for k, kind in kinds.items())
    if not sound or not (progress.epoch is None or _is_count(progress.epoch)):
        raise InvalidArgumentError(
            f"[Model.load] expected {name} to say which checkpoint it is of, got "
            "damaged metadata"
        )
    return progress


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0
