"""Measures in static graphs, which add up over runs."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.base.naming import unique_name
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.metric import accuracy as share_of_hits
from proa.nn.schemes import Constant
from proa.static.state import require_static
from proa.tensor.arguments import check_rank


def accuracy(
    input: Tensor,
    label: Tensor,
    k: int = 1,
    correct: Tensor | None = None,
    total: Tensor | None = None,
) -> Tensor:
    """The share of rows whose label is among the k greatest, a 0-d Variable.

    Args:
        input: Scores (N, classes).
        label: int64 (N, 1).
        k: How many classes count.
        correct: A Variable that gets the number of such rows; None for none.
        total: A Variable that gets the number of rows; None for none.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    require_static("accuracy")
    found = share_of_hits(input, label, k)
    if correct is not None or total is not None:
        with NoTape():
            one = ops.full_like(label, value=1.0, dtype=as_dtype("float32"))
            rows = ops.sum(one)
            for out, value in ((total, rows), (correct, ops.mul(rows, found))):
                if out is not None:
                    like = ops.reshape(ops.round(value), shape=list(out.shape))
                    out[...] = ops.cast(like, dtype=out.dtype)
    return found


def _counts(where: str, shape: list[int], dtype: str) -> Any:
    """A Variable of zeros that lasts from run to run."""
    builder = require_static(where)
    return builder.state(unique_name(where), shape, as_dtype(dtype), Constant(0.0))


def _histogram(bins: Tensor, counted: Tensor, count: int) -> Tensor:
    """How many of the counted elements are in each bin, (count,)."""
    places = ops.reshape(bins, shape=[-1, 1])
    like = ops.full(shape=[count], value=0.0, dtype=as_dtype("int64"))
    return ops.scatter_nd_like(ops.reshape(counted, shape=[-1]), places, like)


def _area(positive: Tensor, negative: Tensor) -> Tensor:
    """The area under the curve of true over false positives, by trapezoids; 0 if there
    are none of a kind.
    """
    kind = as_dtype("float64")
    hits, misses = (ops.cast(t, dtype=kind) for t in (positive, negative))
    total = ops.sum(hits)
    # Between the positive rows of greater scores and those of the same bin, too.
    heights = ops.add(ops.sub(total, ops.cumsum(hits, axis=0)), ops.mul(hits, 0.5))
    whole = ops.mul(total, ops.sum(misses))
    area = ops.div(ops.sum(ops.mul(misses, heights)), ops.maximum(whole, 1.0))
    return ops.where(ops.greater_than(whole, 0.0), area, 0.0)


def auc(
    input: Tensor,
    label: Tensor,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Tensor | None = None,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The area under the ROC curve, of all runs and of the latest ones.

    Scores are counted in num_thresholds + 1 equal bins of [0, 1].

    Args:
        input: Scores (N, 2) of which the last is that of the positive class, or (N, 1).
        label: 0 or 1, (N, 1).
        curve: "ROC".
        num_thresholds: Number of bins, less 1.
        topk: Kept for callers.
        slide_steps: How many runs are the latest ones; 0 for all.
        ins_tag_weight: (N, 1); rows with 0 do not count.

    Returns:
        The area of all runs and that of the latest ones, float64 and 0-d, and the
        counts: of the latest runs' positive and negative rows (slide_steps, bins), and
        of those of all runs (1, bins).

    Raises:
        PreconditionNotMetError: In dynamic mode.
        UnimplementedError: If the curve is "PR".
        InvalidArgumentError: If another argument does not fit.
    """
    require_static("auc")
    if curve == "PR":
        raise UnimplementedError("[static.auc] curve must be 'ROC', got 'PR'")
    if curve != "ROC" or num_thresholds < 1 or slide_steps < 0:
        raise InvalidArgumentError(
            "[static.auc] curve must be 'ROC', num_thresholds positive and slide_steps "
            f"not negative, got {curve!r}, {num_thresholds} and {slide_steps}"
        )
    check_rank("static.auc", "input", input, 2, 2)
    count, whole = num_thresholds + 1, as_dtype("int64")
    latest = [_counts("auc", [max(slide_steps, 1), count], "int64") for _ in range(2)]
    every = [_counts("auc", [1, count], "int64") for _ in range(2)]
    with NoTape():
        bins = ops.cast(ops.mul(input[:, -1], float(num_thresholds)), dtype=whole)
        is_positive = ops.reshape(ops.cast(label, dtype=whole), shape=[-1])
        counted = ops.full_like(is_positive, value=1.0, dtype=whole)
        if ins_tag_weight is not None:
            given = ops.reshape(ins_tag_weight, shape=[-1])
            counted = ops.cast(ops.not_equal(given, 0.0), dtype=whole)
        hit = ops.mul(is_positive, counted)
        for k, chosen in enumerate((hit, ops.sub(counted, hit))):
            new = ops.reshape(_histogram(bins, chosen, count), shape=[1, count])
            every[k][...] = ops.add(every[k], new)
            if slide_steps:
                latest[k][...] = ops.concat(latest[k][1:], new, axis=0)
            else:
                latest[k][...] = ops.add(latest[k], new)
        areas = [
            _area(*(ops.sum(t, axis=[0]) for t in pair)) for pair in (every, latest)
        ]
    return areas[0], areas[1], [*latest, *every]


def ctr_metric_bundle(
    input: Tensor, label: Tensor, ins_tag_weight: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Sums over all runs, of which measures of click-through rates follow.

    Args:
        input: Probabilities (N, 1).
        label: 0 or 1, (N, 1), float32.
        ins_tag_weight: (N, 1); rows with 0 do not count.

    Returns:
        Variables of shape [1]: the sums of (input - label)^2, of |input - label|, of
        input and of sigmoid(input), the number of positive rows and that of rows.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    where = "ctr_metric_bundle"
    require_static(where)
    sums = [_counts(where, [1], "float32") for _ in range(6)]
    with NoTape():
        wide = as_dtype("float32")
        p, y = ops.cast(input, dtype=wide), ops.cast(label, dtype=wide)
        error = ops.sub(p, y)
        counted = ops.full_like(p, value=1.0, dtype=wide)
        if ins_tag_weight is not None:
            counted = ops.cast(ops.not_equal(ins_tag_weight, 0.0), dtype=wide)
        values = [ops.square(error), ops.abs(error), p, ops.sigmoid(p), y]
        for total, value in zip(sums, [*values, None], strict=True):
            each = counted if value is None else ops.mul(value, counted)
            total[...] = ops.add(total, ops.reshape(ops.sum(each), shape=[1]))
    square, absolute, chance, quality, positive, rows = sums
    return square, absolute, chance, quality, positive, rows
