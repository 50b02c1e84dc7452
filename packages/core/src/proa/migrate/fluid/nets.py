"""`paddle.fluid.nets`: layers in groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import proa
from proa._core import Tensor
from proa.base.public import publish as _publish
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.static import nn as layers

if TYPE_CHECKING:
    from proa.nn.attr import ParamAttrLike

__all__ = [
    "glu", "img_conv_group", "scaled_dot_product_attention", "sequence_conv_pool",
    "simple_img_conv_pool",
]  # fmt: skip


def _pool(
    x: Tensor, kind: str, size: Any, stride: Any, padding: Any, whole: bool
) -> Tensor:
    if kind not in ("max", "avg"):
        raise InvalidArgumentError(
            f"[nets] pool_type must be 'max' or 'avg', got {kind!r}"
        )
    if whole:
        return (F.adaptive_max_pool2d if kind == "max" else F.adaptive_avg_pool2d)(x, 1)
    return (F.max_pool2d if kind == "max" else F.avg_pool2d)(x, size, stride, padding)


def simple_img_conv_pool(
    input: Tensor,
    num_filters: int,
    filter_size: Any,
    pool_size: Any,
    pool_stride: Any,
    pool_padding: Any = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: Any = 1,
    conv_padding: Any = 0,
    conv_dilation: Any = 1,
    conv_groups: int = 1,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    act: str | None = None,
    use_cudnn: bool = True,
) -> Tensor:
    """A convolution of images, its activation, and pooling."""
    out = layers.conv2d(
        input, num_filters, filter_size, conv_stride, conv_padding, conv_dilation,
        conv_groups, param_attr, bias_attr, act=act,
    )  # fmt: skip
    return _pool(out, pool_type, pool_size, pool_stride, pool_padding, global_pooling)


def img_conv_group(
    input: Tensor,
    conv_num_filter: Sequence[int],
    pool_size: Any,
    conv_padding: Any = 1,
    conv_filter_size: Any = 3,
    conv_act: str | None = None,
    param_attr: Any = None,
    conv_with_batchnorm: Any = False,
    conv_batchnorm_drop_rate: Any = 0.0,
    pool_stride: Any = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
) -> Tensor:
    """Convolutions of images, with batch normalization and dropout if wanted, and one
    pooling after them.

    Args:
        conv_num_filter: A number of filters for each convolution.
        conv_padding: One for all convolutions, or a list; so the arguments that follow.
        conv_act: The activation of each, after its normalization if there is one.
    """
    count = len(conv_num_filter)

    def each(given: Any) -> list[Any]:
        return list(given) if isinstance(given, (list, tuple)) else [given] * count

    out = input
    for filters, size, padding, attr, normed, rate in zip(
        conv_num_filter, each(conv_filter_size), each(conv_padding), each(param_attr),
        each(conv_with_batchnorm), each(conv_batchnorm_drop_rate), strict=True,
    ):  # fmt: skip
        act = None if normed else conv_act
        out = layers.conv2d(out, filters, size, 1, padding, param_attr=attr, act=act)
        if normed:
            out = layers.batch_norm(out, act=conv_act)
            if abs(rate) > 1e-5:
                out = F.dropout(out, rate, mode="downscale_in_infer")
    return _pool(out, pool_type, pool_size, pool_stride, 0, False)


def sequence_conv_pool(
    input: Tensor,
    num_filters: int,
    filter_size: int,
    param_attr: ParamAttrLike | None = None,
    act: str = "sigmoid",
    pool_type: str = "max",
    bias_attr: ParamAttrLike | None = None,
) -> Tensor:
    """A convolution over rows of sequences, and one row of each."""
    out = layers.sequence_conv(
        input, num_filters, filter_size, param_attr=param_attr, bias_attr=bias_attr,
        act=act,
    )  # fmt: skip
    return layers.sequence_pool(out, pool_type)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b) of the halves a and b of an axis."""
    return F.glu(input, dim)


def scaled_dot_product_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    num_heads: int = 1,
    dropout_rate: float = 0.0,
) -> Tensor:
    """softmax(q k^T / sqrt(d)) v of (batch, steps, width), in several heads.

    With several heads, queries, keys and values go through layers of their own first.
    """
    given = [queries, keys, values]
    if num_heads > 1:
        given = [layers.fc(x, int(x.shape[-1]), 2) for x in given]

    def heads(x: Tensor) -> Tensor:
        width = int(x.shape[-1]) // num_heads
        split = proa.reshape(x, [0, 0, num_heads, width])
        return proa.transpose(split, [0, 2, 1, 3])

    q, k, v = map(heads, given)
    scale = float(int(q.shape[-1])) ** -0.5
    weights = F.softmax(proa.matmul(proa.scale(q, scale), k, transpose_y=True))
    if dropout_rate:
        weights = F.dropout(weights, dropout_rate, mode="downscale_in_infer")
    out = proa.transpose(proa.matmul(weights, v), [0, 2, 1, 3])
    return proa.flatten(out, start_axis=2)


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
