"""What a one-shot search costs and finds, against networks trained one by one."""

import os
from pathlib import Path

import pytest
from search_figures import one_shot

pytestmark = pytest.mark.full


@pytest.mark.feature("L482", how="figure")
def test_one_shot_is_ten_times_cheaper_than_training_each(tmp_path):
    found = one_shot(Path(os.environ.get("PROA_DATA_HOME") or tmp_path))
    # Seconds of processor time, both in this process: neither waits for others.
    assert found["ratio"] >= 10
    assert found["better"] < 0.05
