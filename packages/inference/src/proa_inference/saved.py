"""Optimized models that loads with `Config.enable_save_optim_model` leave for later
ones.

A file's name says what it was made from: the path of the model, the passes, precision
and tuning of the config, the version of Proa and the CPU. So models in one folder,
configs and machines that share a cache each have a file of their own, and a model that
is trained again replaces its own. What may change under the same name, the model's
bytes, is compared by what the file's metadata says of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import proa
from proa.errors import Error
from proa.ir import file
from proa.runtime import Engine, load_engine, machine
from proa_inference.config import Config

#: Key of the metadata: the model's bytes and the config.
ORIGIN = "optimized_from"
_SUFFIX = ".optimized.proa"


def saved_path(config: Config) -> Path:
    """The file that a load with this config writes, and later loads read."""
    model = config.prog_file()
    folder = Path(config.optim_cache_dir() or (Path(model).parent if model else "."))
    stem = Path(model).stem if model else "model"
    return folder / f"{stem}.{_hash(_conditions(config))[:16]}{_SUFFIX}"


def saved_origin(config: Config) -> str:
    """What a saved model was made of; empty unless that is a file of ours.

    The file's content is not hashed, as the 34 ms that this takes for BERT-base are a
    sixth of what a saved model takes to load. It is known by its inode, its times, of
    which no program sets the inode's, and the checksum of all bytes in its head.
    """
    if not config.reads_by_itself():
        return ""
    path = Path(config.prog_file()).resolve()
    facts = path.stat()
    return _hash(
        {
            "conditions": _conditions(config),
            "file": [facts.st_size, facts.st_ino],
            "times": [facts.st_mtime_ns, facts.st_ctime_ns],
            "checksum": file.stated_checksum(path),
        }
    )


def saved_engine(config: Config, origin: str) -> Engine | None:
    """The engine of what an earlier load saved, if it is of this file and config."""
    path = saved_path(config)
    if not origin or not path.is_file():
        return None
    try:
        engine = load_engine(path, config.cpu_math_library_num_threads())
    except Error:  # damaged: it is written again
        return None
    return engine if engine.metadata.get(ORIGIN) == origin else None


def _conditions(config: Config) -> dict[str, Any]:
    model = config.prog_file()
    tuning = None
    if config.tuning_enabled():
        shapes = {k: list(v) for k, v in config.tuning_shapes().items()}
        tuning = [shapes, config.cpu_math_library_num_threads()]
    return {
        "model": os.fspath(Path(model).resolve()) if model else "",
        "proa": str(proa.__version__),
        "machine": machine(),
        "passes": config.pass_builder().all_passes() if config.ir_optim() else None,
        "bf16": sorted(config.bf16_exceptions()) if config.bf16_enabled() else None,
        "tuning": tuning,
    }


def _hash(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
