"""Nodes of the domain `com.microsoft` with their inputs, for test_microsoft.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """A node.

    Attributes:
        inputs: Arrays, or None for an input that is left out.
        constants: Positions of inputs that are initializers.
        outputs: How many the node has.
        compared: How many of them are compared; later ones are not wholly defined.
        recorded: Whether it is saved with symbolic batch and steps, too.
        expected: The formula of an operator that onnxruntime has on GPUs alone.
    """

    op: str
    inputs: Sequence[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: Sequence[int] = ()
    outputs: int = 1
    domain: str = "com.microsoft"
    atol: float = 1e-5
    compared: int = 9
    recorded: bool = True
    expected: Callable[..., Array] | None = None


def f(*shape: int, scale: float = 1.0) -> Array:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def u8(*shape: int) -> Array:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> Array:
    """7 bits: without VNNI onnxruntime's products with uint8 saturate beyond them."""
    return RNG.integers(-64, 64, shape).astype(np.int8)


def s(value: float) -> Array:
    return np.array(value, np.float32)


def b(value: int) -> Array:
    return np.array(value, np.uint8)


def i32(*values: Any) -> Array:
    return np.array(values, np.int32)


def softmax(x: Array, axes: Any) -> Array:
    e = np.exp(x - x.max(axes, keepdims=True))
    return e / e.sum(axes, keepdims=True)


def gelu(x: Array) -> Array:
    return x * (0.5 + 0.5 * np.vectorize(math.erf)(x / math.sqrt(2))).astype("f4")


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def group_norm(x: Array, groups: int) -> Array:
    """Channels last, epsilon 1e-3."""
    parts = x.reshape(*x.shape[:-1], groups, -1)
    mean = parts.mean((1, 2, 4), keepdims=True)
    var = parts.var((1, 2, 4), keepdims=True)
    return ((parts - mean) / np.sqrt(var + 1e-3)).reshape(x.shape)


CASES: dict[str, Case] = {
    "gelu": Case("Gelu", [f(2, 3, 8)]),
    "bias_gelu": Case("BiasGelu", [f(2, 3, 8), f(8)], constants=[1]),
    "fast_gelu": Case("FastGelu", [f(2, 3, 8)]),
    "fast_gelu_bias": Case("FastGelu", [f(2, 3, 8), f(8)], constants=[1]),
    "quick_gelu": Case("QuickGelu", [f(2, 3, 8)], {"alpha": 1.5}),
    "bias_softmax": Case(
        "BiasSoftmax", [f(2, 4, 3, 5), f(2, 1, 3, 5)],
        {"axis": 3, "is_inner_broadcast": 1}, expected=lambda x, b: softmax(x + b, 3),
    ),
    "bias_softmax_outer": Case(
        "BiasSoftmax", [f(2, 4, 3, 5), f(1, 1, 3, 5)],
        {"axis": 2, "is_inner_broadcast": 0},
        expected=lambda x, b: softmax(x + b, (2, 3)),
    ),
    "bias_add": Case(
        "BiasAdd", [f(2, 3, 8), f(8), f(2, 3, 8)], constants=[1],
        expected=lambda x, b, skip: x + b + skip,
    ),
    "bias_split_gelu": Case(
        "BiasSplitGelu", [f(2, 3, 8), f(8)], constants=[1],
        expected=lambda x, b: (x + b)[..., :4] * gelu((x + b)[..., 4:]),
    ),
    "group_norm": Case(
        "GroupNorm", [f(2, 3, 5, 8), f(8), f(8)],
        {"groups": 2, "activation": 1, "epsilon": 1e-3}, constants=[1, 2],
        expected=lambda x, g, b: silu(group_norm(x, 2) * g + b),
    ),
    "fused_conv": Case(
        "FusedConv", [f(2, 3, 6, 5), f(4, 3, 3, 3), f(4)],
        {"activation": "Relu", "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]},
        constants=[1, 2],
    ),
    "fused_conv_leaky": Case(
        "FusedConv", [f(2, 3, 6, 5), f(4, 3, 3, 3)],
        {"activation": "LeakyRelu", "activation_params": [0.3]}, constants=[1],
    ),
    "fused_conv_clip_skip": Case(
        "FusedConv", [f(2, 3, 6, 5), f(4, 3, 3, 3), f(4), f(2, 4, 4, 3)],
        {"activation": "Clip", "activation_params": [-0.5, 0.5]}, constants=[1, 2],
    ),
    "fused_gemm": Case(
        "FusedGemm", [f(3, 4), f(5, 4), f(5)],
        {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1},
        constants=[1, 2],
    ),
    "fused_matmul": Case(
        "FusedMatMul", [f(2, 3, 4, 5), f(2, 3, 6, 5)], {"transB": 1, "alpha": 0.25}
    ),
    "fused_matmul_batch": Case(
        "FusedMatMul", [f(4, 2, 3, 5), f(2, 3, 5, 6)], {"transBatchA": 1}
    ),
    "fused_matmul_batch_both": Case(
        "FusedMatMul", [f(5, 2, 3, 4), f(6, 2, 3, 5)],
        {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1},
    ),
    "transpose_matmul": Case(
        "TransposeMatMul", [f(2, 4, 3), f(2, 4, 5)], {"transA": 1}
    ),
    "layer_norm": Case(
        "LayerNormalization", [f(2, 3, 8), f(8), f(8)], {"axis": -1},
        constants=[1, 2], domain="",
    ),
    "simplified_layer_norm": Case(
        "SimplifiedLayerNormalization", [f(2, 3, 8), f(8)],
        {"axis": -1, "epsilon": 1e-6, "stash_type": 1}, constants=[1], domain="",
    ),
    "skip_layer_norm": Case(
        "SkipLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)],
        {"epsilon": 1e-5}, constants=[2, 3, 4], outputs=4,
    ),
    "skip_layer_norm_broadcast": Case(
        "SkipLayerNormalization", [f(2, 3, 8), f(3, 8), f(8)], constants=[2],
        recorded=False,
    ),
    "skip_simplified_layer_norm": Case(
        "SkipSimplifiedLayerNormalization", [f(2, 3, 8), f(2, 3, 8), f(8), f(8)],
        {"epsilon": 1e-6}, constants=[2, 3], outputs=4,
    ),
    "embed_layer_norm": Case(
        "EmbedLayerNormalization",
        [
            i32([1, 4, 2], [3, 3, 0]), i32([0, 1, 1], [0, 0, 1]), f(5, 8), f(4, 8),
            f(2, 8), f(8), f(8), i32([1, 1, 0], [1, 1, 1]),
        ],
        constants=[2, 3, 4, 5, 6], outputs=3,
    ),
    "embed_layer_norm_positions": Case(
        "EmbedLayerNormalization",
        [
            i32([1, 4, 2], [3, 3, 0]), None, f(5, 8), f(4, 8), None, f(8), f(8), None,
            i32([1, 0, 2], [3, 1, 1]),
        ],
        constants=[2, 3, 5, 6], outputs=2,
    ),
    # -- attention
    "attention": Case(
        "Attention", [f(2, 3, 8), f(8, 24), f(24)], {"num_heads": 2}, constants=[1, 2]
    ),
    "attention_raw_mask": Case(
        "Attention", [f(2, 3, 8), f(8, 24), f(24), i32([1, 1, 0], [0, 1, 1])],
        {"num_heads": 2}, constants=[1, 2],
    ),
    "attention_nothing_kept": Case(
        "Attention", [f(2, 3, 8), f(8, 24), f(24), i32([1, 1, 0], [0, 0, 0])],
        {"num_heads": 2}, constants=[1, 2],
    ),
    "attention_lengths": Case(
        "Attention", [f(2, 3, 8), f(8, 24), f(24), i32(2, 3)],
        {"num_heads": 2, "mask_filter_value": -1e4}, constants=[1, 2],
    ),
    "attention_ends_and_starts": Case(
        "Attention", [f(2, 3, 8), f(8, 24), f(24), i32(2, 3, 0, 1)],
        {"num_heads": 2}, constants=[1, 2], recorded=False,
    ),
    "attention_mask_of_queries": Case(
        "Attention",
        [f(1, 2, 8), f(8, 24), f(24), i32([[1, 0], [1, 1]])],
        {"num_heads": 4}, constants=[1, 2],
    ),
    "attention_causal": Case(
        "Attention", [f(2, 5, 8), f(8, 24), f(24)],
        {"num_heads": 2, "unidirectional": 1}, constants=[1, 2],
    ),
    "attention_causal_padded": Case(
        "Attention", [f(2, 3, 8), f(8, 24), f(24), i32([1, 1, 1], [0, 1, 1])],
        {"num_heads": 2, "unidirectional": 1}, constants=[1, 2],
    ),
    "attention_widths": Case(
        "Attention", [f(2, 3, 8), f(8, 20), f(20)],
        {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4], "scale": 0.3},
        constants=[1, 2],
    ),
    "attention_past": Case(
        "Attention", [f(2, 3, 8), f(8, 24), f(24), None, f(2, 2, 2, 4, 4)],
        {"num_heads": 2, "unidirectional": 1}, constants=[1, 2], outputs=2,
        recorded=False,
    ),
    "attention_bias": Case(
        "Attention",
        [f(2, 3, 8), f(8, 24), f(24), None, None, f(1, 2, 3, 3)],
        {"num_heads": 2}, constants=[1, 2], recorded=False,
    ),
    "multi_head": Case(
        "MultiHeadAttention", [f(2, 3, 8), f(2, 4, 8), f(2, 4, 12)], {"num_heads": 2}
    ),
    "multi_head_bias_mask": Case(
        "MultiHeadAttention",
        [f(2, 3, 8), f(2, 3, 8), f(2, 3, 8), f(24), i32([1, 1, 0], [1, 1, 1])],
        {"num_heads": 2, "scale": 0.5}, constants=[3],
    ),
    "multi_head_lengths": Case(
        "MultiHeadAttention",
        [f(2, 3, 8), f(2, 4, 8), f(2, 4, 8), None, i32(3, 4)], {"num_heads": 2},
    ),
    "multi_head_cross": Case(
        "MultiHeadAttention", [f(2, 3, 8), f(2, 2, 5, 4), f(2, 2, 5, 4)],
        {"num_heads": 2}, recorded=False,
    ),
    "multi_head_past": Case(
        "MultiHeadAttention",
        [
            f(2, 1, 8), f(2, 1, 8), f(2, 1, 8), None, None, f(1, 2, 1, 6),
            f(2, 2, 5, 4), f(2, 2, 5, 4),
        ],
        {"num_heads": 2}, outputs=3, recorded=False,
    ),
    "multi_head_causal": Case(
        "MultiHeadAttention", [f(2, 5, 8), f(2, 5, 8), f(2, 5, 8)],
        {"num_heads": 2, "unidirectional": 1},
    ),
    "rotary": Case(
        "RotaryEmbedding",
        [f(2, 3, 16), np.array([[0, 1, 2], [4, 5, 6]]), f(8, 4), f(8, 4)],
        constants=[2, 3],
    ),
    "rotary_interleaved_from": Case(
        "RotaryEmbedding", [f(2, 3, 16), np.array([3]), f(8, 4), f(8, 4)],
        {"interleaved": 1}, constants=[2, 3],
    ),
    "rotary_partial": Case(
        "RotaryEmbedding",
        [f(2, 2, 3, 8), np.array([[0, 1, 2], [4, 5, 6]]), f(8, 2), f(8, 2)],
        {"rotary_embedding_dim": 4, "num_heads": 2}, constants=[2, 3], recorded=False,
    ),
    "grouped_prompt": Case(
        "GroupQueryAttention",
        [f(2, 4, 32), f(2, 4, 16), f(2, 4, 16), None, None, i32(3, 3), i32(4)],
        {"num_heads": 4, "kv_num_heads": 2}, outputs=3,
    ),
    "grouped_step": Case(
        "GroupQueryAttention",
        [
            f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), f(2, 2, 5, 16), f(2, 2, 5, 16),
            i32(5, 5), i32(6), f(16, 8), f(16, 8),
        ],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 3},
        constants=[7, 8], outputs=3, recorded=False,
    ),
    "grouped_uneven_step": Case(
        "GroupQueryAttention",
        [
            f(2, 1, 32), f(2, 1, 16), f(2, 1, 16), f(2, 2, 8, 8), f(2, 2, 8, 8),
            i32(5, 3), i32(6),
        ],
        {"num_heads": 4, "kv_num_heads": 2, "softcap": 2.0}, outputs=3, compared=1,
        recorded=False,
    ),
    "grouped_packed": Case(
        "GroupQueryAttention",
        [f(1, 4, 128), None, None, None, None, i32(3), i32(4), f(16, 8), f(16, 8)],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1,
         "smooth_softmax": 1},
        constants=[7, 8], outputs=3,
    ),
    # -- integers
    "matmul_integer_to_float": Case(
        "MatMulIntegerToFloat",
        [u8(2, 3, 8), i8(8, 4), s(0.02), f(4) ** 2 / 100, b(120), i8(4), f(4)],
        constants=[1, 2, 3, 4, 5, 6],
    ),
    "dynamic_quantize_matmul": Case(
        "DynamicQuantizeMatMul", [f(2, 3, 8), i8(8, 4), s(0.02), np.int8(3), f(4)],
        constants=[1, 2, 3, 4],
    ),
    "qattention": Case(
        "QAttention",
        [
            u8(2, 3, 8), i8(8, 24), f(24), s(0.02), s(0.01), i32([1, 1, 0], [1, 1, 1]),
            b(128), np.int8(0),
        ],
        {"num_heads": 2}, constants=[1, 2, 3, 4, 6, 7],
    ),
    "matmul_4_bits": Case(
        "MatMulNBits", [f(2, 3, 40), u8(6, 2, 16), f(6, 2)],
        {"K": 40, "N": 6, "bits": 4, "block_size": 32}, constants=[1, 2],
        atol=1e-4,
    ),
    "matmul_4_bits_points": Case(
        "MatMulNBits", [f(3, 64), u8(6, 2, 16), f(6, 2), u8(6, 1), None, f(6)],
        {"K": 64, "N": 6, "bits": 4, "block_size": 32}, constants=[1, 2, 3, 5],
        atol=1e-4,
    ),
    "matmul_8_bits": Case(
        "MatMulNBits", [f(3, 32), u8(6, 2, 16), f(6, 2)],
        {"K": 32, "N": 6, "bits": 8, "block_size": 16}, constants=[1, 2], atol=1e-3,
    ),
    "qlinear_add": Case(
        "QLinearAdd", [u8(2, 3, 8), s(0.1), b(100), u8(8), s(0.2), b(7), s(0.3), b(90)],
        constants=[1, 2, 3, 4, 5, 6, 7],
    ),
    "qlinear_mul": Case(
        "QLinearMul",
        [i8(2, 3), s(0.1), np.int8(-3), i8(2, 3), s(0.2), np.int8(7), s(1.3),
         np.int8(9)],
        constants=[1, 2, 4, 5, 6, 7],
    ),
    "qlinear_sigmoid": Case(
        "QLinearSigmoid", [u8(2, 30), s(0.05), b(128), s(1 / 256), b(0)],
        constants=[1, 2, 3, 4],
    ),
    "qlinear_leaky": Case(
        "QLinearLeakyRelu", [u8(2, 30), s(0.05), b(128), s(0.04), b(50)],
        {"alpha": 0.3}, constants=[1, 2, 3, 4],
    ),
    "qlinear_softmax": Case(
        "QLinearSoftmax", [u8(3, 10), s(0.05), b(128), s(1 / 256), b(0)],
        {"axis": -1, "opset": 13}, constants=[1, 2, 3, 4],
    ),
    "qlinear_concat": Case(
        "QLinearConcat", [s(0.2), b(3), u8(2, 4), s(0.1), b(9), u8(2, 3), s(0.3), b(0)],
        {"axis": 1}, constants=[0, 1, 3, 4, 6, 7],
    ),
    "qlinear_where": Case(
        "QLinearWhere",
        [RNG.random((2, 4)) > 0.5, u8(2, 4), s(0.1), b(9), u8(2, 4), s(0.3), b(0),
         s(0.2), b(3)],
        constants=[2, 3, 5, 6, 7, 8],
    ),
    "qlinear_global_average_pool": Case(
        "QLinearGlobalAveragePool", [u8(2, 3, 4, 5), s(0.1), b(9), s(0.05), b(3)],
        constants=[1, 2, 3, 4],
    ),
    "qlinear_global_average_pool_last": Case(
        "QLinearGlobalAveragePool", [u8(2, 4, 5, 3), s(0.1), b(9), s(0.05), b(3)],
        {"channels_last": 1}, constants=[1, 2, 3, 4],
    ),
    "qlinear_average_pool": Case(
        "QLinearAveragePool", [u8(2, 3, 6, 6), s(0.1), b(9), s(0.0713), b(3)],
        {"kernel_shape": [2, 2], "strides": [2, 2]}, constants=[1, 2, 3, 4],
    ),
    "qlinear_conv": Case(
        "QLinearConv",
        [u8(2, 3, 6, 6), s(0.1), b(9), i8(4, 3, 3, 3), f(4) ** 2 / 100,
         np.zeros(4, "i1"), s(3.0), b(128),
         RNG.integers(-999, 999, 4).astype(np.int32)],
        {"pads": [1, 1, 1, 1]}, constants=[1, 2, 3, 4, 5, 6, 7, 8],
    ),
    "qlinear_conv_last": Case(
        "QLinearConv",
        [u8(2, 6, 6, 3), s(0.1), b(9), i8(4, 3, 3, 3), s(0.02), np.int8(0), s(3.0),
         b(128)],
        {"channels_last": 1}, constants=[1, 2, 3, 4, 5, 6, 7],
    ),
    "qgemm": Case(
        "QGemm",
        [u8(3, 8), s(0.1), b(9), i8(4, 8), s(0.02), np.int8(2),
         RNG.integers(-999, 999, 4).astype(np.int32), s(0.5), b(128)],
        {"transB": 1}, constants=[1, 2, 3, 4, 5, 6, 7, 8],
    ),
    "qgemm_to_float": Case(
        "QGemm", [u8(3, 8), s(0.1), b(9), i8(8, 4), s(0.02), np.int8(2)],
        constants=[1, 2, 3, 4, 5],
    ),
    "quantize": Case("QuantizeLinear", [f(3, 4), s(0.05), b(128)], constants=[1, 2]),
    "dequantize": Case(
        "DequantizeLinear", [u8(3, 4), s(0.05), b(128)], constants=[1, 2]
    ),
    "dynamic_quantize_lstm": Case(
        "DynamicQuantizeLSTM",
        [
            f(5, 2, 6), i8(1, 6, 16), i8(1, 4, 16), f(1, 32), None, None, None, None,
            np.full(1, 0.004, np.float32), np.zeros(1, np.int8),
            np.full(1, 0.004, np.float32), np.zeros(1, np.int8),
        ],
        {"hidden_size": 4}, constants=[1, 2, 3, 8, 9, 10, 11], outputs=3, atol=0.02,
    ),
    "qembed_layer_norm": Case(
        "QEmbedLayerNormalization",
        [
            i32([1, 4, 2], [3, 3, 0]), i32([0, 1, 1], [0, 0, 1]), u8(5, 8), u8(4, 8),
            u8(2, 8), u8(8), u8(8), i32([1, 1, 0], [1, 1, 1]), s(0.01), s(0.02),
            s(0.03), s(0.04), s(0.05), b(100), b(110), b(120), b(130), b(140),
        ],
        constants=[*range(2, 7), *range(8, 18)], outputs=2,
    ),
}  # fmt: skip
