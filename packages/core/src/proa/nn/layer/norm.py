"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.base.annotations import shown
from proa.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from proa.nn import functional as F
from proa.nn.layer.base import Layer
from proa.nn.schemes import Constant
from proa.tensor.creation import ones, zeros

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "GroupNorm",
    "InstanceNorm1D", "InstanceNorm2D", "InstanceNorm3D", "LayerNorm",
    "LocalResponseNorm", "SyncBatchNorm",
]  # fmt: skip


class _BatchNormBase(Layer):
    """Normalise each channel with the batch's statistics, or the running ones in eval.

    Args:
        num_features: Channels.
        momentum: Share of the old running statistics at each step.
        epsilon: Added to the variance.
        weight_attr: How the scale is made; False fixes it at 1.
        bias_attr: How the shift is made; False fixes it at 0.
        data_format: Where the channels are.
        use_global_stats: Whether to take the running statistics always; None only in
            evaluation.
    """

    _ranks: tuple[int, ...] = ()
    _static_parameters = frozenset(("_mean", "_variance"))

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        data_format: str = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_features, self._momentum, self._epsilon = (
            num_features, momentum, epsilon,
        )  # fmt: skip
        self._data_format, self._use_global_stats = data_format, use_global_stats
        shape = [num_features]
        self.weight = self.create_parameter(
            shape, attr=weight_attr, default_initializer=Constant(1.0)
        )
        self.bias = self.create_parameter(shape, attr=bias_attr, is_bias=True)
        self.register_buffer("_mean", zeros(shape, self._dtype))
        self.register_buffer("_variance", ones(shape, self._dtype))

    def forward(self, x: Tensor) -> Tensor:
        if self._ranks and x.ndim not in self._ranks:
            raise ShapeError(
                type(self).__name__, f"rank must be one of {self._ranks}", x.shape
            )
        return F.batch_norm(
            x, self._mean, self._variance, self.weight, self.bias, self.training,
            self._momentum, self._epsilon, self._data_format, self._use_global_stats,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"num_features={self._num_features}, momentum={self._momentum}, "
            f"epsilon={self._epsilon}"
        )


class BatchNorm1D(_BatchNormBase):
    """Batch normalisation of (N, C) or (N, C, L)."""

    _ranks = (2, 3)

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        data_format: str = "NCL",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            num_features, momentum, epsilon, weight_attr, bias_attr, data_format,
            use_global_stats,
        )  # fmt: skip


class BatchNorm2D(_BatchNormBase):
    """Batch normalisation of images."""

    _ranks = (4,)


class BatchNorm3D(_BatchNormBase):
    """Batch normalisation of volumes."""

    _ranks = (5,)


class SyncBatchNorm(_BatchNormBase):
    """Batch normalisation with the statistics of all processes that train together.

    Training is in one process at present, whose statistics are those of all.
    """

    @classmethod
    def convert_sync_batchnorm(cls, layer: Layer) -> Layer:
        """Make every `BatchNorm1D`, `2D` and `3D` in ``layer`` a SyncBatchNorm.

        Parameters and running statistics are taken over. Returns ``layer``, changed in
        place, or its replacement where it is such a norm itself.
        """
        if isinstance(layer, BatchNorm1D | BatchNorm2D | BatchNorm3D):
            found = cls(
                layer._num_features, layer._momentum, layer._epsilon,
                data_format=layer._data_format,
            )  # fmt: skip
            found._use_global_stats = layer._use_global_stats
            found.weight, found.bias = layer.weight, layer.bias
            found._mean, found._variance = layer._mean, layer._variance
            found.training = layer.training
            return found
        for name, child in list(layer.named_children()):
            layer.add_sublayer(name, cls.convert_sync_batchnorm(child))
        return layer


class BatchNorm(_BatchNormBase):
    """Batch normalisation of any rank, with an activation (1.x signature).

    Args:
        num_channels: Channels.
        act: Name of the activation that follows; None for none.
        is_test: Whether to take the running statistics always.
        momentum: Share of the old running statistics at each step.
        epsilon: Added to the variance.
        param_attr: How the scale is made; False fixes it at 1.
        bias_attr: How the shift is made; False fixes it at 0.
        dtype: Element type of the parameters.
        data_layout: NCHW, or NHWC for channels on the last axis.
        in_place: Kept for callers; has no meaning here.
        moving_mean_name: Name of the running mean. Likewise moving_variance_name.
        do_model_average_for_mean_and_var: Kept for callers; has no meaning here.
        use_global_stats: Whether to take the running statistics always.
        trainable_statistics: Whether to take the batch's statistics in evaluation too.
    """

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        dtype: str = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> None:
        super().__init__(
            num_channels, momentum, epsilon, param_attr, bias_attr, data_layout,
            True if is_test or use_global_stats else None,
        )  # fmt: skip
        if trainable_statistics and self._use_global_stats is None:
            self._use_global_stats = False
        if act is not None and not hasattr(F, act):
            raise InvalidArgumentError(
                f"[BatchNorm] act must name an activation, got {act!r}"
            )
        self._act = act
        for statistic, argument, given in (
            (self._mean, "moving_mean_name", moving_mean_name),
            (self._variance, "moving_variance_name", moving_variance_name),
        ):
            if not isinstance(given, str | None):
                raise InvalidTypeError(
                    f"[BatchNorm] expected {argument} to be a str, got {shown(given)}"
                )
            statistic.name = given or statistic.name
        if dtype != "float32":
            self.astype(dtype)

    def forward(self, input: Tensor) -> Tensor:
        y = super().forward(input)
        return y if self._act is None else getattr(F, self._act)(y)


class LayerNorm(Layer):
    """Normalise over the last axes, then scale and shift element by element.

    Args:
        normalized_shape: The shape of those axes.
        epsilon: Added to the variance.
        weight_attr: How the scale is made; False fixes it at 1.
        bias_attr: How the shift is made; False fixes it at 0.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        epsilon: float = 1e-05,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        given = normalized_shape
        self._shape = [given] if isinstance(given, int) else list(given)
        self._epsilon = epsilon
        self.weight = self.create_parameter(
            self._shape, attr=weight_attr, default_initializer=Constant(1.0)
        )
        self.bias = self.create_parameter(self._shape, attr=bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self._shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        return f"normalized_shape={self._shape}, epsilon={self._epsilon}"


class GroupNorm(Layer):
    """Normalise each group of channels of each sample."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-05,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise InvalidArgumentError(
                "[GroupNorm] expected num_groups of at least 1 that divides "
                f"num_channels, got num_groups={num_groups}, "
                f"num_channels={num_channels}"
            )
        self._num_groups, self._num_channels = num_groups, num_channels
        self._epsilon, self._data_format = epsilon, data_format
        self.weight = self.create_parameter(
            [num_channels], attr=weight_attr, default_initializer=Constant(1.0)
        )
        self.bias = self.create_parameter([num_channels], attr=bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(
            input, self._num_groups, self._epsilon, self.weight, self.bias,
            self._data_format,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"num_groups={self._num_groups}, num_channels={self._num_channels}, "
            f"epsilon={self._epsilon}"
        )


class _InstanceNorm(Layer):
    _rank: int

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_features, self._epsilon = num_features, epsilon
        self._data_format = data_format
        self.scale = self.create_parameter(
            [num_features], attr=weight_attr, default_initializer=Constant(1.0)
        )
        self.bias = self.create_parameter([num_features], attr=bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != self._rank:
            raise ShapeError(
                type(self).__name__, f"rank must be {self._rank}", input.shape
            )
        return F.instance_norm(
            input, weight=self.scale, bias=self.bias, eps=self._epsilon,
            data_format=self._data_format,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"num_features={self._num_features}, epsilon={self._epsilon}"


class InstanceNorm1D(_InstanceNorm):
    """Normalise each channel of each line (N, C, L)."""

    _rank = 3


class InstanceNorm2D(_InstanceNorm):
    """Normalise each channel of each image."""

    _rank = 4


class InstanceNorm3D(_InstanceNorm):
    """Normalise each channel of each volume."""

    _rank = 5


class LocalResponseNorm(Layer):
    """x / (k + alpha * mean of squares over near channels) ** beta.

    See `functional.local_response_norm`.
    """

    def __init__(
        self,
        size: int,
        alpha: float = 0.0001,
        beta: float = 0.75,
        k: float = 1.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k
        self.data_format = data_format

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(
            input, self.size, self.alpha, self.beta, self.k, self.data_format
        )

    def extra_repr(self) -> str:
        return (
            f"size={self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}, "
            f"data_format={self.data_format}"
        )
