"""Random numbers of Proa's generator, or of one that has the seed of the node."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.elementwise import dtype_of
from proa.interop.onnx.importer.table import onnx_op


def _seed(call: Call) -> int:
    """A seed of the bits of the node's, which is a float; 0 where it has none."""
    given = call.get("seed")
    return 0 if given is None else 1 + int(np.float32(given).view(np.uint32)) % 2**30


def _drawn(call: Call, shape: list[Any], dtype: Any) -> Any:
    # in float32 where the generator has no numbers of the dtype
    kind = dtype if dtype in ("float32", "float64") else "float32"
    if call.op.startswith("RandomNormal"):
        mean, scale = call.get("mean", 0.0), call.get("scale", 1.0)
        found = proa.gaussian(shape, mean, scale, _seed(call), kind)
    else:
        low, high = call.get("low", 0.0), call.get("high", 1.0)
        found = proa.uniform(shape, kind, low, high, _seed(call))
    return found.astype(dtype)


@onnx_op("RandomNormal", "RandomUniform", folds=False)
def random(call: Call) -> Any:
    return _drawn(call, call.get("shape"), dtype_of(call, call.get("dtype", 1)))


@onnx_op("RandomNormalLike", "RandomUniformLike", folds=False)
def random_like(call: Call, x: Any) -> Any:
    code = call.get("dtype")
    dtype = x.dtype.name if code is None else dtype_of(call, code)
    return _drawn(call, list(x.shape), dtype)


@onnx_op("Bernoulli", folds=False)
def bernoulli(call: Call, x: Any) -> Any:
    code = call.get("dtype")
    if call.get("seed") is None:
        found = proa.bernoulli(x)
    else:
        seeded = proa.uniform(list(x.shape), "float32", 0.0, 1.0, _seed(call))
        found = proa.less_than(seeded.astype(x.dtype), x)
    return found.astype(x.dtype if code is None else dtype_of(call, code))


@onnx_op("Multinomial", folds=False)
def multinomial(call: Call, x: Any) -> Any:
    count = call.get("sample_size", 1)
    found = proa.multinomial(F.softmax(x.astype("float32"), -1), count, True)
    return found.astype(dtype_of(call, call.get("dtype", 6)))
