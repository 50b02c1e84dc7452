"""Normalisation. 16-bit floats are computed in float32; scale, bias and statistics over
the batch may be float32 there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from proa.schema.dtypes import FLOATING
from proa.schema.row import REFUSED
from proa.schema.row import op as any_op

op = functools.partial(any_op, arithmetic=True)


def _batch_norm_infer(
    g: Any, x: Any, mean: Any, variance: Any, scale: Any, bias: Any, *, epsilon: Any
) -> Any:
    def over(c: Any) -> Any:
        return g.broadcast_channels(c, x)

    rstd = g.rsqrt(g.add(variance, epsilon))
    return g.add(g.mul(g.sub(x, over(mean)), over(g.mul(rstd, scale))), over(bias))


def _batch_norm_infer_grad(
    g: Any, dy: Any, x: Any, mean: Any, variance: Any, scale: Any, *, epsilon: Any
) -> Any:
    # A rule, so that results have the kernel's bits with gradients wanted or not.
    rstd = g.rsqrt(g.add(variance, epsilon))
    factor, total = g.mul(rstd, scale), g.sum_channels(dy)
    centred = g.sub(x, g.broadcast_channels(mean, x))
    dot = g.mul(g.sum_channels(g.mul(dy, centred)), rstd)
    return (
        g.mul(dy, g.broadcast_channels(factor, x)),
        g.neg(g.mul(total, factor)),
        g.mul(g.mul(g.mul(dot, factor), rstd), -0.5),
        dot,
        total,
    )


op(
    "batch_norm_infer(x, mean, variance, scale, bias, *, epsilon: float = 1e-5)",
    shape="batch_norm_infer",
    layout="follow",
    dtypes=FLOATING,
    grad=_batch_norm_infer_grad,
    composite=_batch_norm_infer,
    autocast="mixed",
    doc="(x - mean) / sqrt(variance + epsilon) * scale + bias per channel (axis 1).",
)
op(
    "batch_norm(x, scale, bias, *, epsilon: float = 1e-5)",
    shape="batch_norm",
    layout="follow",
    dtypes=FLOATING,
    outputs=("y", "mean", "variance"),
    out=("same", "last", "last"),
    grad=lambda g, dy, mean, variance, x, scale, *, epsilon: g.batch_norm_grad(
        dy, x, mean, variance, scale, epsilon=epsilon
    ),
    lite=False,
    scratch=True,
    autocast="mixed",
    doc="x normalised per channel (axis 1) with the mean and biased variance of this "
    "batch, times scale plus bias. mean and variance carry no gradient.",
)


# The two halves of batch_norm, of which the second is elementwise: passes make them.
op(
    "channel_moments(x, scale, *, epsilon: float = 1e-5)",
    shape="channel_moments",
    dtypes=("float32", "float64"),
    outputs=("mean", "variance", "factor"),
    out=("same", "same", "same"),
    grad=REFUSED,
    lite=False,
    scratch=True,
    doc="Mean and biased variance per channel (axis 1), and scale / sqrt(variance + "
    "epsilon). scale has the dtype of x.",
)
op(
    "normalise_by(x, center, factor, bias)",
    shape="broadcast",
    dtypes=("float32", "float64"),
    grad=REFUSED,
    elementwise=True,
    lite=False,
    doc="(x - center) * factor + bias, all of one dtype, broadcast.",
)


def _batch_norm_grad(
    g: Any, dy: Any, x: Any, mean: Any, variance: Any, scale: Any, *, epsilon: Any
) -> Any:
    # The statistics are recomputed from x so that this differentiates again.
    ones = g.add(g.mul(g.sum_channels(x), 0.0), 1.0)
    count = g.sum_channels(g.broadcast_channels(ones, x))

    def average(t: Any) -> Any:
        return g.div(g.sum_channels(t), count)

    def over(c: Any) -> Any:
        return g.broadcast_channels(c, x)

    centred = g.sub(x, over(average(x)))
    rstd = g.rsqrt(g.add(average(g.mul(centred, centred)), epsilon))
    xhat = g.mul(centred, over(rstd))
    dbias = g.sum_channels(dy)
    dscale = g.sum_channels(g.mul(dy, xhat))
    inner = g.sub(
        g.sub(dy, over(g.div(dbias, count))),
        g.mul(xhat, over(g.div(dscale, count))),
    )
    return g.mul(inner, over(g.mul(rstd, scale))), dscale, dbias


op(
    "batch_norm_grad(dy, x, mean, variance, scale, *, epsilon: float)",
    shape="batch_norm_grad",
    layout="follow",
    dtypes=FLOATING,
    outputs=("dx", "dscale", "dbias"),
    out=("same", "last", "last"),
    grad="composite",
    composite=_batch_norm_grad,
    lite=False,
    scratch=True,
    doc="Gradient of batch_norm (Ioffe & Szegedy, 2015); the statistics depend on x.",
)


def _batch_norm_relu_grad(
    g: Any,
    dy: Any,
    x: Any,
    mean: Any,
    variance: Any,
    scale: Any,
    bias: Any,
    *,
    epsilon: Any,
) -> Any:
    y = _batch_norm_infer(g, x, mean, variance, scale, bias, epsilon=epsilon)
    passed = g.relu_grad(dy, y)
    return g.batch_norm_grad(passed, x, mean, variance, scale, epsilon=epsilon)


op(
    "batch_norm_relu_grad(dy, x, mean, variance, scale, bias, *, epsilon: float)",
    shape="batch_norm_grad",
    layout="follow",
    dtypes=("float32",),
    outputs=("dx", "dscale", "dbias"),
    out=("same", "last", "last"),
    grad=REFUSED,
    composite=_batch_norm_relu_grad,
    lite=False,
    scratch=True,
    doc="Gradient of relu(batch_norm(x)), whose sign follows from x: passes make it.",
)

# -- layer norm: over the last `axes` axes ---------------------------------------------


def _normalized_grad(
    g: Any, scaled: Any, x: Any, average: Callable[[Any], Any], epsilon: Any
) -> tuple[Any, Any]:
    """The gradient of x, whose normalized form xhat has the gradient scaled; and xhat.
    `average` gives the mean that belongs to each element.
    """
    centred = g.sub(x, average(x))
    inverse = g.rsqrt(g.add(average(g.mul(centred, centred)), epsilon))
    xhat = g.mul(centred, inverse)
    inner = g.sub(
        g.sub(scaled, average(scaled)), g.mul(xhat, average(g.mul(scaled, xhat)))
    )
    return g.mul(inner, inverse), xhat


def _layer_norm_grad(
    g: Any,
    dy: Any,
    x: Any,
    mean: Any,
    rstd: Any,
    scale: Any,
    *,
    axes: Any,
    epsilon: Any,
) -> Any:
    def average(t: Any) -> Any:
        return g.expand_last(g.mean_last(t, axes=axes), x, axes=axes)

    dx, xhat = _normalized_grad(g, g.mul(dy, scale), x, average, epsilon)
    return dx, g.sum_to(g.mul(dy, xhat), scale), g.sum_to(dy, scale)


op(
    "layer_norm(x, scale, bias, *, axes: int = 1, epsilon: float = 1e-5)",
    shape="layer_norm",
    dtypes=FLOATING,
    outputs=("y", "mean", "rstd"),
    grad=lambda g, dy, mean, rstd, x, scale, *, axes, epsilon: g.layer_norm_grad(
        dy, x, mean, rstd, scale, axes=axes, epsilon=epsilon
    ),
    autocast="mixed",
    doc="(x - mean) * rstd * scale + bias over the last `axes` axes, rstd = "
    "1 / sqrt(variance + epsilon) (Ba et al., 2016). scale and bias have the shape of "
    "those axes; mean and rstd that of the others and carry no gradient.",
)
op(
    "layer_norm_grad(dy, x, mean, rstd, scale, *, axes: int, epsilon: float)",
    shape="layer_norm_grad",
    dtypes=FLOATING,
    outputs=("dx", "dscale", "dbias"),
    out=("same", "last", "last"),
    grad="composite",
    composite=_layer_norm_grad,
    lite=False,
    scratch=True,
    doc="Gradient of layer_norm, its statistics depending on x.",
)
op(
    "mean_last(x, *, axes: int)",
    shape="mean_last",
    dtypes=FLOATING,
    grad=lambda g, dy, x, *, axes: g.mean_last_grad(dy, x, axes=axes),
    lite=False,
    doc="Mean over the last `axes` axes, which are removed.",
)
op(
    "mean_last_grad(dy, like: shape, *, axes: int)",
    shape="mean_last_grad",
    dtypes=FLOATING,
    outputs=("dx",),
    grad=lambda g, ddx, *, axes: g.mean_last(ddx, axes=axes),
    lite=False,
    doc="dy spread over the last `axes` axes, divided by their number of elements.",
)
op(
    "expand_last(x, like: shape, *, axes: int)",
    shape="expand_last",
    kind="view",
    dtypes=FLOATING,
    grad=lambda g, dy, *, axes: g.sum_last(dy, axes=axes),
    lite=False,
    doc="x repeated along the last `axes` axes of like, without copying.",
)
op(
    "sum_last(x, *, axes: int)",
    shape="mean_last",
    dtypes=FLOATING,
    grad=lambda g, dy, x, *, axes: g.expand_last(dy, x, axes=axes),
    lite=False,
    doc="Sum over the last `axes` axes, which are removed.",
)

# -- group norm: over groups of channels (axis 1) of each sample -----------------------


def _group_norm_grad(
    g: Any,
    dy: Any,
    x: Any,
    mean: Any,
    rstd: Any,
    scale: Any,
    *,
    groups: Any,
    epsilon: Any,
) -> Any:
    def average(t: Any) -> Any:
        rows = g.reshape(t, shape=[0, groups, -1])
        spread = g.expand_last(g.mean_last(rows, axes=1), rows, axes=1)
        return g.reshape_like(spread, x)

    scaled = g.mul(dy, g.broadcast_channels(scale, x))
    dx, xhat = _normalized_grad(g, scaled, x, average, epsilon)
    return dx, g.sum_channels(g.mul(dy, xhat)), g.sum_channels(dy)


op(
    "group_norm(x, scale, bias, *, groups: int, epsilon: float = 1e-5)",
    shape="group_norm",
    layout="follow",
    dtypes=FLOATING,
    outputs=("y", "mean", "rstd"),
    grad=lambda g, dy, mean, rstd, x, scale, *, groups, epsilon: g.group_norm_grad(
        dy, x, mean, rstd, scale, groups=groups, epsilon=epsilon
    ),
    scratch=True,
    autocast="mixed",
    doc="(x - mean) * rstd * scale + bias with a mean and rstd = "
    "1 / sqrt(variance + epsilon) for each of `groups` groups of channels (axis 1) of "
    "each sample (Wu & He, 2018); as many groups as channels make it the instance norm "
    "(Ulyanov et al., 2016). scale and bias have one number a channel; mean and rstd "
    "(N, groups) carry no gradient.",
)
op(
    "group_norm_grad(dy, x, mean, rstd, scale, *, groups: int, epsilon: float)",
    shape="group_norm_grad",
    layout="follow",
    dtypes=FLOATING,
    outputs=("dx", "dscale", "dbias"),
    out=("same", "last", "last"),
    grad="composite",
    composite=_group_norm_grad,
    lite=False,
    scratch=True,
    doc="Gradient of group_norm, its statistics depending on x.",
)
