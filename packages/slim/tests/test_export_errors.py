"""A network that cannot be recorded raises the error of eager code."""

from __future__ import annotations

from typing import Any

import pytest

import proa
from proa import nn
from proa.jit import InputSpec
from proa_slim import QAT, quant_post_static


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2D(3, 8, 3), nn.ReLU(), nn.Flatten())
        self.linear = nn.Linear(8 * 6 * 6, 4)

    def forward(self, x: Any) -> Any:
        return self.linear(self.features(x))


IMAGES = proa.ones([2, 3, 8, 8])
#: For images that are larger than the network takes.
SPEC = [InputSpec([None, 3, 9, 9], "float32")]


def after_training(net: Net) -> None:
    quant_post_static(net, SPEC, [IMAGES])


def during_training(net: Net) -> None:
    qat = QAT()
    student = qat.quantize(net)
    student(IMAGES)
    qat.convert(student, SPEC)


@pytest.mark.parametrize("quantize", [after_training, during_training])
def test_a_wrong_shape_names_its_layer_and_the_users_line(quantize: Any) -> None:
    message = r"^\[linear\] .*x float32 \(\?, 392\), w float32 \(288, 4\)"
    with pytest.raises(ValueError, match=message) as caught:
        quantize(Net())
    notes = "\n".join(caught.value.__notes__)
    assert "in layer 'linear" in notes
    assert "test_export_errors.py:" in notes and "proa_slim" not in notes
