"""The trained network of the accuracy goals."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from fashion_network import SEEDS, Trained, trained


@pytest.fixture(scope="session", params=SEEDS)
def fashion(request: pytest.FixtureRequest) -> Trained:
    """A network trained with one of the seeds."""
    folder = os.environ.get("PROA_DATA_HOME") or tempfile.mkdtemp()
    return trained(request.param, Path(folder))
