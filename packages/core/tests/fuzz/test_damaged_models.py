"""Damaged ONNX and Paddle models, as `damaged_models` makes many more."""

from __future__ import annotations

import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("google.protobuf")

from .damaged_models import damaged, onnx_models, paddle_models, read


@pytest.mark.fuzz
@pytest.mark.parametrize("models", [onnx_models, paddle_models])
def test_damaged_models_end_in_errors_of_proa(models: object, tmp_path: Path) -> None:
    assert callable(models)
    found = list(islice(models(), 0, None, 9))
    rng = np.random.default_rng(5)
    for first, second in zip(found, [*found[1:], found[0]], strict=True):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            read(damaged(first, second, rng), tmp_path / "m.proa")
