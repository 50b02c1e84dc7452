"""Activations, normalisation, products and embeddings in one operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.convolution import conv
from proa.interop.onnx.importer.ops.linear import gemm
from proa.interop.onnx.importer.ops.microsoft.attention import total
from proa.interop.onnx.importer.ops.microsoft.domain import microsoft_op
from proa.interop.onnx.importer.ops.norm import group_normalised, root_mean_square
from proa.interop.onnx.importer.table import onnx_op

# -- activations


@microsoft_op("Gelu")
def gelu(call: Call, x: Any) -> Any:
    return F.gelu(x)


@microsoft_op("BiasGelu", weights=(1,))
def bias_gelu(call: Call, x: Any, bias: Any) -> Any:
    return F.gelu(x + bias)


@microsoft_op("FastGelu", weights=(1,))
def fast_gelu(call: Call, x: Any, bias: Any = None) -> Any:
    return F.gelu(total(x, bias), approximate=True)


@microsoft_op("QuickGelu")
def quick_gelu(call: Call, x: Any) -> Any:
    return x * F.sigmoid(x * call.get("alpha", 1.702))


@microsoft_op("BiasSplitGelu", weights=(1,))
def bias_split_gelu(call: Call, x: Any, bias: Any) -> Any:
    left, right = proa.split(x + bias, 2, -1)
    return left * F.gelu(right)


@microsoft_op("BiasAdd", weights=(1,))
def bias_add(call: Call, x: Any, bias: Any, skip: Any) -> Any:
    return x + bias + skip


@microsoft_op("BiasSoftmax")
def bias_softmax(call: Call, x: Any, bias: Any) -> Any:
    axis = call.get("axis", 1) % x.ndim
    scores = x + bias
    if axis == x.ndim - 1:
        return F.softmax(scores, -1)
    flat = F.softmax(proa.flatten(scores, axis, x.ndim - 1), -1)
    return proa.reshape(flat, x.shape)


#: With the numbers of `activation_params`, or of attributes in their place.
_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "Relu": F.relu,
    "Tanh": proa.tanh,
    "Sigmoid": F.sigmoid,
    "LeakyRelu": lambda x, alpha=0.01: F.leaky_relu(x, alpha),
    "Clip": lambda x, low, high: proa.clip(x, low, high),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: F.hardsigmoid(x, alpha, beta),
}


def _activated(call: Call, x: Any, numbers: list[float]) -> Any:
    name = call.get("activation", "")
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise call.refuse(f"the activation {name}")
    return _ACTIVATIONS[name](x, *numbers)


# -- products


@microsoft_op("FusedConv", weights=(1, 2))
def fused_conv(call: Call, x: Any, w: Any, bias: Any = None, skip: Any = None) -> Any:
    found = total(conv(call, x, w, bias), skip)
    return _activated(call, found, call.get("activation_params", []))


@microsoft_op("FusedGemm", weights=(1, 2))
def fused_gemm(call: Call, a: Any, b: Any, c: Any = None) -> Any:
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    numbers = [call.get(name) for name in names if call.get(name) is not None]
    return _activated(call, gemm(call, a, b, c), numbers)


def _operand(x: Any, is_transposed: bool, is_batch_second: bool) -> Any:
    """A factor as `matmul` takes it; with `is_batch_second` axis 0 is a matrix axis."""
    axes = list(range(x.ndim))
    if is_batch_second:
        axes = [*axes[1:-1], 0, axes[-1]]
    if is_transposed:
        axes[-2:] = axes[-1], axes[-2]
    return x if axes == sorted(axes) else proa.transpose(x, axes)


@microsoft_op("FusedMatMul", "TransposeMatMul", weights=(1,))
def fused_matmul(call: Call, a: Any, b: Any) -> Any:
    a = _operand(a, bool(call.get("transA", 0)), bool(call.get("transBatchA", 0)))
    b = _operand(b, bool(call.get("transB", 0)), bool(call.get("transBatchB", 0)))
    alpha = call.get("alpha", 1.0)
    found = proa.matmul(a, b)
    return found if alpha == 1.0 else found * alpha


# -- normalisation


@microsoft_op("SkipLayerNormalization", weights=(2, 3, 4))
def skip_layer_norm(
    call: Call, x: Any, skip: Any, scale: Any, shift: Any = None, bias: Any = None
) -> Any:
    added = total(x + skip, bias)
    epsilon = call.get("epsilon", 1e-12)
    y = F.layer_norm(added, [scale.shape[0]], scale, shift, epsilon)
    if not any(call.node.outputs[1:3]):
        return y, None, None, added
    mean = proa.mean(added, [-1], True)
    variance = proa.mean(proa.square(added - mean), [-1], True)
    return y, mean, 1.0 / proa.sqrt(variance + epsilon), added


@onnx_op("SimplifiedLayerNormalization", weights=(1,))
@microsoft_op("SimplifiedLayerNormalization", weights=(1,))
def simplified_layer_norm(call: Call, x: Any, scale: Any) -> Any:
    axis, epsilon = call.get("axis", -1) % x.ndim, call.get("epsilon", 1e-5)
    return root_mean_square(x, scale, axis, epsilon)


@microsoft_op("SkipSimplifiedLayerNormalization", weights=(2, 3))
def skip_simplified_layer_norm(
    call: Call, x: Any, skip: Any, scale: Any, bias: Any = None
) -> Any:
    added = total(x + skip, bias)
    axis, epsilon = added.ndim - 1, call.get("epsilon", 1e-5)
    y, inverse = root_mean_square(added, scale, axis, epsilon)
    return y, None, inverse, added


def _channels_first(call: Call, x: Any) -> Any:
    return proa.transpose(x, [0, 3, 1, 2]) if call.get("channels_last", 1) else x


def _group_norm(call: Call, x: Any, scale: Any, shift: Any) -> Any:
    epsilon = call.get("epsilon", 1e-5)
    y = group_normalised(x, scale, shift, call.get("groups"), epsilon)
    y = F.silu(y) if call.get("activation", 0) else y
    return proa.transpose(y, [0, 2, 3, 1]) if call.get("channels_last", 1) else y


@microsoft_op("GroupNorm", weights=(1, 2))
def group_norm(call: Call, x: Any, scale: Any, shift: Any) -> Any:
    return _group_norm(call, _channels_first(call, x), scale, shift)


# -- embeddings


def embedded(
    call: Call, ids: Any, segments: Any, tables: tuple[Any, Any, Any], scale: Any,
    shift: Any, mask: Any, places: Any,
) -> Any:  # fmt: skip
    """The normalised sum of three embeddings; lengths of the mask; the sum.

    Args:
        tables: Tables of words, positions and segments.
        places: Positions; None for 0, 1, …
    """
    words, positions, kinds = tables
    steps = ids.shape[1]
    if places is None:
        places = proa.reshape(proa.arange(steps), [1, steps])
    both = F.embedding(ids, words) + F.embedding(places, positions)
    if segments is not None:
        both = both + F.embedding(segments, kinds)
    y = F.layer_norm(both, [scale.shape[0]], scale, shift, call.get("epsilon", 1e-12))
    if mask is None:
        lengths = proa.sum(ids * 0, [1])
    else:
        lengths = proa.sum(mask, [1])
    return y, lengths.astype("int32"), both


@microsoft_op("EmbedLayerNormalization", weights=(2, 3, 4, 5, 6))
def embed_layer_norm(
    call: Call, ids: Any, segments: Any, words: Any, positions: Any, kinds: Any,
    scale: Any, shift: Any, mask: Any = None, places: Any = None,
) -> Any:  # fmt: skip
    tables = words, positions, kinds
    return embedded(call, ids, segments, tables, scale, shift, mask, places)
