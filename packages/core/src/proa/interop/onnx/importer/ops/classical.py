"""Classical machine learning (the domain ai.onnx.ml): features and labels."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa.interop.graph.values import Array, constant
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op

DOMAIN = "ai.onnx.ml"


@onnx_op("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(call: Call, x: Any, index: Any) -> Any:
    found = proa.index_select(x, proa.reshape(index, [-1]).astype("int64"), -1)
    return proa.unsqueeze(found, 0) if x.ndim == 1 else found


@onnx_op("Binarizer", domain=DOMAIN)
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


@onnx_op("LabelEncoder", domain=DOMAIN, since=2)
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
