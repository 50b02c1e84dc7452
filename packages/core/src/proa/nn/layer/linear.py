"""Linear maps and changes of shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from proa._core import Tensor, ops
from proa.nn import functional as F
from proa.nn.layer.base import Layer

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = ["Bilinear", "Flatten", "Identity", "Linear"]

T = TypeVar("T")


class Identity(Layer):
    """The input as it is; takes and ignores any arguments."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: T) -> T:
        return input


class Linear(Layer):
    """x @ weight + bias.

    Args:
        in_features: Length of the input's last axis.
        out_features: Length of the output's last axis.
        weight_attr: How the weight (in, out) is made.
        bias_attr: How the bias (out,) is made; False for none.

    Shape:
        x: (.., in), floating. Returns (.., out).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = self.create_parameter(
            [in_features, out_features], attr=weight_attr
        )
        self.bias = self.create_parameter([out_features], attr=bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def forward_with_weight(self, input: Tensor, weight: Tensor) -> Tensor:
        """`forward` with another weight than the layer's, such as a rounded one."""
        return F.linear(input, weight, self.bias)

    def extra_repr(self) -> str:
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, dtype={self._dtype.name}"


class Flatten(Layer):
    """The axes start to stop (included) merged into one."""

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input: Tensor) -> Tensor:
        return ops.flatten(input, start_axis=self.start_axis, stop_axis=self.stop_axis)


class Bilinear(Layer):
    """x1^T W_k x2 + b_k for each output k.

    Args:
        in1_features: Length of x1's last axis.
        in2_features: Length of x2's last axis.
        out_features: Outputs.
        weight_attr: How the weight (out, in1, in2) is made.
        bias_attr: How the bias (1, out) is made; False for none.

    Shape:
        x1 (N, in1), x2 (N, in2). Returns (N, out).
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._sizes = (in1_features, in2_features, out_features)
        self.weight = self.create_parameter(
            [out_features, in1_features, in2_features], attr=weight_attr
        )
        self.bias = self.create_parameter(
            [1, out_features], attr=bias_attr, is_bias=True
        )

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self) -> str:
        in1, in2, out = self._sizes
        return f"in1_features={in1}, in2_features={in2}, out_features={out}"
