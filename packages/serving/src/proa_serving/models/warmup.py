"""Makes the inputs of the runs before a model serves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from proa_serving.models.settings import Warmup
from proa_serving.protocol.datatypes import datatype_of
from proa_serving.protocol.errors import ModelLoadError
from proa_serving.protocol.messages import Array, TensorSpec
from proa_serving.schedule.merge import Arrays

# A first run that nobody requested must not take much memory.
_MAX_BYTES = 2**28


def warmup_inputs(
    runs: Sequence[Warmup] | None, specs: Sequence[TensorSpec], name: str
) -> list[Arrays]:
    """The inputs of each run.

    Args:
        runs: As configured; None for one of zeros, where shapes are known.
        specs: The model's inputs; a dim 0 of any size is the batch.
        name: The model's, for errors.

    Raises:
        ModelLoadError: If a size is known neither by the model nor by its settings.
    """
    if runs is None:
        if any(-1 in spec.shape[1:] or spec.datatype == "BYTES" for spec in specs):
            return []
        if sum(math.prod(map(abs, spec.shape)) * 8 for spec in specs) > _MAX_BYTES:
            return []
        runs = [Warmup()]
    found: list[Arrays] = []
    for run in runs:
        arrays = {spec.name: _array(spec, run, name) for spec in specs}
        found += [arrays] * run.count
    return found


def _array(spec: TensorSpec, run: Warmup, name: str) -> Array:
    shape = list(spec.shape)
    batch = shape[:1] == [-1]
    if batch:
        shape[0] = run.rows
    said = run.shapes.get(spec.name)
    if said is not None:
        shape = [*shape[:1], *said] if batch else list(said)
    if -1 in shape or len(shape) != len(spec.shape):
        raise ModelLoadError(
            f"model {name}, warmup",
            f"shapes must say the sizes of {spec.name}, {list(spec.shape)}",
        )
    row = datatype_of(spec.datatype, f"input {spec.name!r}")
    if spec.datatype == "BYTES":
        text = np.empty(shape, object)
        text[...] = b""
        return text
    if not run.random:
        return np.zeros(shape, row.dtype)
    drawn = np.random.default_rng(0).random(shape)
    return (drawn if row.dtype.kind == "f" else drawn > 0.5).astype(row.dtype)
