"""Attributes that state sizes agree with the parameters that a layer has now."""

from __future__ import annotations

from typing import Any

import pytest

from proa import nn
from proa.nn.layer.sizes import group_count, is_channels_last, size_attributes

#: A layer, and the layer whose parameters it gets.
PAIRS = {
    "linear": (nn.Linear(4, 3), nn.Linear(2, 5)),
    "conv1d": (nn.Conv1D(4, 6, 3), nn.Conv1D(2, 5, 3)),
    "conv2d": (nn.Conv2D(4, 6, 3, groups=2), nn.Conv2D(8, 2, 3, groups=2)),
    "transposed": (
        nn.Conv2DTranspose(4, 6, 3, groups=2), nn.Conv2DTranspose(8, 2, 3, groups=2)
    ),
    "batch norm": (nn.BatchNorm2D(4), nn.BatchNorm2D(7)),
    "instance norm": (nn.InstanceNorm2D(4), nn.InstanceNorm2D(7)),
    "layer norm": (nn.LayerNorm([4]), nn.LayerNorm([7])),
    "group norm": (nn.GroupNorm(2, 4), nn.GroupNorm(2, 6)),
    "embedding": (nn.Embedding(9, 4), nn.Embedding(9, 7)),
    "lstm": (nn.LSTM(4, 6), nn.LSTM(2, 3)),
    "gru cell": (nn.GRUCell(4, 6), nn.GRUCell(2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_attributes_follow_new_parameters(name: str) -> None:
    layer: Any
    layer, other = PAIRS[name]
    layer._parameters.update(other._parameters)
    layer._buffers.update(other._buffers)
    found = size_attributes(layer)
    assert found
    assert found == {key: getattr(other, key) for key in found}


def test_a_new_number_of_groups_is_taken() -> None:
    found = size_attributes(nn.Conv2D(4, 4, 3, groups=2), groups=1)
    assert (found["_in_channels"], found["_groups"]) == (2, 1)
    assert size_attributes(nn.GroupNorm(2, 4), groups=4)["_num_groups"] == 4


def test_layers_without_sizes_have_none() -> None:
    assert size_attributes(nn.ReLU()) == {}
    assert group_count(nn.ReLU()) == 1
    assert not is_channels_last(nn.ReLU())


def test_groups_and_the_axis_of_channels() -> None:
    assert group_count(nn.Conv1D(4, 4, 3, groups=4)) == 4
    assert is_channels_last(nn.Linear(2, 3))
    assert is_channels_last(nn.Conv2D(2, 3, 1, data_format="NHWC"))
    assert not is_channels_last(nn.Conv2D(2, 3, 1))
    assert is_channels_last(nn.BatchNorm2D(3, data_format="NHWC"))
    assert not is_channels_last(nn.BatchNorm1D(3))
