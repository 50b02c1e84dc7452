"""Boxes matched with those that a detector is to find, and the loss of an SSD."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.migrate.fluid.host_calls import Array, Like, Rows, on_host
from proa.migrate.fluid.layers.images import iou_similarity
from proa.migrate.fluid.layers.losses import smooth_l1
from proa.nn import functional as F
from proa.static.nn.sequence_arguments import sequences_of, with_sequences
from proa.vision.ops import box_coder

__all__ = ["bipartite_match", "ssd_loss", "target_assign"]

_SMALLEST = 1e-6


def _matched(scores: Array, by_column: float | None) -> tuple[Array, Array]:
    """For each column its row, -1 for none, and its score: pairs by falling score, of
    rows and columns that have none yet; then for other columns the best row of at least
    `by_column`.
    """
    rows, columns = scores.shape
    index = np.full(columns, -1, "int32")
    found = np.zeros(columns, scores.dtype)
    if not rows:
        return index, found
    left = np.where(scores < _SMALLEST, -1, scores)
    for _ in range(rows):
        j, i = np.unravel_index(left.T.argmax(), (columns, rows))
        if left[i, j] < 0:
            break
        index[j], found[j] = i, scores[i, j]
        left[i], left[:, j] = -1, -1
    if by_column is not None:
        best = scores.argmax(0)
        top = scores.max(0)
        more = (index < 0) & (top >= max(by_column, _SMALLEST))
        index[more], found[more] = best[more], top[more]
    return index, found


def bipartite_match(
    dist_matrix: Tensor,
    match_type: str | None = None,
    dist_threshold: float | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Rows matched with columns by their scores, the best pair first.

    Args:
        dist_matrix: Scores (rows, columns), whose rows may be sequences, one for each
            image.
        match_type: 'bipartite'; 'per_prediction' lets columns that are left have the
            best row of a score of at least dist_threshold.
        dist_threshold: That score, 0.5 if None.
        name: Has no meaning here.

    Returns:
        For each image (a row) the row of each column or -1, int32; and its score.
    """
    limit = 0.5 if dist_threshold is None else float(dist_threshold)
    more = limit if match_type == "per_prediction" else None

    def match(given: Any) -> list[Array]:
        parts = given.parts() if isinstance(given, Rows) else [given]
        found = [_matched(part, more) for part in parts]
        return [np.stack(column) for column in zip(*found, strict=True)]

    columns = int(dist_matrix.shape[1])
    shape = (None, columns if columns >= 0 else None)
    likes = [Like("int32", shape), Like(dist_matrix.dtype.name, shape)]
    index, score = on_host(match, [dist_matrix], likes)
    return index, score


def target_assign(
    input: Tensor,
    matched_indices: Tensor,
    negative_indices: Tensor | None = None,
    mismatch_value: float | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """What `bipartite_match` found for each column, with weights.

    Args:
        input: Sequences of rows (rows, K), or (rows, columns, K).
        matched_indices: (images, columns), -1 for columns without a row.
        negative_indices: Sequences of columns (n, 1) that have none and count as such.
        mismatch_value: What columns without a row have; 0 if None.
        name: Has no meaning here.

    Returns:
        (images, columns, K), and weights (images, columns, 1): 1 of columns with a row
        and of those in negative_indices, else 0.
    """
    other = 0 if mismatch_value is None else mismatch_value

    def assign(rows: Rows, index: Array, *negative: Rows) -> list[Array]:
        array = rows.array
        grid = array if array.ndim == 3 else array[:, None]
        shape = (*index.shape, grid.shape[2])
        out = np.full(shape, other, array.dtype)
        weight = np.zeros((*index.shape, 1), "float32")
        starts = np.cumsum([0, *rows.lengths[-1]])
        image, column = np.nonzero(index > -1)
        row = starts[image] + index[image, column]
        out[image, column] = grid[row, column % grid.shape[1]]
        weight[image, column] = 1
        for own in negative:
            for i, part in enumerate(own.parts()):
                out[i, part.reshape(-1)], weight[i, part.reshape(-1)] = other, 1
        return [out, weight]

    last = int(input.shape[-1])
    columns = int(matched_indices.shape[1])
    known = columns if columns >= 0 else None
    likes = [
        Like(input.dtype.name, (None, known, last)),
        Like("float32", (None, known, 1)),
    ]
    given = [input, matched_indices]
    given += [] if negative_indices is None else [negative_indices]
    out, weight = on_host(assign, given, likes)
    return out, weight


def _hard_negatives(loss: Array, index: Array, score: Array, ratio: float,
                    overlap: float) -> Rows:  # fmt: skip
    """Columns (n, 1) without a row, of the greatest losses of each image."""
    found = []
    for own, rows, scores in zip(loss, index, score, strict=True):
        (free,) = np.nonzero((rows < 0) & (scores < overlap))
        count = min(int((rows >= 0).sum() * ratio), len(free))
        found.append(np.sort(free[np.argsort(-own[free], kind="stable")[:count]]))
    whole = np.concatenate(found).reshape(-1, 1)
    return Rows(whole.astype("int32"), [[len(part) for part in found]])


def ssd_loss(
    location: Tensor,
    confidence: Tensor,
    gt_box: Tensor,
    gt_label: Tensor,
    prior_box: Tensor,
    prior_box_var: Tensor | None = None,
    background_label: int = 0,
    overlap_threshold: float = 0.5,
    neg_pos_ratio: float = 3.0,
    neg_overlap: float = 0.5,
    loc_loss_weight: float = 1.0,
    conf_loss_weight: float = 1.0,
    match_type: str = "per_prediction",
    mining_type: str = "max_negative",
    normalize: bool = True,
    sample_size: int | None = None,
) -> Tensor:
    """The loss of a single-shot detector (Liu et al., 2016), (images, 1).

    Args:
        location: Codes of boxes (images, priors, 4).
        confidence: Scores of classes (images, priors, classes).
        gt_box: The boxes to find, sequences of rows (n, 4).
        gt_label: Their classes (n, 1).
        prior_box: (priors, 4).
        prior_box_var: Variances of the priors.
        background_label: The class of nothing.
        overlap_threshold: Overlap from which a prior has a box.
        neg_pos_ratio: How many priors without a box count for one with a box.
        neg_overlap: Overlap below which they may.
        loc_loss_weight: Factor of the loss of places.
        conf_loss_weight: Factor of the loss of classes.
        match_type: As `bipartite_match` has it.
        mining_type: Must be 'max_negative'.
        normalize: Whether to divide by the number of priors with a box.
        sample_size: Has no meaning for 'max_negative'.

    Raises:
        InvalidArgumentError: For another mining_type.
    """
    if mining_type != "max_negative":
        raise InvalidArgumentError(
            f"[ssd_loss] mining_type must be 'max_negative', got {mining_type!r}"
        )
    classes = int(confidence.shape[-1])
    priors = int(prior_box.shape[0])
    own = sequences_of("ssd_loss", gt_box)
    label = with_sequences(proa.reshape(gt_label, [-1, 1]), own)
    index, score = bipartite_match(
        iou_similarity(gt_box, prior_box), match_type, overlap_threshold
    )
    logits = proa.reshape(confidence, [-1, classes])

    def class_loss(labels: Tensor) -> Tensor:
        ids = proa.cast(proa.reshape(labels, [-1, 1]), "int64").detach()
        return proa.reshape(F.cross_entropy(logits, ids, reduction="none"), [-1, 1])

    target, _ = target_assign(label, index, mismatch_value=background_label)
    each = proa.reshape(class_loss(target), [-1, priors]).detach()

    def mine(loss: Array, rows: Array, scores: Array) -> Rows:
        return _hard_negatives(loss, rows, scores, neg_pos_ratio, neg_overlap)

    (negative,) = on_host(mine, [each, index, score], [Like("int32", (None, 1), 1)])
    code = box_coder(prior_box, prior_box_var, gt_box)
    places, place_weight = target_assign(
        with_sequences(code, own), index, mismatch_value=background_label
    )
    target, class_weight = target_assign(label, index, negative, background_label)
    classified = class_loss(target) * proa.reshape(class_weight, [-1, 1])
    placed = smooth_l1(
        proa.reshape(location, [-1, 4]), proa.reshape(places, [-1, 4])
    ) * proa.reshape(place_weight, [-1, 1])
    loss = classified * conf_loss_weight + placed * loc_loss_weight
    total = proa.sum(proa.reshape(loss, [-1, priors]), 1, keepdim=True)
    return total / proa.sum(place_weight) if normalize else total
