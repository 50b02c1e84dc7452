"""Every shape rule on unknown dimensions: it may say less, never otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from proa import _core
from proa.ir.attributes import pack
from proa.schema import ROWS
from proa.schema.dtypes import CODES

from . import samples
from .sample import SAMPLES, Case, Sample
from .trial import draw, dtypes_of, numpy_of, run, tensor_of

samples.load()

#: The array whose last dimension is a number of coordinates: it must be known.
INDEX_DEPTH = {"gather_nd": 1, "index_put": 1, "scatter_nd_like": 1}

Spec = tuple[int, tuple[int, ...]]


def infer(name: str, specs: list[Spec | None], attrs: dict[str, Any]) -> list[Spec]:
    """(dtype code, shape) of the outputs."""
    outputs = _core.infer_shapes(name, specs, pack(name, attrs))
    return [(code, tuple(shape)) for code, shape in outputs]


def one_dimension_unknown(
    name: str, specs: list[Spec | None]
) -> list[list[Spec | None]]:
    """The same arrays, one dimension of one of them unknown, in every way.

    Left out are the dimensions that a rank depends on.
    """
    ways = []
    for i, spec in enumerate(specs):
        for axis in range(len(spec[1])) if spec is not None else ():
            assert spec is not None
            if name == "squeeze" and spec[1][axis] == 1:
                continue
            if INDEX_DEPTH.get(name) == i and axis == len(spec[1]) - 1:
                continue
            shape = tuple(-1 if a == axis else d for a, d in enumerate(spec[1]))
            ways.append([*specs[:i], (spec[0], shape), *specs[i + 1 :]])
    return ways


@pytest.mark.parametrize(
    ("sample", "case"),
    [
        pytest.param(s, c, id=f"{s.name}-{i}")
        for s in SAMPLES.values()
        for i, c in enumerate(s.cases)
    ],
)
def test_a_rule_says_less_of_unknown_dimensions_never_otherwise(
    sample: Sample, case: Case
):
    row = ROWS[sample.name]
    admitted = dtypes_of(sample)
    dtype = "float32" if "float32" in admitted else admitted[0]
    arrays = draw(sample, case, dtype)
    specs = [None if a is None else (CODES[a.dtype.name], a.shape) for a in arrays]
    known = infer(row.name, specs, case.attrs)
    results = run(row, [tensor_of(a, dtype) for a in arrays], case.attrs)
    assert [shape for _, shape in known] == [numpy_of(r).shape for r in results]
    for way in one_dimension_unknown(row.name, specs):
        told = infer(row.name, way, case.attrs)
        for (code, shape), (known_code, known_shape) in zip(told, known, strict=True):
            assert code == known_code
            assert len(shape) == len(known_shape)
            pairs = zip(shape, known_shape, strict=True)
            assert all(a in (-1, b) for a, b in pairs), (way, shape, known_shape)
