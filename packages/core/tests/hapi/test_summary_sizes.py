"""The sizes that `summary` takes."""

from __future__ import annotations

from typing import Any

import pytest

import proa
from proa import nn
from proa.static import InputSpec


@pytest.mark.parametrize(
    "size",
    [(None, 3), (-1, 3), (1, 3), [(-1, 3)], InputSpec([None, 3]), [InputSpec([-1, 3])]],
)
def test_an_unknown_batch_counts_as_one(
    size: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert proa.summary(nn.Linear(3, 4), size) == {
        "total_params": 16,
        "trainable_params": 16,
    }
    (row,) = (r for r in capsys.readouterr().out.splitlines() if "Linear-1" in r)
    assert row.split("  ")[0] == "" and "[[1, 3]]" in row and "[1, 4]" in row


@pytest.mark.parametrize(
    ("size", "error"),
    [
        ((None, -1, 3), ValueError),
        ((0, 3), ValueError),
        ((-2, 3), ValueError),
        (("a", 3), TypeError),
        ((1.5, 3), TypeError),
        ("ab", TypeError),
    ],
)
def test_sizes_that_mean_nothing_are_refused(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="summary"):
        proa.summary(nn.Linear(3, 4), size)
