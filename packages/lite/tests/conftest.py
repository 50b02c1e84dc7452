"""Models of the tests with what NumPy says they compute (see models/make.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from proa_lite import Config, Predictor, TensorSpec, create_predictor

MODELS = Path(__file__).parent / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.proa"))
BATCH = 3


@dataclass
class Recorded:
    """A model file, one set of inputs, and the outputs that belong to them."""

    name: str
    path: Path
    inputs: list[NDArray[Any]]
    outputs: list[NDArray[Any]]

    def predictor(self) -> Predictor:
        return create_predictor(Config(self.path))


def _arrays(path: Path, specs: list[TensorSpec]) -> list[NDArray[Any]]:
    raw, arrays = path.read_bytes(), []
    for spec in specs:
        shape = tuple(BATCH if d < 0 else d for d in spec.shape)
        size = int(np.prod(shape)) * spec.dtype.itemsize
        arrays.append(np.frombuffer(raw[:size], spec.dtype).reshape(shape))
        raw = raw[size:]
    assert not raw
    return arrays


def recorded(name: str) -> Recorded:
    predictor = create_predictor(Config(MODELS / f"{name}.proa"))
    return Recorded(
        name,
        MODELS / f"{name}.proa",
        _arrays(MODELS / f"{name}.in", predictor.get_input_specs()),
        _arrays(MODELS / f"{name}.out", predictor.get_output_specs()),
    )


@pytest.fixture(params=NAMES)
def any_model(request: pytest.FixtureRequest) -> Recorded:
    return recorded(request.param)


@pytest.fixture
def mlp() -> Recorded:
    return recorded("mlp")


@pytest.fixture
def models() -> Path:
    """The folder of the model files."""
    return MODELS


@pytest.fixture(name="recorded")
def recorded_fixture() -> Callable[[str], Recorded]:
    """Reads a model's record by its name."""
    return recorded
