"""An interpreter that has the wheel `paddlepaddle`, and what it makes of models."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent


def interpreters() -> list[str]:
    """Their paths: this one, or those that the environment's PROA_PADDLE_PYTHON names.

    There may be several, with versions of the wheel, separated as in PATH; the first
    makes references.
    """
    named = os.environ.get("PROA_PADDLE_PYTHON")
    if named:
        return named.split(os.pathsep)
    spec = importlib.util.find_spec("paddle")
    if spec is None or spec.origin is None:
        pytest.skip("the wheel paddlepaddle is not installed")
    return [sys.executable]


def run(script: str, *arguments: str, python: str | None = None) -> None:
    """Run a script of this folder in a process of its own."""
    done = subprocess.run(
        [python or interpreters()[0], str(HERE / script), *arguments],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "FLAGS_enable_pir_api": "0"},  # the programs of Paddle 2.x
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def outputs_of(
    prefix: Path, inputs: list[Any], folder: Path, python: str | None = None
) -> list[Any]:
    """What PaddlePaddle's predictor computes by a model."""
    given, result = folder / "given.npz", folder / "made.npz"
    np.savez(given, *inputs)
    run("predict.py", str(prefix), str(given), str(result), python=python)
    with np.load(result) as arrays:
        return [arrays[name] for name in arrays.files]


def model_folder(package: str, *parts: str) -> Path:
    """A folder of a package that is installed as files alone, or a test skipped."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the wheel of {package} is not installed")
    return Path(next(iter(spec.submodule_search_locations)), *parts)
