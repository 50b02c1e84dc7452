"""Programs of 1.x, rewritten and run, give what paddlepaddle 1.8.5 gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from . import fluid_cases
from .programs import migrated

pytest.importorskip("libcst")

EXPECTED = json.loads(Path(__file__).with_name("paddle_1_8.json").read_text())


@pytest.mark.feature("L167")
@pytest.mark.parametrize("name", fluid_cases.CASES)
def test_a_program_gives_what_it_gave(name: str) -> None:
    _, feed, steps = fluid_cases.CASES[name]
    with migrated(fluid_cases.source(name)) as names:
        found = names["run"](feed, steps)
    assert len(found) == len(EXPECTED[name])
    for i, (tensor, (shape, lengths, flat)) in enumerate(
        zip(found, EXPECTED[name], strict=True)
    ):
        wanted: Any = np.asarray(flat).reshape(shape)
        array = tensor.numpy()
        if array.size or wanted.size:  # an empty one has no shape in 1.8
            assert list(array.shape) in (shape, [] if shape == [1] else shape), i
        own = getattr(tensor, "recursive_sequence_lengths", list)()
        assert own == lengths or not (own and lengths), i
        np.testing.assert_allclose(
            array.reshape(wanted.shape), wanted, rtol=2e-4, atol=2e-5, err_msg=str(i)
        )
