"""Ensembles of decision trees (the domain ai.onnx.ml).

A forest is a table of places, which are nodes and leaves. A leaf follows itself, so
that as many steps as the deepest tree has levels lead each row of features to leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa.interop.graph.values import Array, constant, is_symbolic
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.classical import DOMAIN
from proa.interop.onnx.importer.table import onnx_op

#: Comparisons by the number of a node's mode; the one after them is membership of a
#: set, and the last one is that of a leaf.
_MODES: tuple[Callable[[Any, Any], Any], ...] = (
    proa.less_equal, proa.less_than, proa.greater_equal, proa.greater_than, proa.equal,
    proa.not_equal,
)  # fmt: skip
_MEMBER = len(_MODES)
_LEAF = _MEMBER + 1
_MODE_NAMES = {
    name: mode
    for mode, name in enumerate(
        (
            "BRANCH_LEQ",
            "BRANCH_LT",
            "BRANCH_GTE",
            "BRANCH_GT",
            "BRANCH_EQ",
            "BRANCH_NEQ",
        )
    )
} | {"LEAF": _LEAF}
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
#: The greatest table of votes.
_LIMIT = 1 << 28


@dataclass(frozen=True)
class Forest:
    """Trees as arrays over places.

    Attributes:
        roots: The place of each tree's root.
        below: The places that follow if a node's comparison fails, and if it holds.
        modes, features, splits: What a node compares, with which number, and how.
        missing: Whether a node's comparison holds for NaN.
        members: The members of a node's set, filled up with NaN, (places, k).
        leaf: The row of `votes` of a place.
        votes: The weight that a leaf adds to each target, (leaves, targets).
        voted: Whether a leaf has a weight for a target.
    """

    roots: Array
    below: tuple[Array, Array]
    modes: Array
    features: Array
    splits: Array
    missing: Array
    members: Array
    leaf: Array
    votes: Array
    voted: Array


def _table_of_votes(
    call: Call, leaves: int, targets: int, at: Array, ids: Array, weights: Array
) -> tuple[Array, Array]:
    """`votes` and `voted` of weights for a target each, at rows of leaves."""
    if targets < 1 or leaves * targets > _LIMIT:
        raise call.refuse(f"{leaves} leaves with {targets} targets")
    if not len(at) == len(ids) == len(weights):
        raise ValueError(f"{len(weights)} weights for {len(ids)} targets")
    if ((ids < 0) | (ids >= targets)).any():
        raise IndexError(f"a leaf's target outside {targets}")
    votes, voted = (
        np.zeros((leaves, targets), weights.dtype),
        np.zeros((leaves, targets)),
    )
    np.add.at(votes, (at, ids), weights)
    voted[at, ids] = 1
    return votes, voted.astype(bool)


# -- the attributes of TreeEnsemble ----------------------------------------------------
def _forest(call: Call) -> Forest:
    """The trees of TreeEnsemble, whose leaves have one weight each."""
    modes = np.asarray(call.get("nodes_modes"), np.int64)
    if not 0 <= modes.min(initial=0) <= modes.max(initial=0) <= _MEMBER:
        raise call.refuse("a mode of nodes that the standard does not have")
    weights, count = np.asarray(call.get("leaf_weights")), len(modes)
    leaves, own = len(weights), np.arange(len(weights))
    below = [
        _places(call, f"nodes_{side}nodeids", f"nodes_{side}leafs", count, leaves)
        for side in ("false", "true")
    ]
    splits, missing = np.asarray(call.get("nodes_splits")), _missing(call, count)
    none = np.zeros(leaves, np.int64)
    votes, voted = _table_of_votes(
        call, leaves, call.get("n_targets", 1), own,
        np.asarray(call.get("leaf_targetids"), np.int64), weights,
    )  # fmt: skip
    features = np.asarray(call.get("nodes_featureids"), np.int64)
    return Forest(
        roots=np.asarray(call.get("tree_roots"), np.int64),
        below=(below[0], below[1]),
        modes=np.concatenate([modes, none + _LEAF]),
        features=np.concatenate([features, none]),
        splits=np.concatenate([splits, none.astype(splits.dtype)]),
        missing=np.concatenate([missing, none.astype(bool)]),
        members=_sets(modes, splits.dtype, leaves, call.get("membership_values")),
        leaf=np.concatenate([np.zeros(count, np.int64), own]),
        votes=votes,
        voted=voted,
    )


def _missing(call: Call, count: int) -> Array:
    given = call.get("nodes_missing_value_tracks_true") or [0] * count
    return np.asarray(given, bool)


def _places(call: Call, ids: str, are_leaves: str, count: int, leaves: int) -> Array:
    """The places that follow each place on one side."""
    own = np.asarray(call.get(ids), np.int64)
    is_leaf = np.asarray(call.get(are_leaves), bool)
    limit = np.where(is_leaf, leaves, count)
    if ((own < 0) | (own >= limit)).any():
        raise IndexError(f"{ids} outside {count} nodes and {leaves} leaves")
    found = np.where(is_leaf, own + count, own)
    return np.concatenate([found, np.arange(leaves) + count])


def _sets(modes: Array, dtype: Any, leaves: int, values: Any) -> Array:
    """The members of each place's set, filled up with NaN."""
    at = np.flatnonzero(modes == _MEMBER)
    numbers = np.asarray([] if values is None else values, dtype)
    ends = np.flatnonzero(np.isnan(numbers))
    if len(ends) != len(at):
        raise ValueError(f"{len(ends)} sets for {len(at)} nodes of membership")
    sets = np.split(numbers, ends + 1)[: len(at)]
    size = max((len(s) for s in sets), default=0)
    found = np.full((len(modes) + leaves, size), np.nan, dtype)
    for place, own in zip(at, sets, strict=True):
        found[place, : len(own)] = own
    return found


# -- the attributes of the older operators ---------------------------------------------
def _numbers(call: Call, name: str) -> Array:
    """Floats, or doubles of the attribute that has these."""
    wide = call.get(f"{name}_as_tensor")
    if wide is not None:
        return np.asarray(wide).reshape(-1)
    return np.asarray(call.get(name) or [], np.float32)


def _older_forest(call: Call, votes_of: str, targets: int) -> Forest:
    """The trees of TreeEnsembleRegressor (votes of "target") or Classifier ("class").

    Nodes are named by a tree's number and their own; a leaf is a node, and has any
    number of weights.
    """
    trees, nodes = _names(call, "nodes")
    named = [t.decode() if isinstance(t, bytes) else t for t in call.get("nodes_modes")]
    if unknown := set(named) - set(_MODE_NAMES):
        raise call.refuse(f"the mode {min(unknown)} of nodes")
    modes = np.array([_MODE_NAMES[name] for name in named], np.int64)
    is_leaf, own = modes == _LEAF, np.arange(len(modes))
    find = _Finder(trees, nodes)
    below = []
    for side in ("false", "true"):
        ids = np.asarray(call.get(f"nodes_{side}nodeids"), np.int64)
        at = own.copy()
        at[~is_leaf] = find(trees[~is_leaf], ids[~is_leaf])
        below.append(at)
    roots = _roots(call, trees, is_leaf, below)
    rows = np.cumsum(is_leaf) - 1
    voters = find(*_names(call, votes_of))
    if not is_leaf[voters].all():
        raise call.refuse("weights of nodes that are not leaves")
    votes, voted = _table_of_votes(
        call, int(is_leaf.sum()), targets, rows[voters],
        np.asarray(call.get(f"{votes_of}_ids"), np.int64),
        _numbers(call, f"{votes_of}_weights"),
    )  # fmt: skip
    return Forest(
        roots, (below[0], below[1]), modes,
        np.asarray(call.get("nodes_featureids"), np.int64),
        _numbers(call, "nodes_values"), _missing(call, len(modes)),
        np.zeros((len(modes), 0)), np.maximum(rows, 0), votes, voted,
    )  # fmt: skip


def _roots(call: Call, trees: Array, is_leaf: Array, below: list[Array]) -> Array:
    """The node of each tree from which each other node is reached in one way."""
    count = np.zeros(len(trees), np.int64)
    for at in below:
        np.add.at(count, at[~is_leaf], 1)
    roots = found = np.flatnonzero(count == 0)
    reached = 0
    while len(found) and reached <= len(trees):
        reached += len(found)
        inner = found[~is_leaf[found]]
        found = np.concatenate([at[inner] for at in below])
    if reached != len(trees) or len(roots) != len(np.unique(trees)):
        raise call.refuse("nodes that are not trees")
    return roots


def _names(call: Call, kind: str) -> tuple[Array, Array]:
    """The numbers of trees and of their nodes."""
    trees, nodes = (
        np.asarray(call.get(f"{kind}_{part}"), np.int64)
        for part in ("treeids", "nodeids")
    )
    if trees.shape != nodes.shape:
        raise ValueError(f"{len(nodes)} nodes in {len(trees)} trees")
    return trees, nodes


class _Finder:
    """The places of nodes that a tree's number and their own name.

    Args:
        trees, nodes: The names of all places.
    """

    def __init__(self, trees: Array, nodes: Array) -> None:
        self._order = np.lexsort((nodes, trees))
        pairs = np.stack([trees, nodes], 1)[self._order]
        self._keys = self._key(pairs)
        if (self._keys[1:] == self._keys[:-1]).any():
            raise ValueError("two nodes of one name")

    @staticmethod
    def _key(pairs: Array) -> Array:
        """Pairs as records, which NumPy orders as (tree, node)."""
        kinds = [("tree", np.int64), ("node", np.int64)]
        records: Array = np.ascontiguousarray(pairs).view(kinds).reshape(-1)
        return records

    def __call__(self, trees: Array, nodes: Array) -> Array:
        wanted = self._key(np.stack([trees, nodes], 1))
        at = np.searchsorted(self._keys, wanted).clip(0, max(len(self._keys) - 1, 0))
        if len(wanted) and (not len(self._keys) or (self._keys[at] != wanted).any()):
            raise IndexError("a node that its tree does not have")
        found: Array = self._order[at]
        return found


# -- from features to scores -----------------------------------------------------------
def _depth(call: Call, forest: Forest) -> int:
    """How many steps lead from the roots to leaves."""
    is_leaf = forest.modes == _LEAF
    places = np.unique(forest.roots)
    if len(places) and (places[0] < 0 or places[-1] >= len(is_leaf)):
        raise IndexError(f"tree_roots outside {len(is_leaf)} nodes")
    for depth in range(len(is_leaf) + 1):
        if is_leaf[places].all():
            return depth
        places = np.unique(np.concatenate([n[places] for n in forest.below]))
    raise call.refuse("nodes that form a cycle")


def _taken(table: Array, at: Any) -> Any:
    """The table's elements (or rows) at places (b, trees)."""
    found = proa.index_select(proa.to_tensor(table), proa.reshape(at, [-1]), 0)
    return proa.reshape(found, [-1, at.shape[1], *table.shape[1:]])


def _is_true(forest: Forest, at: Any, x: Any) -> Any:
    """Whether each place's comparison holds for the features (b, trees)."""
    value = proa.take_along_axis(x, _taken(forest.features, at), 1)
    mode, split = _taken(forest.modes, at), _taken(forest.splits, at).astype(x.dtype)
    found = proa.logical_and(_taken(forest.missing, at), proa.isnan(value))
    for number in np.unique(forest.modes[forest.modes < _LEAF]).tolist():
        if number < _MEMBER:
            test = _MODES[number](value, split)
        else:
            own = _taken(forest.members, at).astype(x.dtype)
            test = proa.any(proa.equal(proa.unsqueeze(value, 2), own), 2)
        chosen = proa.equal(mode, proa.full_like(mode, number))
        found = proa.logical_or(found, proa.logical_and(chosen, test))
    return found


def _scores(call: Call, forest: Forest, x: Any, how: str) -> Any:
    """What the leaves that rows of features come to give each target, (b, targets)."""
    if how not in _AGGREGATES:
        raise call.refuse(f"aggregate_function {how}")
    at = proa.zeros_like(x[:, :1]).astype("int64") + proa.to_tensor(forest.roots)
    for _ in range(_depth(call, forest)):
        below = [_taken(table, at) for table in forest.below]
        at = proa.where(_is_true(forest, at, x), below[1], below[0])
    leaf = _taken(forest.leaf, at)
    weight = _taken(forest.votes, leaf).astype(x.dtype)  # (b, trees, targets)
    if how in ("SUM", "AVERAGE"):
        found = weight.sum(1)
        return found / weight.shape[1] if how == "AVERAGE" else found
    limits = np.finfo(weight.dtype.name)
    none = float(limits.max if how == "MIN" else limits.min)
    chosen = proa.where(
        _taken(forest.voted, leaf), weight, proa.full_like(weight, none)
    )
    return chosen.min(1) if how == "MIN" else chosen.max(1)


def _probit(y: Any) -> Any:
    """The normal quantile, by Winitzki's approximation of erf's inverse (2008), which
    those who run such models use.
    """
    a = 0.147
    x = 2.0 * y - 1.0
    log = proa.log((1.0 - x) * (1.0 + x))
    half = 2.0 / (math.pi * a) + 0.5 * log
    inverse = proa.sqrt(proa.sqrt(half * half - log / a) - half)
    return math.sqrt(2.0) * proa.where(x < 0.0, -inverse, inverse)


def _softmax_zero(y: Any) -> Any:
    """Softmax in which 0 has no share."""
    power = proa.exp(y - proa.max(y, -1, True))
    power = proa.where(proa.abs(y) > 1e-7, power, proa.zeros_like(power))
    return power / proa.sum(power, -1, keepdim=True)


def _transformed(call: Call, scores: Any, how: str) -> Any:
    functions: dict[str, Callable[[Any], Any]] = {
        "NONE": lambda y: y, "SOFTMAX": lambda y: F.softmax(y, -1),
        "LOGISTIC": F.sigmoid, "SOFTMAX_ZERO": _softmax_zero, "PROBIT": _probit,
    }  # fmt: skip
    if how not in functions:
        raise call.refuse(f"post_transform {how}")
    return functions[how](scores)


def _named(call: Call, name: str, names: tuple[str, ...], usual: str) -> str:
    """An attribute that is a name, or since TreeEnsemble its number."""
    given = call.get(name, usual)
    if isinstance(given, int):
        if not 0 <= given < len(names):
            raise call.refuse(f"{name} {given}")
        return names[given]
    return given.decode() if isinstance(given, bytes) else str(given)


# -- the operators ---------------------------------------------------------------------
@onnx_op("TreeEnsemble", domain=DOMAIN, since=5)
def tree_ensemble(call: Call, x: Any) -> Any:
    how = _named(call, "aggregate_function", _AGGREGATES, "SUM")
    found = _scores(call, _forest(call), x, how)
    return _transformed(
        call, found, _named(call, "post_transform", _TRANSFORMS, "NONE")
    )


def _features(x: Any) -> Any:
    """Features as floats, those of one example as a row."""
    x = x if x.dtype.is_floating else x.astype("float32")
    return proa.unsqueeze(x, 0) if x.ndim == 1 else x


@onnx_op("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(call: Call, x: Any) -> Any:
    targets = call.get("n_targets", 1)
    forest = _older_forest(call, "target", targets)
    how = _named(call, "aggregate_function", _AGGREGATES, "SUM")
    found = _scores(call, forest, _features(x), how)
    if how in ("MIN", "MAX"):  # a target for which no leaf of a row votes
        limit = np.finfo(found.dtype.name).max
        found = proa.where(proa.abs(found) < float(limit), found, 0.0)
    base = _numbers(call, "base_values")
    if len(base):
        found = found + proa.to_tensor(base).astype(found.dtype)
    how = _named(call, "post_transform", _TRANSFORMS, "NONE")
    return _transformed(call, found, how).astype("float32")


@onnx_op("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(call: Call, x: Any) -> Any:
    texts, numbers = call.get("classlabels_strings"), call.get("classlabels_int64s")
    labels = np.asarray(texts or numbers or [], np.str_ if texts else np.int64)
    if not len(labels):
        raise call.refuse("no labels")
    forest = _older_forest(call, "class", len(labels))
    scores = _scores(call, forest, _features(x), "SUM")
    base = _numbers(call, "base_values")
    how = _named(call, "post_transform", _TRANSFORMS, "NONE")
    ids = np.unique(np.asarray(call.get("class_ids"), np.int64))
    if len(labels) == 2 and len(ids) == 1:
        best, found = _of_one(call, scores, int(ids[0]), forest, base, how)
    else:
        if len(base):
            scores = scores + proa.to_tensor(base).astype(scores.dtype)
        found = _transformed(call, scores, how)
        best = proa.argmax(found, -1)
    return _labelled(call, labels, best), found.astype("float32")


def _of_one(
    call: Call, scores: Any, voted: int, forest: Forest, base: Array, how: str
) -> tuple[Any, Any]:
    """The classes and scores of two classes, of which leaves vote for one.

    The standard does not say what such trees mean. As onnxruntime has it, votes of
    which none is negative add up to the probability of the second class, others to its
    logit; votes for the first class are votes for the second one too.
    """
    score = scores[:, voted : voted + 1]
    if len(base):  # some writers have one base value for this score
        score = score + float(base[-1])
    are_shares = bool((forest.votes >= 0).all())
    best = score > (0.5 if are_shares else 0.0)
    if voted == 1:
        first = proa.full_like(score, float(base[0]) if len(base) == 2 else 0.0)
        found = _transformed(call, proa.concat([first, score], 1), how)
    elif how == "LOGISTIC":
        found = F.sigmoid(proa.concat([-score, score], 1))
    else:
        first = 1.0 - score if are_shares else -score
        found = proa.concat([first, score], 1)
        found = _probit(found) if how == "PROBIT" else found
    return proa.reshape(best, [-1]).astype("int64"), found


def _labelled(call: Call, labels: Array, best: Any) -> Any:
    """The labels of classes."""
    if labels.dtype.kind == "U":
        if is_symbolic(best):
            raise call.refuse("labels of text in a recorded graph")
        return labels[best.numpy()]
    return proa.index_select(constant(labels), best, 0)
