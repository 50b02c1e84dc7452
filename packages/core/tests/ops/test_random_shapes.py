"""Operators against their references on random shapes: empty, 0-d, odd and large.

The records hold the cases that a kernel's author thought of; these are the others.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import pytest

from proa.schema import ROWS

from . import samples
from .sample import SAMPLES, Case, Sample
from .sample_runner import LAYOUTS, compare, draw, dtypes_of, reference, run, tensor_of

samples.load()

ROUNDS = 12
DTYPES = ("float32", "float64", "int32", "bool", "complex64")
SIZES = (0, 1, 1, 2, 3, 5, 8, 17)
#: Beyond the cut into chunks for threads, and no multiple of a vector's length.
LARGE = ((100_003,), (3, 33_331), (257, 1, 389))


def family(sample: Sample) -> str | None:
    """How to make calls of this op up: by element, by axes, by one axis; or None."""
    row = ROWS[sample.name]
    if sample.ref is None or row.mutates or not sample.cases:
        return None
    drawn = all(isinstance(given, tuple) for given in sample.cases[0].inputs)
    attributes = {a.name: a.type for a in row.attributes}
    if row.elementwise and drawn:
        return "element"
    if len(row.arrays) != 1 or row.arrays[0].variadic or not drawn:
        return None
    if attributes == {"axis": "ints", "keepdim": "bool"}:
        return "axes"
    if attributes.get("axis") == "int" and row.shape == "along_axis":
        return "axis"
    return None


FAMILIES = [(s, family(s)) for s in SAMPLES.values() if family(s) is not None]


def shapes_of(rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast with each other."""
    whole = tuple(int(rng.choice(SIZES)) for _ in range(rng.integers(0, 5)))
    shapes = [whole]
    for _ in range(count - 1):
        other = tuple(1 if rng.random() < 0.3 else n for n in whole)
        shapes.append(other[int(rng.integers(0, len(whole) + 1)) :])
    return shapes


def random_case(
    sample: Sample, kind: str, rng: np.random.Generator, large: bool
) -> Case:
    count = len(sample.cases[0].inputs)
    one = LARGE[int(rng.integers(len(LARGE)))]
    shapes = [one] * count if large else shapes_of(rng, count)
    if ROWS[sample.name].shape != "broadcast":
        shapes = shapes[:1] * count
    attrs: dict[str, Any] = dict(sample.cases[0].attrs)
    rank = len(shapes[0])
    if kind == "axes":
        some = rng.permutation(rank)[: rng.integers(0, rank + 1)]
        attrs = {"axis": [int(a) for a in some], "keepdim": bool(rng.integers(2))}
    elif kind == "axis":
        attrs["axis"] = int(rng.integers(-rank, rank)) if rank else 0
    return Case(tuple(shapes), attrs)


def check(sample: Sample, case: Case, dtype: str, layout: str) -> None:
    arrays = draw(sample, case, dtype)
    try:
        want = reference(sample, arrays, case.attrs)
    except ValueError:  # NumPy has no maximum of nothing
        assert 0 in case.inputs[0]
        return
    tensors = [tensor_of(a, dtype, layout) for a in arrays]
    compare(sample, dtype, run(ROWS[sample.name], tensors, case.attrs), want)


@pytest.mark.parametrize(
    ("sample", "kind"), [pytest.param(s, k, id=s.name) for s, k in FAMILIES]
)
def test_calls_of_random_shapes_equal_the_reference(sample: Sample, kind: str):
    rng = np.random.default_rng(zlib.crc32(sample.name.encode()))
    dtypes = [d for d in DTYPES if d in dtypes_of(sample)]
    if "prod" in sample.name:
        dtypes.remove("complex64")  # long products leave its range
    for i in range(ROUNDS):
        case = random_case(sample, kind, rng, large=False)
        for dtype in dtypes:
            check(sample, case, dtype, LAYOUTS[i % 4])


@pytest.mark.parametrize(
    ("sample", "kind"), [pytest.param(s, k, id=s.name) for s, k in FAMILIES]
)
def test_large_calls_equal_the_reference(sample: Sample, kind: str):
    rng = np.random.default_rng(zlib.crc32(sample.name.encode()))
    dtype = next(d for d in DTYPES if d in dtypes_of(sample))
    case = random_case(sample, kind, rng, large=True)
    assert math.prod(case.inputs[0]) > 99_000
    check(sample, case, dtype, LAYOUTS[int(rng.integers(4))])


def test_almost_all_families_are_covered():
    assert len(FAMILIES) > 90
