"""Products of activations that train as they will run in int8."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

import proa
from proa.nn import Layer
from proa.nn import functional as F
from proa.nn.functional.attention import as_mask
from proa.runtime import call_operator, is_symbolic
from proa_slim.config import QuantConfig
from proa_slim.quant.fake_quant import InputQuantizer
from proa_slim.quant.layers import (
    QuantizedActivation,
    QuantizedConvNorm,
    QuantizedLayer,
)
from proa_slim.quant.pairs import PAIRS, Operand, integer_attributes

#: The weights of softmax are multiples of 1 / 255, of which int8 has all.
_WEIGHT_STEPS = 255.0


class MatMul(Layer):
    """A product of two activations as a layer, for `QAT` to round.

    In an operator or function of a layer's `forward` there is no place for the ranges
    that training finds.

    Shape:
        As `proa.matmul`.
    """

    def forward(
        self, x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False
    ) -> Any:
        """`proa.matmul`."""
        return proa.matmul(x, y, transpose_x, transpose_y)


class QuantizedMatMul(Layer):
    """A `MatMul` whose operands are rounded to the int8 grid.

    Training computes with rounded values in float32. Evaluation computes with the
    operators of the exported model, so that both give the same bits; the gradient is
    that of training.

    Args:
        config: How ranges are found.

    Shape:
        As `MatMul`.
    """

    def __init__(self, config: QuantConfig) -> None:
        super().__init__()
        self.x_quantizer = InputQuantizer(config)
        self.y_quantizer = InputQuantizer(config)

    def forward(
        self, x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False
    ) -> Any:
        """The product of the rounded operands."""
        # Transposed first, as the operator of the exported model has no transposition.
        x = _swapped(x) if transpose_x else x
        y = _swapped(y) if transpose_y else y
        quantizers = (self.x_quantizer, self.y_quantizer)

        def simulated() -> Any:
            return proa.matmul(self.x_quantizer(x), self.y_quantizer(y))

        if self.training or is_symbolic(x):
            return simulated()
        return _exact("matmul", quantizers, (x, y), (), simulated)


class QuantizedAttention(Layer):
    """Attention whose queries, keys and values are rounded to the int8 grid, and the
    weights of softmax to 255 steps: `nn.MultiHeadAttention` calls it.

    Training computes with rounded values in float32, and drops weights. Evaluation
    computes with the operators of the exported model, so that both give the same bits;
    the gradient is that of training.

    Args:
        config: How ranges are found.
        dropout: Probability with which weights are dropped.

    Shape:
        As `scaled_dot_product_attention`.
    """

    def __init__(self, config: QuantConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.q_quantizer = InputQuantizer(config)
        self.k_quantizer = InputQuantizer(config)
        self.v_quantizer = InputQuantizer(config)
        self.dropout = dropout

    def forward(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        """softmax(q k^T / sqrt(d) + mask) v of rounded arrays."""
        quantizers = (self.q_quantizer, self.k_quantizer, self.v_quantizer)
        if is_symbolic(q):
            q, k, v = (f(x) for f, x in zip(quantizers, (q, k, v), strict=True))
            return F.scaled_dot_product_attention(q, k, v, mask)
        given = None if mask is None else as_mask(mask, q)

        def simulated() -> Any:
            a, b, c = (f(x) for f, x in zip(quantizers, (q, k, v), strict=True))
            return self._attend(a, b, c, given)

        if self.training:
            return simulated()
        return _exact("attention", quantizers, (q, k, v), (given,), simulated)

    def _attend(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        # (b, n, heads, d) -> (b, heads, n, d)
        q, k, v = (proa.transpose(x, [0, 2, 1, 3]) for x in (q, k, v))
        scores = proa.matmul(q * q.shape[-1] ** -0.5, k, transpose_y=True)
        if mask is not None:
            (scores,) = call_operator("mask_scores", scores, mask)
        weights = rounded_weights(F.softmax(scores))
        if self.dropout:
            weights = F.dropout(weights, self.dropout, training=self.training)
        return proa.transpose(proa.matmul(weights, v), [0, 2, 1, 3])


#: The layers that `QAT` puts into networks.
Quantized = (
    QuantizedLayer
    | QuantizedConvNorm
    | QuantizedActivation
    | QuantizedMatMul
    | QuantizedAttention
)
QUANTIZED = get_args(Quantized)


def rounded_weights(p: Any) -> Any:
    """Weights of softmax on the grid of 255 steps; the gradient goes straight through.

    w = clamp(round(255 p), 0, 255) / 255
    """
    fixed = p.detach()
    steps = (fixed * _WEIGHT_STEPS).round().clip(0.0, _WEIGHT_STEPS)
    return (p - fixed) + steps * float(np.float32(1 / _WEIGHT_STEPS))


def _swapped(x: Any) -> Any:
    order = list(range(x.ndim))
    return proa.transpose(x, [*order[:-2], order[-1], order[-2]])


def _exact(
    op: str, quantizers: Any, operands: Any, others: tuple[Any, ...], simulated: Any
) -> Any:
    """What the integer operator of `op` gives, with the gradient of `simulated`."""
    scales = [quantizer.scale() for quantizer in quantizers]
    if any(x.dtype != proa.float32 for x in operands):  # there are no such integers
        return simulated()
    attend = {"scale": operands[0].shape[-1] ** -0.5} if op == "attention" else {}
    with proa.no_grad():
        rounded: list[Operand] = []
        integers: list[Any] = []
        for x, scale in zip(operands, scales, strict=True):
            rounded.append(Operand.of(scale.scale, np.float32(scale.offset)))
            name, how = rounded[-1].rounding()
            step = proa.to_tensor(np.array([scale.scale], np.float32))
            integers += call_operator(name, x.detach(), step, **how)
        attrs = integer_attributes(op, rounded, **attend)
        (exact,) = call_operator(PAIRS[op][0], *integers, *others, **attrs)
    if not proa.is_grad_enabled():
        return exact
    y = simulated()
    return (y - y.detach()) + exact  # the difference is 0
