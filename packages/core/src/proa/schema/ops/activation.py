"""Activation functions: elementwise, floating."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from proa.schema.dtypes import FLOATING, INEXACT, REAL
from proa.schema.row import op as any_op

op = functools.partial(any_op, arithmetic=True)


def _activation(
    signature: str,
    doc: str,
    grad: Callable[..., Any],
    *,
    dtypes: tuple[str, ...] = FLOATING,
    public: tuple[str, ...] = (),
    public_inplace: tuple[str, ...] = (),
    composite: Callable[..., Any] | None = None,
) -> None:
    op(
        signature,
        shape="same",
        dtypes=dtypes,
        grad=grad,
        composite=composite,
        inplace="x",
        public=public,
        public_inplace=public_inplace,
        elementwise=True,
        doc=doc,
    )


def _gradient(
    signature: str,
    doc: str,
    composite: Callable[..., Any],
    *,
    dtypes: tuple[str, ...] = FLOATING,
) -> None:
    """The gradient of an activation as one pass over memory."""
    op(
        signature,
        shape="same_all",
        outputs=("dx",),
        dtypes=dtypes,
        grad="composite",
        composite=composite,
        elementwise=True,
        lite=False,
        doc=doc,
    )


def _gate(g: Any, dy: Any, condition: Any) -> Any:
    """dy where the condition holds, else 0."""
    return g.where(condition, dy, 0.0)


_activation(
    "relu(x)",
    "max(x, 0).",
    lambda g, dy, y: g.relu_grad(dy, y),
    dtypes=REAL,
    public=("proa.nn.functional.relu",),
    public_inplace=("proa.nn.functional.relu_", "Tensor.relu_"),
)
op(
    "relu_grad(dy, y)",
    shape="same_all",
    outputs=("dx",),
    dtypes=FLOATING,
    grad=lambda g, ddx, y: (g.relu_grad(ddx, y), None),
    elementwise=True,
    lite=False,
    doc="dy where y > 0, else 0.",
)
_activation(
    "relu6(x)",
    "min(max(x, 0), 6).",
    lambda g, dy, y: g.relu6_grad(dy, y),
    public=("proa.nn.functional.relu6",),
)
_gradient(
    "relu6_grad(dy, y)",
    "dy where 0 < y < 6, else 0.",
    lambda g, dy, y: _gate(
        g, dy, g.logical_and(g.greater_than(y, 0.0), g.less_than(y, 6.0))
    ),
)
_activation(
    "leaky_relu(x, *, negative_slope: float = 0.01)",
    "x if x > 0 else negative_slope * x.",
    lambda g, dy, x, *, negative_slope: g.leaky_relu_grad(
        dy, x, negative_slope=negative_slope
    ),
    public=("proa.nn.functional.leaky_relu",),
)
_gradient(
    "leaky_relu_grad(dy, x, *, negative_slope: float)",
    "dy if x > 0 else negative_slope * dy.",
    lambda g, dy, x, *, negative_slope: g.where(
        g.greater_than(x, 0.0), dy, g.mul(dy, negative_slope)
    ),
)
_activation(
    "elu(x, *, alpha: float = 1.0)",
    "x if x > 0 else alpha * (exp(x) - 1).",
    lambda g, dy, x, *, alpha: g.elu_grad(dy, x, alpha=alpha),
    public=("proa.nn.functional.elu",),
)
_gradient(
    "elu_grad(dy, x, *, alpha: float)",
    "dy if x > 0 else dy * alpha * exp(x).",
    lambda g, dy, x, *, alpha: g.where(
        g.greater_than(x, 0.0), dy, g.mul(dy, g.mul(g.exp(g.minimum(x, 0.0)), alpha))
    ),
)
_activation(
    "sigmoid(x)",
    "1 / (1 + exp(-x)).",
    lambda g, dy, y: g.sigmoid_grad(dy, y),
    dtypes=INEXACT,
    public=("proa.sigmoid", "Tensor.sigmoid", "proa.nn.functional.sigmoid"),
    public_inplace=("Tensor.sigmoid_",),
)
_gradient(
    "sigmoid_grad(dy, y)",
    "dy * y * (1 - y), of complex y conjugated.",
    lambda g, dy, y: g.mul(dy, g.conj(g.mul(y, g.sub(1.0, y)))),
    dtypes=INEXACT,
)
_activation(
    "tanh(x)",
    "(exp(x) - exp(-x)) / (exp(x) + exp(-x)).",
    lambda g, dy, y: g.tanh_grad(dy, y),
    dtypes=INEXACT,
    public=("proa.tanh", "Tensor.tanh", "proa.nn.functional.tanh"),
    public_inplace=("proa.tanh_", "Tensor.tanh_", "proa.nn.functional.tanh_"),
)
_gradient(
    "tanh_grad(dy, y)",
    "dy * (1 - y ** 2), of complex y conjugated.",
    lambda g, dy, y: g.mul(dy, g.conj(g.sub(1.0, g.mul(y, y)))),
    dtypes=INEXACT,
)
_activation(
    "softplus(x, *, beta: float = 1.0, threshold: float = 20.0)",
    "log(1 + exp(beta * x)) / beta; x where beta * x > threshold.",
    lambda g, dy, x, *, beta, threshold: g.softplus_grad(
        dy, x, beta=beta, threshold=threshold
    ),
)
_gradient(
    "softplus_grad(dy, x, *, beta: float, threshold: float)",
    "dy * sigmoid(beta * x); dy where beta * x > threshold.",
    lambda g, dy, x, *, beta, threshold: g.where(
        g.greater_than(g.mul(x, beta), threshold),
        dy,
        g.mul(dy, g.sigmoid(g.mul(x, beta))),
    ),
)


def _silu_grad(g: Any, dy: Any, x: Any, *, beta: Any) -> Any:
    # With z = beta * x and s = sigmoid(z): d/dx x * s = s * (1 + z * (1 - s)).
    z = g.mul(x, beta)
    s = g.sigmoid(z)
    return g.mul(dy, g.mul(s, g.add(g.mul(z, g.sub(1.0, s)), 1.0)))


_activation(
    "silu(x, *, beta: float = 1.0)",
    "x * sigmoid(beta * x).",
    lambda g, dy, x, *, beta: g.silu_grad(dy, x, beta=beta),
    composite=lambda g, x, *, beta: g.mul(x, g.sigmoid(g.mul(x, beta))),
)
_gradient(
    "silu_grad(dy, x, *, beta: float)",
    "dy * s * (1 + beta * x * (1 - s)), s = sigmoid(beta * x).",
    _silu_grad,
)


def _mish_grad(g: Any, dy: Any, x: Any) -> Any:
    t = g.tanh(g.softplus(x))
    slope = g.mul(g.mul(x, g.sub(1.0, g.mul(t, t))), g.sigmoid(x))
    return g.mul(dy, g.add(t, slope))


_activation(
    "mish(x)",
    "x * tanh(log(1 + exp(x))) (Misra, 2019).",
    lambda g, dy, x: g.mish_grad(dy, x),
    composite=lambda g, x: g.mul(x, g.tanh(g.softplus(x))),
)
_gradient(
    "mish_grad(dy, x)",
    "dy * (t + x * (1 - t ** 2) * sigmoid(x)), t = tanh(log(1 + exp(x))).",
    _mish_grad,
)


def _gelu_grad(g: Any, dy: Any, x: Any) -> Any:
    # d/dx x * Phi(x) = Phi(x) + x * phi(x).
    cdf = g.mul(g.add(g.erf(g.mul(x, 0.7071067811865476)), 1.0), 0.5)
    pdf = g.mul(g.exp(g.mul(g.mul(x, x), -0.5)), 0.3989422804014327)
    return g.mul(dy, g.add(cdf, g.mul(x, pdf)))


_activation(
    "gelu(x)",
    "x * Phi(x), Phi the normal distribution function (Hendrycks & Gimpel, 2016).",
    lambda g, dy, x: g.gelu_grad(dy, x),
    composite=lambda g, x: g.mul(
        g.mul(x, 0.5), g.add(g.erf(g.mul(x, 0.7071067811865476)), 1.0)
    ),
)
_gradient(
    "gelu_grad(dy, x)",
    "dy * (Phi(x) + x * phi(x)), phi the normal density.",
    _gelu_grad,
)


def _gelu_tanh(g: Any, x: Any) -> Any:
    cubic = g.add(x, g.mul(g.mul(x, g.mul(x, x)), 0.044715))
    return g.tanh(g.mul(cubic, 0.7978845608028654))


def _gelu_tanh_grad(g: Any, dy: Any, x: Any) -> Any:
    t = _gelu_tanh(g, x)
    inner = g.mul(g.add(g.mul(g.mul(x, x), 3 * 0.044715), 1.0), 0.7978845608028654)
    slope = g.mul(g.mul(x, g.sub(1.0, g.mul(t, t))), inner)
    return g.mul(dy, g.mul(g.add(g.add(t, 1.0), slope), 0.5))


_activation(
    "gelu_tanh(x)",
    "0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))).",
    lambda g, dy, x: g.gelu_tanh_grad(dy, x),
    composite=lambda g, x: g.mul(g.mul(x, 0.5), g.add(_gelu_tanh(g, x), 1.0)),
)
_gradient(
    "gelu_tanh_grad(dy, x)",
    "dy * 0.5 * (1 + t + x * (1 - t ** 2) * z'), t = tanh(z) the one of gelu_tanh.",
    _gelu_tanh_grad,
)
_activation(
    "hard_sigmoid(x, *, slope: float = 0.1666667, offset: float = 0.5)",
    "min(max(slope * x + offset, 0), 1).",
    lambda g, dy, y, *, slope: g.hard_sigmoid_grad(dy, y, slope=slope),
)
_gradient(
    "hard_sigmoid_grad(dy, y, *, slope: float)",
    "dy * slope where 0 < y < 1, else 0.",
    lambda g, dy, y, *, slope: _gate(
        g,
        g.mul(dy, slope),
        g.logical_and(g.greater_than(y, 0.0), g.less_than(y, 1.0)),
    ),
)


def _hard_swish_grad(g: Any, dy: Any, x: Any) -> Any:
    middle = g.mul(dy, g.add(g.mul(x, 1.0 / 3.0), 0.5))
    return g.where(
        g.less_equal(x, -3.0), 0.0, g.where(g.greater_equal(x, 3.0), dy, middle)
    )


_activation(
    "hard_swish(x)",
    "x * min(max(x + 3, 0), 6) / 6 (Howard et al., MobileNetV3, 2019).",
    lambda g, dy, x: g.hard_swish_grad(dy, x),
)
_gradient(
    "hard_swish_grad(dy, x)",
    "0 where x <= -3, dy where x >= 3, else dy * (x / 3 + 1 / 2).",
    _hard_swish_grad,
)
