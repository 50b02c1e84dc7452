"""Classical machine learning (the domain ai.onnx.ml): features, labels and trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa.interop.graph.values import Array, constant
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op

_DOMAIN = "ai.onnx.ml"


@onnx_op("ArrayFeatureExtractor", domain=_DOMAIN)
def array_feature_extractor(call: Call, x: Any, index: Any) -> Any:
    found = proa.index_select(x, proa.reshape(index, [-1]).astype("int64"), -1)
    return proa.unsqueeze(found, 0) if x.ndim == 1 else found


@onnx_op("Binarizer", domain=_DOMAIN)
def binarizer(call: Call, x: Any) -> Any:
    bound = proa.full_like(x, call.get("threshold", 0.0))
    return proa.greater_than(x, bound).astype(x.dtype)


# -- labels ----------------------------------------------------------------------------
#: Attributes by what they hold, with what stands for a label that has no key.
_KINDS = {
    "strings": ("default_string", "_Unused"), "int64s": ("default_int64", -1),
    "floats": ("default_float", 0.0), "tensor": ("default_tensor", None),
}  # fmt: skip
_TABLES = {"strings": np.str_, "int64s": np.int64, "floats": np.float32}


def _table(call: Call, side: str) -> tuple[str, Array]:
    """The kind and elements of the keys, or of the values."""
    for kind in _KINDS:
        given = call.get(f"{side}_{kind}")
        if given is not None:
            return kind, np.asarray(given, _TABLES.get(kind))
    raise call.refuse(f"no {side}")


def _default(call: Call, kind: str, values: Array) -> Array:
    name, otherwise = _KINDS[kind]
    given = call.get(name, otherwise)
    is_text = values.dtype.kind in "OSU"
    if given is None:
        given = "_Unused" if is_text else 0
    return np.asarray(given, np.str_ if is_text else values.dtype).reshape(())


@onnx_op("LabelEncoder", domain=_DOMAIN, since=2)
def label_encoder(call: Call, x: Any) -> Any:
    _, keys = _table(call, "keys")
    kind, values = _table(call, "values")
    default = _default(call, kind, values)
    if isinstance(x, np.ndarray) or values.dtype.kind in "OSU":
        known = dict(zip(keys.tolist(), values.tolist(), strict=True))
        array = call.host(x)
        found = [known.get(k, default.item()) for k in array.ravel().tolist()]
        return constant(np.array(found, default.dtype).reshape(array.shape))
    return _looked_up(x, keys, values, default)


def _looked_up(x: Any, keys: Array, values: Array, default: Array) -> Any:
    """The value of each number's key, or the default."""
    order = np.argsort(keys, kind="stable")  # NaN is last
    keys, values = keys[order], values[order]
    ranked = proa.to_tensor(keys.astype(x.dtype.name))
    at = proa.clip(proa.searchsorted(ranked, x), 0, len(keys) - 1)
    hit = proa.equal(proa.index_select(ranked, at.reshape([-1])).reshape(x.shape), x)
    if keys.dtype.kind == "f" and np.isnan(keys[-1]):
        last = proa.full_like(at, len(keys) - 1)
        at = proa.where(proa.isnan(x), last, at)
        hit = proa.logical_or(hit, proa.isnan(x))
    table = constant(values)
    found = proa.index_select(table, at.reshape([-1])).reshape(x.shape)
    return proa.where(hit, found, proa.full_like(found, default.item()))


# -- trees -----------------------------------------------------------------------------
#: Comparisons by the number of a node's mode; the last one is membership of a set.
_MODES: tuple[Callable[[Any, Any], Any], ...] = (
    proa.less_equal, proa.less_than, proa.greater_equal, proa.greater_than, proa.equal,
    proa.not_equal,
)  # fmt: skip
_MEMBER = len(_MODES)
_AVERAGE, _SUM, _MIN, _MAX = range(4)


class _Trees:
    """Trees as arrays, in which a leaf follows itself: places of nodes, then of leaves.

    Args:
        call: The node, whose attributes are the trees'.
    """

    def __init__(self, call: Call) -> None:
        modes = np.asarray(call.get("nodes_modes"), np.int64)
        self.count = count = len(modes)
        self.weights = np.asarray(call.get("leaf_weights"))
        self.targets = np.asarray(call.get("leaf_targetids"), np.int64)
        leaves = len(self.weights)
        self.next = [
            self._places(call, f"nodes_{side}nodeids", f"nodes_{side}leafs", leaves)
            for side in ("false", "true")
        ]
        self.roots = np.asarray(call.get("tree_roots"), np.int64)
        none = np.zeros(leaves, np.int64)
        self.modes = np.concatenate([modes, none])
        features = np.asarray(call.get("nodes_featureids"), np.int64)
        self.features = np.concatenate([features, none])
        splits = np.asarray(call.get("nodes_splits"))
        self.splits = np.concatenate([splits, none.astype(splits.dtype)])
        missing = call.get("nodes_missing_value_tracks_true") or [0] * count
        self.missing = np.concatenate([np.asarray(missing, bool), none.astype(bool)])
        self.members = self._sets(call.get("membership_values"))
        self.depth = self._depth(call)

    def _places(self, call: Call, ids: str, are_leaves: str, leaves: int) -> Array:
        """The places that follow each place on one side."""
        own = np.asarray(call.get(ids), np.int64)
        is_leaf = np.asarray(call.get(are_leaves), bool)
        limit = np.where(is_leaf, leaves, self.count)
        if ((own < 0) | (own >= limit)).any():
            raise IndexError(f"{ids} outside {self.count} nodes and {leaves} leaves")
        found = np.where(is_leaf, own + self.count, own)
        return np.concatenate([found, np.arange(leaves) + self.count])

    def _sets(self, values: Any) -> Array:
        """(places, k): the members of each place's set, filled up with NaN."""
        at = np.flatnonzero(self.modes == _MEMBER)
        numbers = np.asarray([] if values is None else values, self.splits.dtype)
        ends = np.flatnonzero(np.isnan(numbers))
        if len(ends) != len(at):
            raise ValueError(f"{len(ends)} sets for {len(at)} nodes of membership")
        sets = np.split(numbers, ends + 1)[: len(at)]
        size = max((len(s) for s in sets), default=0)
        found = np.full((len(self.modes), size), np.nan, self.splits.dtype)
        for place, own in zip(at, sets, strict=True):
            found[place, : len(own)] = own
        return found

    def _depth(self, call: Call) -> int:
        """How many steps lead from the roots to leaves."""
        places = np.unique(self.roots)
        if len(places) and (places[0] < 0 or places[-1] >= self.count):
            raise IndexError(f"tree_roots outside {self.count} nodes")
        for depth in range(self.count + 1):
            if (places >= self.count).all():
                return depth
            places = np.unique(np.concatenate([n[places] for n in self.next]))
        raise call.refuse("nodes that lead back to themselves")


def _taken(table: Array, at: Any) -> Any:
    """The table's elements (or rows) at places (b, trees)."""
    found = proa.index_select(proa.to_tensor(table), proa.reshape(at, [-1]), 0)
    return proa.reshape(found, [-1, at.shape[1], *table.shape[1:]])


def _holds(trees: _Trees, at: Any, x: Any) -> Any:
    """Whether each place's comparison holds for the features (b, trees)."""
    value = proa.take_along_axis(x, _taken(trees.features, at), 1)
    mode, split = _taken(trees.modes, at), _taken(trees.splits, at).astype(x.dtype)
    found = proa.logical_and(_taken(trees.missing, at), proa.isnan(value))
    for number in np.unique(trees.modes).tolist():
        if number < _MEMBER:
            test = _MODES[number](value, split)
        else:
            own = _taken(trees.members, at).astype(x.dtype)
            test = proa.any(proa.equal(proa.unsqueeze(value, 2), own), 2)
        chosen = proa.equal(mode, proa.full_like(mode, number))
        found = proa.logical_or(found, proa.logical_and(chosen, test))
    return found


@onnx_op("TreeEnsemble", domain=_DOMAIN, since=5)
def tree_ensemble(call: Call, x: Any) -> Any:
    trees = _Trees(call)
    if not 0 <= trees.modes.min(initial=0) <= trees.modes.max(initial=0) <= _MEMBER:
        raise call.refuse("a mode of nodes that the standard does not have")
    at = proa.zeros_like(x[:, :1]).astype("int64") + proa.to_tensor(trees.roots)
    for _ in range(trees.depth):
        follows = [_taken(table, at) for table in trees.next]
        at = proa.where(_holds(trees, at, x), follows[1], follows[0])
    leaf = at - trees.count
    weight = _taken(trees.weights, leaf).astype(x.dtype)
    found = _aggregated(
        weight, _taken(trees.targets, leaf), call.get("n_targets", 1),
        call.get("aggregate_function", _SUM),
    )  # fmt: skip
    return _transformed(call, found, call.get("post_transform", 0))


def _aggregated(weight: Any, target: Any, targets: int, how: int) -> Any:
    """The trees' weights (b, trees) for each target, (b, targets)."""
    mine = proa.equal(
        proa.unsqueeze(target, 2), proa.arange(targets, dtype="int64")
    )  # (b, trees, targets)
    wide = proa.unsqueeze(weight, 2) + proa.zeros_like(mine).astype(weight.dtype)
    if how in (_SUM, _AVERAGE):
        found = proa.where(mine, wide, proa.zeros_like(wide)).sum(1)
        return found / weight.shape[1] if how == _AVERAGE else found
    limits = np.finfo(weight.dtype.name)
    none = limits.max if how == _MIN else limits.min
    chosen = proa.where(mine, wide, proa.full_like(wide, float(none)))
    return chosen.min(1) if how == _MIN else chosen.max(1)


def _transformed(call: Call, scores: Any, how: int) -> Any:
    if how == 0:
        return scores
    functions: Sequence[Any] = (lambda y: F.softmax(y, -1), F.sigmoid)
    if how not in (1, 2):
        raise call.refuse(f"post_transform {how}")
    return functions[how - 1](scores)
