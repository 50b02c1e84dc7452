"""Records of the normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sample import Sample, case


def _over(x: Any) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    axes = tuple(i for i in range(x.ndim) if i != 1)
    return axes, (-1, *[1] * (x.ndim - 2)), x.size // max(x.shape[1], 1)


def _infer(
    x: Any, mean: Any, variance: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5
) -> Any:
    _, s, _ = _over(x)
    r = scale / np.sqrt(variance + epsilon)
    return (x - mean.reshape(s)) * r.reshape(s) + bias.reshape(s)


def _batch_norm(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5) -> Any:
    axes, _, _ = _over(x)
    mean, variance = x.mean(axes), x.var(axes)
    return _infer(x, mean, variance, scale, bias, epsilon=epsilon), mean, variance


def _channel_moments(x: Any, scale: Any, *, epsilon: float = 1e-5) -> Any:
    axes, _, _ = _over(x)
    return x.mean(axes), x.var(axes), scale / np.sqrt(x.var(axes) + epsilon)


def _batch_norm_grad(
    dy: Any, x: Any, mean: Any, variance: Any, scale: Any, *, epsilon: float
) -> Any:
    axes, s, n = _over(x)
    r = 1 / np.sqrt(variance + epsilon)
    xhat = (x - mean.reshape(s)) * r.reshape(s)
    dscale, dbias = (dy * xhat).sum(axes), dy.sum(axes)
    inner = dy - dbias.reshape(s) / n - xhat * dscale.reshape(s) / n
    return inner * (scale * r).reshape(s), dscale, dbias


def _batch_norm_relu_grad(
    dy: Any, x: Any, mean: Any, variance: Any, scale: Any, bias: Any, *, epsilon: float
) -> Any:
    y = _infer(x, mean, variance, scale, bias, epsilon=epsilon)
    return _batch_norm_grad(dy * (y > 0), x, mean, variance, scale, epsilon=epsilon)


def _tail(x: Any, axes: int) -> tuple[int, ...]:
    return tuple(range(x.ndim - axes, x.ndim))


def _layer_norm(
    x: Any, scale: Any, bias: Any, *, axes: int = 1, epsilon: float = 1e-5
) -> Any:
    t = _tail(x, axes)
    mean, variance = x.mean(t, keepdims=True), x.var(t, keepdims=True)
    rstd = 1 / np.sqrt(variance + epsilon)
    head = x.shape[: x.ndim - axes]
    y = (x - mean) * rstd * scale + bias
    return y, mean.reshape(head), rstd.reshape(head)


def _spread(dy: Any, like: Any, axes: int) -> Any:
    return np.broadcast_to(dy.reshape(*dy.shape, *[1] * axes), like.shape)


def _count(like: Any, axes: int) -> int:
    return int(np.prod(like.shape[like.ndim - axes :]))


def _positive(n: int) -> Any:
    return lambda rng: rng.uniform(0.5, 2.0, n)


Sample(
    "batch_norm_infer",
    ref=_infer,
    cases=[
        case((2, 3, 4, 5), (3,), _positive(3), (3,), (3,)),
        case((4, 17), (17,), _positive(17), (17,), (17,), epsilon=1e-3),
        case((0, 2, 3), (2,), _positive(2), (2,), (2,)),
    ],
    grad_cases=[case((2, 2, 3), (2,), _positive(2), (2,), (2,))],
)
Sample(
    "channel_moments",
    ref=_channel_moments,
    cases=[case((4, 3, 5, 6), (3,)), case((8, 17), (17,), epsilon=1e-3)],
)
Sample(
    "normalise_by",
    ref=lambda x, center, factor, bias: (x - center) * factor + bias,
    cases=[
        case((2, 3, 4, 5), (3, 1, 1), (3, 1, 1), (3, 1, 1)),
        case((0, 4), (4,), (4,), (4,)),
        case((), (), (), ()),
    ],
)
Sample(
    "batch_norm",
    ref=_batch_norm,
    cases=[
        case((4, 3, 5, 6), (3,), (3,)),
        case((8, 17), (17,), (17,), epsilon=1e-3),
        case((3, 20, 4), (20,), (20,)),
    ],
    rtol={"float16": 2e-2, "bfloat16": 1e-1},
    atol={"float16": 2e-2, "bfloat16": 1e-1},
    grad_cases=[case((3, 2, 3), (2,), (2,))],
)


def _layer_norm_grad_of(dy: Any, x: Any, scale: Any, axes: int, epsilon: float) -> Any:
    t, lead = _tail(x, axes), tuple(range(x.ndim - axes))
    rstd = 1 / np.sqrt(x.var(t, keepdims=True) + epsilon)
    xhat = (x - x.mean(t, keepdims=True)) * rstd
    g = dy * scale
    dx = rstd * (
        g - g.mean(t, keepdims=True) - xhat * (g * xhat).mean(t, keepdims=True)
    )
    return dx, (dy * xhat).sum(lead), dy.sum(lead)


class _Statistics:
    """x and its statistics as the inputs of a gradient kernel."""

    def __init__(
        self, shape: tuple[int, ...], axes: tuple[int, ...], seed: int
    ) -> None:
        self.x = np.random.default_rng(seed).uniform(-2, 2, shape)
        self.mean, self.variance = self.x.mean(axes), self.x.var(axes)


def _batch_case(shape: tuple[int, ...], epsilon: float, vectors: int = 1) -> Any:
    s = _Statistics(shape, tuple(i for i in range(len(shape)) if i != 1), len(shape))
    numbers = [(shape[1],)] * vectors  # scale, and bias
    return case(shape, s.x, s.mean, s.variance, *numbers, epsilon=epsilon)


def _layer_case(shape: tuple[int, ...], axes: int, epsilon: float) -> Any:
    s = _Statistics(shape, tuple(range(len(shape) - axes, len(shape))), len(shape))
    rstd = 1 / np.sqrt(s.variance + epsilon)
    tail = shape[len(shape) - axes :]
    return case(shape, s.x, s.mean, rstd, tail, axes=axes, epsilon=epsilon)


_LOOSE = {"float16": 3e-2, "bfloat16": 2e-1}

# Their gradients are those of the composite, which takes the statistics from x: a
# finite difference that moves x alone would leave them behind.
Sample(
    "batch_norm_grad",
    ref=_batch_norm_grad,
    cases=[_batch_case((4, 3, 5), 1e-5), _batch_case((6, 18), 1e-3)],
    rtol=_LOOSE,
    atol=_LOOSE,
    grad=False,
)
Sample(
    "batch_norm_relu_grad",
    ref=_batch_norm_relu_grad,
    cases=[
        _batch_case((4, 3, 5), 1e-5, 2),
        _batch_case((6, 18), 1e-3, 2),
        _batch_case((30, 90), 1e-5, 2),
        _batch_case((2, 5, 9, 7), 1e-5, 2),
    ],
)
Sample(
    "layer_norm",
    ref=_layer_norm,
    cases=[
        case((3, 8), (8,), (8,)),
        case((2, 3, 4), (3, 4), (3, 4), axes=2),
        case((5, 40), (40,), (40,), epsilon=1e-3),
    ],
    rtol=_LOOSE,
    atol=_LOOSE,
    grad_cases=[case((2, 4), (4,), (4,)), case((2, 2, 3), (2, 3), (2, 3), axes=2)],
)
Sample(
    "layer_norm_grad",
    ref=lambda dy, x, mean, rstd, scale, *, axes, epsilon: _layer_norm_grad_of(
        dy, x, scale, axes, epsilon
    ),
    cases=[_layer_case((3, 8), 1, 1e-5), _layer_case((4, 3, 6), 2, 1e-3)],
    rtol=_LOOSE,
    atol=_LOOSE,
    grad=False,
)
Sample(
    "mean_last",
    ref=lambda x, *, axes: x.mean(_tail(x, axes)),
    cases=[case((3, 5), axes=1), case((2, 3, 4), axes=2), case((3, 40), axes=1)],
)
Sample(
    "mean_last_grad",
    ref=lambda dy, like, *, axes: _spread(dy, like, axes) / _count(like, axes),
    cases=[case((3,), (3, 5), axes=1), case((2,), (2, 3, 4), axes=2)],
)
Sample(
    "expand_last",
    ref=lambda x, like, *, axes: _spread(x, like, axes),
    cases=[case((3,), (3, 5), axes=1), case((2,), (2, 3, 4), axes=2)],
)
Sample(
    "sum_last",
    ref=lambda x, *, axes: x.sum(_tail(x, axes)),
    cases=[case((3, 5), axes=1), case((2, 3, 4), axes=2), case((0, 4), axes=1)],
)


def _groups(x: Any, groups: int) -> Any:
    """(samples, groups, elements of each)"""
    return x.reshape(x.shape[0], groups, -1)


def _over_groups(x: Any, groups: int, epsilon: float) -> tuple[Any, Any, Any]:
    """x normalised, and the mean and inverse deviation of each group."""
    flat = _groups(x, groups)
    mean, rstd = flat.mean(-1), 1 / np.sqrt(flat.var(-1) + epsilon)
    xhat = (flat - mean[..., None]) * rstd[..., None]
    return xhat.reshape(x.shape), mean, rstd


def _group_norm(
    x: Any, scale: Any, bias: Any, *, groups: int, epsilon: float = 1e-5
) -> Any:
    _, s, _ = _over(x)
    xhat, mean, rstd = _over_groups(x, groups, epsilon)
    return xhat * scale.reshape(s) + bias.reshape(s), mean, rstd


def _group_norm_grad(
    dy: Any, x: Any, mean: Any, rstd: Any, scale: Any, *, groups: int, epsilon: float
) -> Any:
    axes, s, _ = _over(x)
    xhat, _, rstd = _over_groups(x, groups, epsilon)
    g, h = _groups(dy * scale.reshape(s), groups), _groups(xhat, groups)
    inner = g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True)
    dx = (inner * rstd[..., None]).reshape(x.shape)
    return dx, (dy * xhat).sum(axes), dy.sum(axes)


def _group_case(shape: tuple[int, ...], groups: int, epsilon: float) -> Any:
    x = np.random.default_rng(len(shape)).uniform(-2, 2, shape)
    _, mean, rstd = _over_groups(x, groups, epsilon)
    options = {"groups": groups, "epsilon": epsilon}
    return case(shape, x, mean, rstd, (shape[1],), **options)


Sample(
    "group_norm",
    ref=_group_norm,
    cases=[
        case((2, 6, 4, 5), (6,), (6,), groups=3),
        case((3, 4, 35), (4,), (4,), groups=4, epsilon=1e-3),
        case((9, 34, 3), (34,), (34,), groups=2),
        case((4, 20), (20,), (20,), groups=1),
    ],
    rtol=_LOOSE,
    atol=_LOOSE,
    grad_cases=[
        case((2, 4, 3), (4,), (4,), groups=2),
        case((2, 2, 2, 2), (2,), (2,), groups=2),
    ],
)
Sample(
    "group_norm_grad",
    ref=_group_norm_grad,
    cases=[_group_case((2, 6, 4, 5), 3, 1e-5), _group_case((9, 34, 3), 2, 1e-3)],
    rtol=_LOOSE,
    atol=_LOOSE,
    grad=False,
)
