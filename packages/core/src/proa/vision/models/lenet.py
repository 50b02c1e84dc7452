"""LeNet-5 (LeCun et al., 1998), as used on 28 x 28 digits."""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.nn import Conv2D, Layer, Linear, MaxPool2D, ReLU, Sequential


class LeNet(Layer):
    """Two convolutions and three linear layers; 61,610 parameters for ten classes.

    Shape:
        inputs: (N, 1, 28, 28). Returns scores (N, num_classes), or the features
        (N, 16, 5, 5) if num_classes is 0.
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.features = Sequential(
            Conv2D(1, 6, 3, stride=1, padding=1),
            ReLU(),
            MaxPool2D(2, 2),
            Conv2D(6, 16, 5, stride=1, padding=0),
            ReLU(),
            MaxPool2D(2, 2),
        )
        if num_classes > 0:
            self.fc = Sequential(
                Linear(400, 120), Linear(120, 84), Linear(84, num_classes)
            )

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.features(inputs)
        if self.num_classes > 0:
            x = self.fc(ops.flatten(x, start_axis=1, stop_axis=-1))
        result: Tensor = x
        return result
