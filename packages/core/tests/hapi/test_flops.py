"""flops: PaddlePaddle's documented figure, counts by hand, custom counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError


def lenet() -> nn.Layer:
    return nn.Sequential(
        nn.Conv2D(1, 6, 3, stride=1, padding=1), nn.ReLU(), nn.MaxPool2D(2, 2),
        nn.Conv2D(6, 16, 5), nn.LeakyReLU(), nn.MaxPool2D(2, 2), nn.Flatten(),
        nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10),
    )  # fmt: skip


def test_the_figure_of_paddles_documentation(capsys: Any) -> None:
    def count(layer: Any, x: Any, y: Any) -> None:
        layer.total_ops += 0 * x[0].size

    net = lenet()
    custom = {nn.LeakyReLU: count}
    assert proa.flops(net, [1, 1, 28, 28], custom_ops=custom) == 347560
    assert "Total Flops: 347560     Total Params: 61610" in capsys.readouterr().out
    assert proa.flops(net, [1, 1, 28, 28], print_detail=True) == 347560 + 1600
    assert "[1, 16, 10, 10]" in capsys.readouterr().out


def test_custom_counts_see_inputs_and_outputs() -> None:
    def count(layer: Any, x: Any, y: Any) -> None:
        layer.total_ops += x[0].size + y.size

    net = nn.Sequential(nn.ReLU(), nn.ReLU())
    assert proa.flops(net, [2, 5], custom_ops={nn.ReLU: count}) == 40
    assert not hasattr(net[0], "total_ops")


@pytest.mark.parametrize(
    ("layer", "size", "expected"),
    [
        (lambda: nn.Conv2D(4, 6, 3, groups=2, bias_attr=False), [1, 4, 5, 5], 54 * 18),
        (lambda: nn.Conv1D(2, 3, 3), [1, 2, 6], 12 * 7),
        (lambda: nn.BatchNorm2D(3), [2, 3, 4, 4], 2 * 96),
        (lambda: nn.AdaptiveAvgPool2D(1), [1, 3, 4, 4], 3 * 17),
        (lambda: nn.AvgPool2D(2), [1, 3, 4, 4], 12),
        (lambda: nn.Conv2DTranspose(2, 3, 2), [1, 2, 3, 3], 48 * 9),
    ],
)
def test_counts_by_hand(layer: Any, size: list[int], expected: int) -> None:
    assert proa.flops(nn.Sequential(layer()), size) == expected


def test_modes_and_hooks_are_put_back() -> None:
    net = nn.Sequential(nn.BatchNorm1D(3), nn.Dropout(0.5))
    proa.flops(net, [2, 3])
    assert net.training
    assert net[0].training
    np.testing.assert_array_equal(net[0]._mean.numpy(), 0)
    with pytest.raises(InvalidArgumentError, match="must be a Layer"):
        proa.flops(len, [1, 3])  # type: ignore[arg-type]  # on purpose
