"""Every gradient rule against finite differences of the record's reference, twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import _core
from proa.schema import ROWS, Row
from proa.schema.dtypes import FLOATING

from . import samples
from .sample import SAMPLES, Case, Sample
from .trial import Array, draw, dtypes_of, reference, run

samples.load()

CASES = [
    pytest.param(s, c, id=f"{s.name}-{i}")
    for s in SAMPLES.values()
    if s.grad and ROWS[s.name].grad is not None and s.ref is not None
    for i, c in enumerate(s.grad_cases if s.grad_cases is not None else s.cases)
]


def leaves_of(row: Row, arrays: list[Array | None]) -> list[int]:
    """Indices of the arrays that can get a gradient."""
    last = len(row.arrays) - 1
    return [
        i
        for i, a in enumerate(arrays)
        if a is not None
        and a.dtype.kind in "fc"
        and not row.arrays[min(i, last)].shape_only
        and a.size
    ]


def weighted(outputs: list[Any], weights: list[Array | None]) -> float:
    """Sum over outputs and elements of output * weight."""
    pairs = zip(outputs, weights, strict=True)
    return float(sum((out * w).real.sum() for out, w in pairs if w is not None))


def weighted_tensor(outputs: list[Any], weights: list[Array | None]) -> Any:
    """The same of tensors."""
    total = None
    for out, weight in zip(outputs, weights, strict=True):
        if weight is not None:
            product = _core.ops.mul(out, _core.from_numpy(weight, True))
            term = _core.ops.sum(product, axis=[], keepdim=False)
            total = term if total is None else _core.ops.add(total, term)
    return total


class Probe:
    """One call in float64 (or float32, if the row has no wider), and directions."""

    def __init__(self, sample: Sample, case: Case) -> None:
        self.sample, self.case, self.row = sample, case, ROWS[sample.name]
        admitted = dtypes_of(sample)
        floats = [d for d in ("float64", "float32") if d in admitted]
        if not floats:
            pytest.skip("no dtype of this op has a real gradient")
        self.coarse = floats[0] == "float32"
        self.arrays = draw(sample, case, floats[0])
        self.leaves = leaves_of(self.row, self.arrays)
        rng = np.random.default_rng(5)
        self.directions = {
            i: rng.standard_normal(self._shape(i)).astype(floats[0])
            for i in self.leaves
        }
        want = reference(sample, self.arrays, case.attrs)
        promised = zip(want, self.row.outputs, strict=True)
        self.weights = [
            rng.standard_normal(w.shape).astype(floats[0])
            if w.dtype.kind == "f" and self._flows(name)
            else None
            for w, name in promised
        ]
        if not self.leaves or all(w is None or not w.size for w in self.weights):
            pytest.skip("nothing to differentiate in this case")

    def _shape(self, i: int) -> tuple[int, ...]:
        array = self.arrays[i]
        assert array is not None
        return array.shape

    def _flows(self, output: str) -> bool:
        """False of outputs that carry no gradient: the rule does not name them."""
        if not callable(self.row.grad):
            return True
        code = self.row.grad.__code__
        return f"d{output}" in code.co_varnames[: code.co_argcount]

    @property
    def step(self) -> float:
        return 1e-3 if self.coarse else 1e-5

    def moved(self, step: float) -> list[Array | None]:
        """The arrays, each leaf moved along its direction."""
        return [
            a + step * self.directions[i]
            if i in self.directions and a is not None
            else a
            for i, a in enumerate(self.arrays)
        ]

    def value(self, step: float) -> float:
        """The weighted sum of the reference's outputs at the moved arrays."""
        outputs = reference(self.sample, self.moved(step), self.case.attrs)
        return weighted(outputs, self.weights)

    def slopes(self, step: float, create_graph: bool) -> tuple[list[Any], list[Any]]:
        """The leaves as tensors at the moved arrays, and the op's gradients there."""
        tensors = [
            None if a is None else _core.from_numpy(np.array(a), True)
            for a in self.moved(step)
        ]
        variables = [tensors[i] for i in self.leaves]
        for v in variables:
            v.stop_gradient = False
        outputs = run(self.row, tensors, self.case.attrs)
        loss = weighted_tensor(outputs, self.weights)
        grads = proa.grad(
            [loss], variables, create_graph=create_graph, allow_unused=True
        )
        return variables, grads

    def along(self, grads: list[Any]) -> float:
        """The gradients' component along the directions."""
        pairs = zip(self.leaves, grads, strict=True)
        return sum(
            float((np.asarray(g.numpy()) * self.directions[i]).sum())
            for i, g in pairs
            if g is not None
        )


@pytest.mark.parametrize(("sample", "case"), CASES)
def test_the_gradient_is_the_finite_difference(sample: Sample, case: Case):
    probe = Probe(sample, case)
    variables, grads = probe.slopes(0.0, False)
    for v, g in zip(variables, grads, strict=True):
        assert g is None or (list(g.shape), g.dtype) == (list(v.shape), v.dtype)
    h = probe.step
    want = (probe.value(h) - probe.value(-h)) / (2 * h)
    tolerance = 2e-2 if probe.coarse else 1e-5
    assert probe.along(grads) == pytest.approx(want, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize(("sample", "case"), CASES)
def test_the_second_derivative_is_the_gradients_finite_difference(
    sample: Sample, case: Case
):
    if not sample.second:
        pytest.skip("this op has no second derivative to check")
    probe = Probe(sample, case)
    variables, grads = probe.slopes(0.0, True)
    pairs = [
        (i, g)
        for i, g in zip(probe.leaves, grads, strict=True)
        if g is not None and not g.stop_gradient
    ]
    h = probe.step
    after, before = probe.slopes(h, False)[1], probe.slopes(-h, False)[1]
    want = (probe.along(after) - probe.along(before)) / (2 * h)
    got = 0.0
    if pairs:
        inner = weighted_tensor(
            [g for _, g in pairs], [probe.directions[i] for i, _ in pairs]
        )
        got = probe.along(proa.grad([inner], variables, allow_unused=True))
    tolerance = 2e-2 if probe.coarse else 1e-4
    assert got == pytest.approx(want, rel=tolerance, abs=tolerance)


def test_rows_without_a_gradient_say_so():
    """Floating in, floating out and no rule: only these, each for a reason."""
    without = {
        row.name
        for row in ROWS.values()
        if row.grad is None
        and row.arrays
        and not row.arrays[0].shape_only
        and set(row.dtypes) & set(FLOATING)
        and row.out[0] in ("same", "last", "float32")
        and not row.name.endswith("_")
    }
    assert without == {
        "floor_div",  # constant almost everywhere
        "bernoulli",  # random
        "squared_norm",  # of gradients
        "conv2d_act",  # made by graph passes, for inference
        "linear_act",
        "recurrent_grad",  # nn.functional.recurrent composes the second derivative
        "qr_complete",  # the further columns are any that fit
        "svd_full",
    }
