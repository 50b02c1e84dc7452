"""Linear, embedding, dropout, reshaping and padding layers."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.layer import Layer

__all__ = [
    "AlphaDropout", "CosineSimilarity", "Dropout", "Dropout2D", "Embedding", "Flatten",
    "Identity", "Linear", "Pad1D", "Pad2D", "PixelShuffle", "Upsample",
    "UpsamplingNearest2D", "ZeroPad2D",
]  # fmt: skip


class Identity(Layer):
    """The input as it is; takes and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
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
        weight_attr: Any = None,
        bias_attr: Any = None,
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

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class Embedding(Layer):
    """Rows of a learned table.

    Args:
        num_embeddings: Rows of the table.
        embedding_dim: Length of a row.
        padding_idx: The index that gives zeros and is not trained.
        sparse: Kept for callers; gradients are dense.
        weight_attr: How the table is made.

    Shape:
        x: any shape, int32 or int64. Returns (.., embedding_dim).
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_embeddings <= 0 or embedding_dim <= 0:
            raise InvalidArgumentError(
                "[Embedding] num_embeddings and embedding_dim must be positive, "
                f"got {num_embeddings} and {embedding_dim}"
            )
        if (
            padding_idx is not None
            and not -num_embeddings <= padding_idx < num_embeddings
        ):
            raise InvalidArgumentError(
                f"[Embedding] padding_idx must lie in [{-num_embeddings}, "
                f"{num_embeddings}), got {padding_idx}"
            )
        self._num, self._dim = num_embeddings, embedding_dim
        self._padding_idx = (
            None if padding_idx is None else padding_idx % num_embeddings
        )
        self.weight = self.create_parameter(
            [num_embeddings, embedding_dim],
            attr=weight_attr,
        )
        if self._padding_idx is not None:
            table = self.weight.numpy().copy()
            table[self._padding_idx] = 0
            self.weight.set_value(table)

    def forward(self, x: Tensor) -> Tensor:
        return F.embedding(x, self.weight, self._padding_idx)

    def extra_repr(self) -> str:
        text = f"{self._num}, {self._dim}"
        pad = self._padding_idx
        return text if pad is None else f"{text}, padding_idx={pad}"


class Dropout(Layer):
    """Elements set to 0 with probability p while training."""

    def __init__(
        self,
        p: float = 0.5,
        axis: Any = None,
        mode: str = "upscale_in_train",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.p, self.axis, self.mode = p, axis, mode

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.axis, self.training, self.mode)

    def extra_repr(self) -> str:
        return f"p={self.p}, axis={self.axis}, mode={self.mode}"


class Dropout2D(Layer):
    """Whole channels set to 0 with probability p while training."""

    def __init__(
        self, p: float = 0.5, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__()
        self.p, self.data_format = p, data_format

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.data_format)

    def extra_repr(self) -> str:
        return f"p={self.p}, data_format={self.data_format}"


class AlphaDropout(Layer):
    """Dropout that keeps mean and variance of SELU activations."""

    def __init__(self, p: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Flatten(Layer):
    """The axes start to stop (included) merged into one."""

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input: Tensor) -> Tensor:
        return ops.flatten(input, start_axis=self.start_axis, stop_axis=self.stop_axis)


class _Pad(Layer):
    _count: int

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        given = [padding] * self._count if isinstance(padding, int) else padding
        self._pad, self._mode, self._value = given, mode, value
        self._data_format = data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, self._pad, self._mode, self._value, self._data_format)

    def extra_repr(self) -> str:
        return f"padding={self._pad}, mode={self._mode}, value={self._value}"


class Pad1D(_Pad):
    """Elements put around a line: left, right."""

    _count = 2

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format)


class Pad2D(_Pad):
    """Elements put around an image: left, right, top, bottom."""

    _count = 4


class ZeroPad2D(Pad2D):
    """Zeros put around an image: left, right, top, bottom."""

    def __init__(
        self, padding: Any, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__(padding, "constant", 0.0, data_format)


class Upsample(Layer):
    """Images resized to a size or by a factor."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool = False,
        align_mode: int = 0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.align_mode = align_corners, align_mode
        self.data_format = data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners,
            self.align_mode, self.data_format,
        )  # fmt: skip

    def extra_repr(self) -> str:
        which = (
            f"size={self.size}"
            if self.size is not None
            else f"scale_factor={self.scale_factor}"
        )
        return f"{which}, mode={self.mode}, data_format={self.data_format}"


class UpsamplingNearest2D(Upsample):
    """Images resized by taking the nearest pixel."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(size, scale_factor, "nearest", data_format=data_format)


class PixelShuffle(Layer):
    """(N, C r r, H, W) -> (N, C, H r, W r)."""

    def __init__(
        self, upscale_factor: int, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__()
        self._factor, self._data_format = upscale_factor, data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_shuffle(x, self._factor, self._data_format)


class CosineSimilarity(Layer):
    """Cosine of the angle between vectors along axis."""

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self._axis, self._eps = axis, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self._axis, self._eps)
