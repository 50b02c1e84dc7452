"""The model that most tests load."""

from pathlib import Path

import pytest
from inference_models import write_mlp


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mlp(tmp_path_factory.mktemp("models") / "mlp.proa")
