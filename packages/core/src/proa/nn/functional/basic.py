"""Linear maps, dropout, embedding, padding, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.base.random import next_key
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import as_ints
from proa.tensor.linalg import norm

__all__ = [
    "alpha_dropout", "cosine_similarity", "dropout", "dropout2d", "embedding",
    "interpolate", "label_smooth", "linear", "normalize", "one_hot", "pad",
    "pixel_shuffle", "scaled_dot_product_attention", "sequence_mask", "upsample",
    "zeropad2d",
]  # fmt: skip


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, name: Any = None
) -> Tensor:
    """x @ weight + bias, weight being (in, out)."""
    if x.ndim == 1:
        row = ops.linear(ops.unsqueeze(x, axis=[0]), weight, bias)
        return ops.squeeze(row, axis=[0])
    return ops.linear(x, weight, bias)


def dropout(
    x: Tensor,
    p: float = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: Any = None,
) -> Tensor:
    """Elements (or whole entries of other axes than ``axis``) set to 0 with probability
    p.

    Args:
        x: The input.
        p: The probability, in [0, 1].
        axis: Axes along which the mask varies; None is all.
        training: Whether to drop; if not, x passes (scaled in "downscale_in_infer").
        mode: "upscale_in_train" divides what is kept by 1 - p while training;
            "downscale_in_infer" multiplies by 1 - p when not.
    """
    if not 0 <= p <= 1:
        raise InvalidArgumentError(f"[dropout] p must lie in [0, 1], got {p}")
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise InvalidArgumentError(
            "[dropout] mode must be upscale_in_train or downscale_in_infer, "
            f"got {mode!r}"
        )
    upscale = mode == "upscale_in_train"
    if not training:
        return x if upscale else ops.scale(x, scale=1.0 - p)
    if p == 0:
        return x
    if p == 1:
        return ops.mul(x, 0.0)
    if axis is None:
        seed, offset = next_key(x.size)
        return ops.dropout(x, p=float(p), seed=seed, offset=offset, upscale=upscale)
    along = [a % x.ndim for a in as_ints("dropout", axis)]
    shape = [n if i in along else 1 for i, n in enumerate(x.shape)]
    mask = ops.full(shape=shape, value=1, dtype=x.dtype)
    return ops.mul(x, dropout(mask, p, None, True, mode))


def dropout2d(
    x: Tensor,
    p: float = 0.5,
    training: bool = True,
    data_format: str = "NCHW",
    name: Any = None,
) -> Tensor:
    """Whole channels set to 0 with probability p."""
    return dropout(x, p, [0, 1] if data_format == "NCHW" else [0, 3], training)


def alpha_dropout(
    x: Tensor, p: float = 0.5, training: bool = True, name: Any = None
) -> Tensor:
    """Dropout that keeps mean and variance of SELU activations."""
    if not training or p == 0:
        return x
    if p == 1:
        return ops.mul(x, 0.0)
    low = -1.6732632423543772 * 1.0507009873554805
    a = ((1 - p) * (1 + p * low**2)) ** -0.5
    seed, offset = next_key(x.size)
    kept = ops.dropout(
        ops.full_like(x, value=1, dtype=x.dtype),
        p=float(p), seed=seed, offset=offset, upscale=False,
    )  # fmt: skip
    mixed = ops.add(ops.mul(x, kept), ops.scale(kept, scale=-low, bias=low))
    return ops.scale(mixed, scale=a, bias=-a * p * low)


def embedding(
    x: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    sparse: bool = False,
    name: Any = None,
) -> Tensor:
    """Rows of weight at the integers x; zeros where x is padding_idx."""
    rows = weight.shape[0]
    if padding_idx is None:
        return ops.embedding(x, weight)
    if not -rows <= padding_idx < rows:
        raise InvalidArgumentError(
            f"[embedding] padding_idx must lie in [{-rows}, {rows}), got {padding_idx}"
        )
    return ops.embedding(x, weight, padding_idx=padding_idx % rows)


def one_hot(x: Tensor, num_classes: int | Tensor, name: Any = None) -> Tensor:
    """A last axis with 1 at the index and 0 elsewhere."""
    depth = num_classes.item() if isinstance(num_classes, Tensor) else num_classes
    return ops.one_hot(x, depth=int(depth))


def label_smooth(
    label: Tensor,
    prior_dist: Tensor | None = None,
    epsilon: float = 0.1,
    name: Any = None,
) -> Tensor:
    """(1 - epsilon) * label + epsilon * prior, by default even over the classes."""
    if prior_dist is None:
        return ops.scale(label, scale=1.0 - epsilon, bias=epsilon / label.shape[-1])
    kept = ops.scale(label, scale=1.0 - epsilon)
    return ops.add(kept, ops.scale(prior_dist, scale=epsilon))


def normalize(
    x: Tensor, p: float = 2, axis: int = 1, epsilon: float = 1e-12, name: Any = None
) -> Tensor:
    """x divided by its p-norm along axis, or by epsilon where the norm is less."""
    size = norm(x, float(p), 0 if x.ndim == 1 else axis, keepdim=True)
    return ops.div(x, ops.maximum(size, float(epsilon)))


def cosine_similarity(
    x1: Tensor, x2: Tensor, axis: int = 1, eps: float = 1e-8
) -> Tensor:
    """Cosine of the angle between vectors along axis."""
    product = ops.sum(ops.mul(x1, x2), axis=[axis])
    size = ops.mul(norm(x1, 2, axis), norm(x2, 2, axis))
    return ops.div(product, ops.maximum(size, float(eps)))


def pad(
    x: Tensor,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: Any = None,
) -> Tensor:
    """x with elements put around it.

    Args:
        x: The input.
        pad: With a pair for every axis, (before, after) axis by axis from the first.
            Else pairs for the spatial axes of ``data_format``, beginning with the last
            axis: (left, right, top, bottom).
        mode: constant, reflect, replicate or circular.
        value: What constant mode puts there.
        data_format: Which axes are spatial: NCL, NLC, NCHW, NHWC, NCDHW, NDHWC.
    """
    amount = as_ints("pad", pad)
    low, high = [0] * x.ndim, [0] * x.ndim
    if len(amount) == 2 * x.ndim and mode == "constant":
        low, high = amount[0::2], amount[1::2]
    else:
        first = 2 if data_format.startswith("NC") else 1
        if len(amount) != 2 * (x.ndim - 2):
            raise ShapeError(
                "pad", f"pad must have {2 * (x.ndim - 2)} numbers for rank {x.ndim}",
                amount,
            )  # fmt: skip
        for i in range(x.ndim - 2):
            axis = first + x.ndim - 3 - i
            low[axis], high[axis] = amount[2 * i], amount[2 * i + 1]
    kind: Any = mode  # checked by the operator
    return ops.pad(x, low=low, high=high, mode=kind, value=value)


def zeropad2d(
    x: Tensor, padding: Any, data_format: str = "NCHW", name: Any = None
) -> Tensor:
    """Zeros put around the image: left, right, top, bottom."""
    return pad(x, padding, "constant", 0.0, data_format)


def interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: Any = None,
) -> Tensor:
    """Images resized to ``size`` or by ``scale_factor``; only by mode nearest."""
    if mode.lower() != "nearest" or x.ndim not in (3, 4):
        raise InvalidArgumentError(
            f"[interpolate] mode must be nearest on rank 3 or 4, got {mode!r} "
            f"on {x.shape}"
        )
    if (size is None) == (scale_factor is None):
        raise InvalidArgumentError(
            "[interpolate] one of size and scale_factor must be given, got "
            f"{size} and {scale_factor}"
        )
    first = 2 if data_format.startswith("NC") else 1
    spatial = range(first, first + x.ndim - 2)
    if size is not None:
        target = as_ints("interpolate", size)
    else:
        factors = scale_factor
        if not isinstance(factors, (list, tuple)):
            factors = [factors] * len(spatial)
        target = [
            int(x.shape[a] * float(f)) for a, f in zip(spatial, factors, strict=True)
        ]
    target = target * len(spatial) if len(target) == 1 else target
    for axis, new in zip(spatial, target, strict=True):
        old = x.shape[axis]
        if new % old == 0 and not align_corners:
            x = _repeated(x, axis, new // old)
            continue
        top = max(new - 1, 1) if align_corners else new
        span = old - 1 if align_corners else old
        shift = 0.5 if align_corners else 0.0
        places = [min(int(i * span / top + shift), old - 1) for i in range(new)]
        index = ops.stack(
            *[ops.full(shape=[], value=i, dtype=as_dtype("int64")) for i in places],
            axis=0,
        )
        x = ops.gather(x, index, axis=axis)
    return x


def _repeated(x: Tensor, axis: int, times: int) -> Tensor:
    """Every entry along axis ``times`` times."""
    if times == 1:
        return x
    wide = ops.unsqueeze(x, axis=[axis + 1])
    shape = [-1] * wide.ndim
    shape[axis + 1] = times
    return ops.flatten(
        ops.broadcast_to(wide, shape=shape), start_axis=axis, stop_axis=axis + 1
    )


upsample = interpolate


def pixel_shuffle(
    x: Tensor, upscale_factor: int, data_format: str = "NCHW", name: Any = None
) -> Tensor:
    """(N, C r r, H, W) -> (N, C, H r, W r)."""
    r = upscale_factor
    if data_format == "NHWC":
        y = pixel_shuffle(ops.transpose(x, perm=[0, 3, 1, 2]), r)
        return ops.transpose(y, perm=[0, 2, 3, 1])
    n, c, h, w = x.shape
    if c % (r * r):
        raise ShapeError("pixel_shuffle", f"channels must divide by {r * r}", x.shape)
    y = ops.reshape(x, shape=[n, c // (r * r), r, r, h, w])
    y = ops.transpose(y, perm=[0, 1, 4, 2, 5, 3])
    return ops.reshape(y, shape=[n, c // (r * r), h * r, w * r])


def sequence_mask(
    x: Tensor, maxlen: int | None = None, dtype: Any = "int64", name: Any = None
) -> Tensor:
    """1 in the first x[i] places of row i, else 0."""
    length = int(ops.max(x).item()) if maxlen is None else int(maxlen)
    places = ops.arange(start=0, step=1, count=length, dtype=x.dtype)
    inside = ops.less_than(places, ops.unsqueeze(x, axis=[-1]))
    return ops.cast(inside, dtype=as_dtype(dtype))


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    name: Any = None,
) -> Tensor:
    """softmax(q k^T / sqrt(d) + mask) v over (batch, length, heads, d) tensors."""
    q, k, v = (ops.transpose(t, perm=[0, 2, 1, 3]) for t in (query, key, value))
    width = query.shape[-1]
    scores = ops.matmul(ops.scale(q, scale=width**-0.5), ops.swap_last(k))
    if is_causal:
        size = scores.shape[-2:]
        future = ops.triu(ops.full(shape=size, value=1, dtype=as_dtype("int32")), 1)
        low = ops.full(shape=[], value=-1e9, dtype=scores.dtype)
        scores = ops.where(ops.not_equal(future, 0), low, scores)
    if attn_mask is not None:
        scores = add_mask(scores, attn_mask)
    weights = dropout(ops.softmax(scores), dropout_p, training=training)
    return ops.transpose(ops.matmul(weights, v), perm=[0, 2, 1, 3])


def add_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores with a mask: bools (or ints) say what to keep, floats are added."""
    if mask.dtype.is_floating:
        return ops.add(scores, mask)
    keep = mask if mask.dtype == "bool" else ops.not_equal(mask, 0)
    low = ops.full(shape=[], value=-1e9, dtype=scores.dtype)
    return ops.where(keep, scores, low)
