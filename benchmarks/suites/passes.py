"""Memory-bound operators as fractions of the machine's STREAM rate.

Arrays are 64 MB, beyond any cache, unless a name says otherwise. `amount` counts each
input read once and each output written once: what a perfect kernel moves. The C
library is set to keep freed memory, as our allocator does: the peer would otherwise
spend its time on pages that the system clears again for each result.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import Case, Work

import proa
from proa.runtime import operators as ops

RNG = np.random.default_rng(0)
ROWS, WIDTH = 1 << 14, 1 << 10
#: One array of the suite, in bytes.
UNIT = 4 * ROWS * WIDTH
#: Images (N, C, H, W), as large.
IMAGES = (16, 64, 128, 128)


@dataclass(frozen=True)
class Pair:
    """The same array in both frameworks."""

    ours: Any
    theirs: Any


@dataclass(frozen=True)
class Row:
    """One operator: arrays moved, our call, the peer's call (from torch)."""

    name: str
    units: float
    ours: Work
    theirs: Callable[[Any], Work] | None = None
    bound: str = "memory"


def _keep_memory() -> None:
    if sys.platform == "linux":
        for parameter, value in (
            (-4, 0),
            (-1, 1 << 30),
        ):  # M_MMAP_MAX, M_TRIM_THRESHOLD
            ctypes.CDLL(None).mallopt(parameter, value)


def cases(torch: Any) -> Iterator[Case]:
    """Every pass of the suite, one after the other."""
    _keep_memory()
    for family in (_maps, _reductions, _rows, _channels, _moves, _indices, _sorts):
        for row in family(torch):
            contenders = {"proa": row.ours}
            if torch is not None and row.theirs is not None:
                contenders["torch"] = row.theirs(torch)
            yield Case(
                row.name, contenders, rounds=9, slice_seconds=0.05, bound=row.bound,
                amount=row.units * UNIT,
            )  # fmt: skip
    yield from _steps(torch)


def _pair(torch: Any, array: np.ndarray) -> Pair:
    theirs = None if torch is None else torch.from_numpy(array)
    return Pair(proa.to_tensor(array), theirs)


def _normal(torch: Any, *shape: int) -> Pair:
    return _pair(torch, RNG.standard_normal(shape, np.float32))


def _maps(torch: Any) -> Iterator[Row]:
    x, y = _normal(torch, ROWS, WIDTH), _normal(torch, ROWS, WIDTH)
    row, column = _normal(torch, WIDTH), _normal(torch, ROWS, 1)
    a, b = x.ours, x.theirs
    yield Row("add", 3, lambda: a + y.ours, lambda t: lambda: b + y.theirs)
    yield Row("mul", 3, lambda: a * y.ours, lambda t: lambda: b * y.theirs)
    yield Row("add row", 2, lambda: a + row.ours, lambda t: lambda: b + row.theirs)
    yield Row(
        "mul column", 2, lambda: a * column.ours, lambda t: lambda: b * column.theirs
    )
    yield Row("add number", 2, lambda: a + 1.5, lambda t: lambda: b + 1.5)
    side = 1 << 12
    p, q = _normal(torch, side, side), _normal(torch, side, side)
    yield Row(
        "add transposed", 3, lambda: p.ours + q.ours.t(),
        lambda t: lambda: p.theirs + q.theirs.t(),
    )  # fmt: skip
    wide = _normal(torch, ROWS, 2 * WIDTH)
    yield Row(
        "exp every second", 3, lambda: ops.exp(wide.ours[:, ::2]),
        lambda t: lambda: t.exp(wide.theirs[:, ::2]),
    )  # fmt: skip
    yield Row("relu", 2, lambda: ops.relu(a), lambda t: lambda: t.relu(b))
    for name in ("gelu", "silu"):
        yield Row(
            name, 2, lambda name=name: getattr(ops, name)(a),
            lambda t, name=name: lambda: getattr(t.nn.functional, name)(b),
        )  # fmt: skip
    for name in ("exp", "tanh", "sigmoid", "erf", "sin", "sqrt"):
        yield Row(
            name, 2, lambda name=name: getattr(ops, name)(a),
            lambda t, name=name: lambda: getattr(t, name)(b),
        )  # fmt: skip
    z = _pair(torch, RNG.random((ROWS, WIDTH), np.float32) + 0.1)
    yield Row("log", 2, lambda: ops.log(z.ours), lambda t: lambda: t.log(z.theirs))
    yield Row(
        "pow", 3, lambda: ops.pow(z.ours, a), lambda t: lambda: t.pow(z.theirs, b)
    )
    yield Row(
        "relu backward", 3, lambda: ops.relu_grad(y.ours, a),
        lambda t: lambda: t.ops.aten.threshold_backward(y.theirs, b, 0),
    )  # fmt: skip
    for name, options in (("gelu", {}), ("silu", {"beta": 1.0}), ("mish", {})):
        yield Row(
            f"{name} backward", 3,
            lambda f=f"{name}_grad", o=options: getattr(ops, f)(y.ours, a, **o),
            lambda t, f=f"{name}_backward": (
                lambda: getattr(t.ops.aten, f)(y.theirs, b)
            ),
        )  # fmt: skip
    yield Row(
        "dropout", 2, lambda: ops.dropout(a, p=0.1, seed=1, offset=0),
        lambda t: lambda: t.dropout(b, 0.1, True),
    )  # fmt: skip
    yield Row(
        "cast bfloat16", 1.5, lambda: ops.cast(a, dtype="bfloat16"),
        lambda t: lambda: b.bfloat16(),
    )  # fmt: skip


def _reductions(torch: Any) -> Iterator[Row]:
    x = _normal(torch, ROWS, WIDTH)
    cube = _normal(torch, 64, 512, 512)
    for name, peer in (("sum", "sum"), ("mean", "mean"), ("max", "amax")):
        for what, array, axes in (
            ("all", x, []),
            ("rows", x, [1]),
            ("columns", x, [0]),
            ("middle", cube, [1]),
        ):
            yield Row(
                f"{name} {what}", 1,
                lambda f=name, z=array, k=axes: getattr(ops, f)(z.ours, axis=k),
                lambda t, f=peer, z=array, k=axes: (
                    lambda: getattr(t, f)(z.theirs, dim=k or (0, 1))
                ),
                "read",
            )  # fmt: skip
    yield Row(
        "argmax", 1, lambda: ops.argmax(x.ours, axis=1),
        lambda t: lambda: t.argmax(x.theirs, 1), "read",
    )  # fmt: skip
    yield Row(
        "logsumexp", 1, lambda: ops.logsumexp(x.ours, axis=[1]),
        lambda t: lambda: t.logsumexp(x.theirs, 1), "read",
    )  # fmt: skip
    for what, axis in (("rows", 1), ("columns", 0)):
        yield Row(
            f"cumsum {what}", 2, lambda k=axis: ops.cumsum(x.ours, axis=k),
            lambda t, k=axis: lambda: t.cumsum(x.theirs, k),
        )  # fmt: skip


def _rows(torch: Any) -> Iterator[Row]:
    x, dy = _normal(torch, ROWS, WIDTH), _normal(torch, ROWS, WIDTH)
    scale, bias = _normal(torch, WIDTH), _normal(torch, WIDTH)
    for name in ("softmax", "log_softmax"):
        y = _pair(torch, getattr(ops, name)(x.ours, axis=-1).numpy())
        back = "_" + name + "_backward_data"
        yield Row(
            name, 2, lambda f=name: getattr(ops, f)(x.ours, axis=-1),
            lambda t, f=name: lambda: getattr(t, f)(x.theirs, -1),
        )  # fmt: skip
        yield Row(
            f"{name} backward", 3,
            lambda f=name, y=y: getattr(ops, f + "_grad")(dy.ours, y.ours, axis=-1),
            lambda t, f=back, y=y: (
                lambda: getattr(t.ops.aten, f)(dy.theirs, y.theirs, 1, t.float32)
            ),
        )  # fmt: skip
    yield Row(
        "softmax columns", 2, lambda: ops.softmax(x.ours, axis=0),
        lambda t: lambda: t.softmax(x.theirs, 0),
    )  # fmt: skip
    y, mean, rstd = ops.layer_norm(x.ours, scale.ours, bias.ours, axes=1, epsilon=1e-5)
    yield Row(
        "layer_norm", 2,
        lambda: ops.layer_norm(x.ours, scale.ours, bias.ours, axes=1, epsilon=1e-5),
        lambda t: lambda: t.layer_norm(x.theirs, [WIDTH], scale.theirs, bias.theirs),
    )  # fmt: skip
    yield Row(
        "layer_norm backward", 3,
        lambda: ops.layer_norm_grad(
            dy.ours, x.ours, mean, rstd, scale.ours, axes=1, epsilon=1e-5
        ),
        lambda t: _layer_norm_backward(t, dy, x, scale, bias),
    )  # fmt: skip
    label = _pair(torch, RNG.integers(0, WIDTH, ROWS))
    yield Row(
        "cross entropy", 1, lambda: ops.softmax_cross_entropy(label.ours, x.ours),
        lambda t: lambda: t.nn.functional.cross_entropy(
            x.theirs, label.theirs, reduction="none"
        ),
        "read",
    )  # fmt: skip


def _layer_norm_backward(t: Any, dy: Pair, x: Pair, scale: Pair, bias: Pair) -> Work:
    _, mean, rstd = t.native_layer_norm(
        x.theirs, [WIDTH], scale.theirs, bias.theirs, 1e-5
    )
    return lambda: t.ops.aten.native_layer_norm_backward(
        dy.theirs, x.theirs, [WIDTH], mean, rstd, scale.theirs, bias.theirs, [True] * 3
    )


def _channels(torch: Any) -> Iterator[Row]:
    channels = IMAGES[1]
    scale, bias = _normal(torch, channels), _normal(torch, channels)
    for order in ("nchw", "nhwc"):
        x, dy = _images(torch, order), _images(torch, order)
        _, mean, variance = ops.batch_norm(x.ours, scale.ours, bias.ours)
        # Forward reads its array for the statistics and again for the result.
        yield Row(
            f"batch_norm {order}", 3,
            lambda x=x: ops.batch_norm(x.ours, scale.ours, bias.ours),
            lambda t, x=x: (
                lambda: t.nn.functional.batch_norm(
                    x.theirs, None, None, scale.theirs, bias.theirs, True
                )
            ),
        )  # fmt: skip
        yield Row(
            f"batch_norm backward {order}", 5,
            lambda x=x, dy=dy, m=mean, v=variance: ops.batch_norm_grad(
                dy.ours, x.ours, m, v, scale.ours, epsilon=1e-5
            ),
            lambda t, x=x, dy=dy: _batch_norm_backward(t, dy, x, scale),
        )  # fmt: skip
        yield Row(
            f"batch_norm infer {order}", 2,
            lambda x=x, m=mean, v=variance: ops.batch_norm_infer(
                x.ours, m, v, scale.ours, bias.ours, epsilon=1e-5
            ),
            lambda t, x=x: (
                lambda: t.nn.functional.batch_norm(
                    x.theirs, bias.theirs, scale.theirs**2, scale.theirs, bias.theirs
                )
            ),
        )  # fmt: skip
        # A group stays in the cache between the statistics and the result.
        yield Row(
            f"group_norm {order}", 2,
            lambda x=x: ops.group_norm(x.ours, scale.ours, bias.ours, groups=8),
            lambda t, x=x: lambda: t.group_norm(x.theirs, 8, scale.theirs, bias.theirs),
        )  # fmt: skip
        _, mean, rstd = ops.group_norm(x.ours, scale.ours, bias.ours, groups=8)
        yield Row(
            f"group_norm backward {order}", 3,
            lambda x=x, dy=dy, m=mean, r=rstd: ops.group_norm_grad(
                dy.ours, x.ours, m, r, scale.ours, groups=8, epsilon=1e-5
            ),
            lambda t, x=x, dy=dy: _group_norm_backward(t, dy, x, scale),
        )  # fmt: skip


def _images(torch: Any, order: str) -> Pair:
    if order == "nchw":
        return _normal(torch, *IMAGES)
    n, c, h, w = IMAGES
    flat = _normal(torch, n, h, w, c)
    theirs = None if torch is None else flat.theirs.permute(0, 3, 1, 2)
    return Pair(flat.ours.transpose([0, 3, 1, 2]), theirs)


def _batch_norm_backward(t: Any, dy: Pair, x: Pair, scale: Pair) -> Work:
    _, mean, rstd = t.native_batch_norm(
        x.theirs, scale.theirs, scale.theirs, None, None, True, 0.1, 1e-5
    )
    return lambda: t.ops.aten.native_batch_norm_backward(
        dy.theirs, x.theirs, scale.theirs, None, None, mean, rstd, True, 1e-5,
        [True] * 3,
    )  # fmt: skip


def _group_norm_backward(t: Any, dy: Pair, x: Pair, scale: Pair) -> Work:
    n, c, h, w = IMAGES
    _, mean, rstd = t.native_group_norm(
        x.theirs, scale.theirs, scale.theirs, n, c, h * w, 8, 1e-5
    )
    return lambda: t.ops.aten.native_group_norm_backward(
        dy.theirs, x.theirs, mean, rstd, scale.theirs, n, c, h * w, 8, [True] * 3
    )


def _moves(torch: Any) -> Iterator[Row]:
    side = 1 << 12
    x = _normal(torch, side, side)
    yield Row("copy", 2, lambda: ops.assign(x.ours), lambda t: lambda: x.theirs.clone())
    yield Row(
        "fill", 1, lambda: ops.full(shape=[side, side], value=1.5, dtype="float32"),
        lambda t: lambda: t.full((side, side), 1.5),
    )  # fmt: skip
    yield Row(
        "transpose", 2, lambda: x.ours.t().contiguous(),
        lambda t: lambda: x.theirs.t().contiguous(),
    )  # fmt: skip
    heads = _normal(torch, 32, 512, 16, 64)
    yield Row(
        "swap heads", 2, lambda: heads.ours.transpose([0, 2, 1, 3]).contiguous(),
        lambda t: lambda: heads.theirs.permute(0, 2, 1, 3).contiguous(),
    )  # fmt: skip
    images = _normal(torch, *IMAGES)
    yield Row(
        "to channels last", 2,
        lambda: images.ours.transpose([0, 2, 3, 1]).contiguous(),
        lambda t: lambda: images.theirs.permute(0, 2, 3, 1).contiguous(),
    )  # fmt: skip
    halves = [_normal(torch, side, side // 2) for _ in range(2)]
    for what, axis in (("rows", 0), ("columns", 1)):
        yield Row(
            f"concat {what}", 2,
            lambda k=axis: ops.concat(*(h.ours for h in halves), axis=k),
            lambda t, k=axis: lambda: t.cat([h.theirs for h in halves], k),
        )  # fmt: skip
    yield Row(
        "split copied", 2,
        lambda: [ops.assign(p) for p in proa.split(x.ours, 4, axis=1)],
        lambda t: lambda: [p.contiguous() for p in x.theirs.chunk(4, 1)],
    )  # fmt: skip
    yield Row(
        "pad", 2, lambda: ops.pad(x.ours, [8, 8], [8, 8]),
        lambda t: lambda: t.nn.functional.pad(x.theirs, (8, 8, 8, 8)),
    )  # fmt: skip
    yield Row(
        "tile", 1.25, lambda: proa.tile(x.ours[: side // 4], [4, 1]),
        lambda t: lambda: x.theirs[: side // 4].repeat(4, 1),
    )  # fmt: skip


def _indices(torch: Any) -> Iterator[Row]:
    table = _normal(torch, ROWS, WIDTH)
    ids = _pair(torch, RNG.integers(0, ROWS, ROWS))
    dy = _normal(torch, ROWS, WIDTH)
    yield Row(
        "gather", 2, lambda: ops.gather(table.ours, ids.ours, axis=0),
        lambda t: lambda: t.index_select(table.theirs, 0, ids.theirs),
    )  # fmt: skip
    yield Row(
        "gather backward", 3,
        lambda: ops.gather_grad(dy.ours, ids.ours, table.ours, axis=0),
        lambda t: (
            lambda: t.zeros_like(table.theirs).index_add_(0, ids.theirs, dy.theirs)
        ),
    )  # fmt: skip
    yield Row(
        "embedding", 2, lambda: ops.embedding(ids.ours, table.ours),
        lambda t: lambda: t.nn.functional.embedding(ids.theirs, table.theirs),
    )  # fmt: skip
    yield Row(
        "embedding backward", 3,
        lambda: ops.embedding_grad(ids.ours, dy.ours, table.ours),
        lambda t: (
            lambda: t.ops.aten.embedding_dense_backward(
                dy.theirs, ids.theirs, ROWS, -1, False
            )
        ),
    )  # fmt: skip
    small = _pair(torch, RNG.integers(0, WIDTH, ROWS))
    yield Row(
        "one_hot", 1, lambda: ops.one_hot(small.ours, depth=WIDTH),
        lambda t: (
            lambda: t.zeros(ROWS, WIDTH).scatter_(1, small.theirs[:, None], 1.0)
        ),
    )  # fmt: skip
    along = _pair(torch, RNG.integers(0, WIDTH, (ROWS, WIDTH)))
    yield Row(
        "take along axis", 4,
        lambda: ops.take_along_axis(table.ours, along.ours, axis=1),
        lambda t: lambda: t.gather(table.theirs, 1, along.theirs),
    )  # fmt: skip


def _sorts(torch: Any) -> Iterator[Row]:
    rows, line = _normal(torch, 1 << 10, 1 << 10), _normal(torch, 1 << 20)
    for name, z in (("rows 4 MB", rows), ("line 4 MB", line)):
        share = z.ours.size * 4 / UNIT
        yield Row(
            f"sort {name}", 4 * share, lambda z=z: ops.sort(z.ours, axis=-1),
            lambda t, z=z: lambda: t.sort(z.theirs, -1),
        )  # fmt: skip
        yield Row(
            f"topk {name}", share, lambda z=z: ops.topk(z.ours, k=10, axis=-1),
            lambda t, z=z: lambda: t.topk(z.theirs, 10, -1), "read",
        )  # fmt: skip


def _steps(torch: Any) -> Iterator[Case]:
    """Optimizer steps: of 16 arrays of 4 MB, and of 64 of 32 bytes."""
    kinds = {"SGD": ("SGD", 3, {}), "Momentum": ("SGD", 5, {"momentum": 0.9})}
    kinds |= {"Adam": ("Adam", 7, {}), "AdamW": ("AdamW", 7, {})}
    for size, count in ((1 << 20, 16), (8, 64)):
        for name, (peer, units, options) in kinds.items():
            ours = [proa.create_parameter([size], "float32") for _ in range(count)]
            for p in ours:
                p.grad = proa.ones([size])
            optimizer = getattr(proa.optimizer, name)(1e-3, parameters=ours)
            contenders: dict[str, Work] = {"proa": optimizer.step}
            if torch is not None:
                theirs = [torch.nn.Parameter(torch.zeros(size)) for _ in range(count)]
                for q in theirs:
                    q.grad = torch.ones(size)
                fused = getattr(torch.optim, peer)(
                    theirs, lr=1e-3, fused=True, **options
                )
                contenders["torch"] = fused.step
            amount = float(units * 4 * size * count) if size > 8 else 0.0
            yield Case(
                f"{name} {count} x {size}", contenders, rounds=9, bound="memory",
                amount=amount,
            )  # fmt: skip
