"""Every shape rule on unknown dimensions: it may say less, never otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from proa import _core
from proa.schema import ROWS

from . import samples
from .sample import SAMPLES, Case, Sample
from .sample_runner import draw, dtypes_of, numpy_of, run, tensor_of

samples.load()

#: The array whose last dimension is a number of coordinates: it must be known.
INDEX_DEPTH = {"gather_nd": 1, "index_put": 1, "scatter_nd_like": 1}

#: Shape and dtype.
Spec = tuple[tuple[int, ...], str]


def infer(name: str, specs: list[Spec | None], attrs: dict[str, Any]) -> list[Spec]:
    """What the outputs are."""
    outputs = _core.infer(name, specs, attrs)
    return [(tuple(shape), str(dtype).rpartition(".")[2]) for shape, dtype in outputs]


def one_dimension_unknown(
    name: str, specs: list[Spec | None]
) -> list[list[Spec | None]]:
    """The same arrays, one dimension of one of them unknown, for every choice of it.

    Left out are the dimensions that a rank depends on.
    """
    variants = []
    for i, spec in enumerate(specs):
        for axis in range(len(spec[0])) if spec is not None else ():
            assert spec is not None
            if name == "squeeze" and spec[0][axis] == 1:
                continue
            if INDEX_DEPTH.get(name) == i and axis == len(spec[0]) - 1:
                continue
            shape = tuple(-1 if a == axis else d for a, d in enumerate(spec[0]))
            variants.append([*specs[:i], (shape, spec[1]), *specs[i + 1 :]])
    return variants


@pytest.mark.parametrize(
    ("sample", "case"),
    [
        pytest.param(s, c, id=f"{s.name}-{i}")
        for s in SAMPLES.values()
        for i, c in enumerate(s.cases)
    ],
)
def test_a_rule_infers_less_but_never_differently_from_unknown_dimensions(
    sample: Sample, case: Case
):
    row = ROWS[sample.name]
    admitted = dtypes_of(sample)
    dtype = "float32" if "float32" in admitted else admitted[0]
    arrays = draw(sample, case, dtype)
    specs = [None if a is None else (a.shape, a.dtype.name) for a in arrays]
    known = infer(row.name, specs, case.attrs)
    results = run(row, [tensor_of(a, dtype) for a in arrays], case.attrs)
    assert [shape for shape, _ in known] == [numpy_of(r).shape for r in results]
    for partial in one_dimension_unknown(row.name, specs):
        inferred = infer(row.name, partial, case.attrs)
        for (shape, found), (known_shape, known_dtype) in zip(
            inferred, known, strict=True
        ):
            assert found == known_dtype
            assert len(shape) == len(known_shape)
            pairs = zip(shape, known_shape, strict=True)
            assert all(a in (-1, b) for a, b in pairs), (partial, shape, known_shape)


def test_a_rule_is_not_called_for_missing_arrays():
    with pytest.raises(ValueError, match=r"\[add\] array 2 must not be None"):
        _core.infer("add", [((2,), "float32")], {})
    with pytest.raises(ValueError, match=r"\[add\] expected at most 2 arrays"):
        _core.infer("add", [((2,), "float32")] * 3, {})
