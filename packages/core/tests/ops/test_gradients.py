"""Every gradient rule against finite differences of the record's reference, twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import _core
from proa.errors import UnimplementedError
from proa.schema import REFUSED, ROWS, Row
from proa.schema.dtypes import COMPLEX, FLOATING

from . import samples
from .sample import SAMPLES, Case, Sample
from .sample_runner import (
    LAYOUTS,
    Array,
    draw,
    dtype_name,
    dtypes_of,
    layout_of,
    reference,
    repeat_first,
    run,
    tensor_of,
)

samples.load()

CASES = [
    (s, c, f"{s.name}-{i}")
    for s in SAMPLES.values()
    if s.grad and ROWS[s.name].grad not in (None, REFUSED) and s.ref is not None
    for i, c in enumerate(s.grad_cases if s.grad_cases is not None else s.cases)
]
#: What the gradient is taken in, and the memory layout of its arrays.
RUNS = [("float64", "rows"), *(("float32", layout) for layout in LAYOUTS)]
RUNS += [("complex128", "rows"), ("complex64", "transposed")]
#: Relative to the sum of the magnitudes that are added up.
TOLERANCE = {"float64": 1e-5, "float32": 2e-3, "complex128": 1e-5, "complex64": 2e-3}
WIDE = {"float32": "float64", "complex64": "complex128"}


def runs(second: bool) -> list[Any]:
    """Each case in each of RUNS that its row and record admit."""
    return [
        pytest.param(s, c, dtype, layout, id=f"{name}-{dtype}-{layout}")
        for s, c, name in CASES
        if s.second or not second
        for dtype, layout in RUNS
        if dtype in dtypes_of(s)
        and (s.strided or layout == "rows")
        and (s.repeats or layout != "broadcast")
        and admits(s, c, dtype)
    ]


def admits(sample: Sample, case: Case, dtype: str) -> bool:
    """True if there are an array to differentiate by and an output that carries it."""
    row, last = ROWS[sample.name], len(ROWS[sample.name].arrays) - 1
    return any(
        given is not None
        and not row.arrays[min(i, last)].shape_only
        and (callable(given) or not isinstance(given, tuple) or 0 not in given)
        for i, given in enumerate(case.inputs)
    )


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
    """Sum over outputs and elements of the real part of output * conj(weight)."""
    pairs = zip(outputs, weights, strict=True)
    return float(
        sum((out * np.conj(w)).real.sum() for out, w in pairs if w is not None)
    )


def weighted_tensor(outputs: list[Any], weights: list[Array | None]) -> Any:
    """The same of tensors."""
    ops, total = _core.ops, None
    for out, weight in zip(outputs, weights, strict=True):
        if weight is not None:
            dtype = dtype_name(out)
            product = ops.mul(
                out, _core.from_numpy(np.conj(weight).astype(dtype), True)
            )
            if dtype in COMPLEX:
                product = ops.real(product)
            term = ops.sum(product, axis=[], keepdim=False)
            total = term if total is None else ops.add(total, term)
    return total


class Probe:
    """One call in one dtype and layout, and directions to move its arrays along.

    Differences are taken in the wider dtype, of row-major arrays.
    """

    def __init__(self, sample: Sample, case: Case, dtype: str, layout: str) -> None:
        self.sample, self.case, self.row = sample, case, ROWS[sample.name]
        self.dtype, self.layout = dtype, layout
        wide = WIDE.get(dtype, dtype)
        self.wide = wide if wide in dtypes_of(sample) else dtype
        self.arrays = draw(sample, case, dtype)
        if layout == "broadcast":
            repeat_first(case, self.arrays)
        self.leaves = leaves_of(self.row, self.arrays)
        rng = np.random.default_rng(5)
        self.directions = {i: self._direction(rng, self.arrays[i]) for i in self.leaves}
        want = reference(sample, self.arrays, case.attrs)
        promised = zip(want, self.row.outputs, strict=True)
        self.weights = [
            self._direction(rng, w)
            if w.dtype.kind in "fc" and self._flows(name)
            else None
            for w, name in promised
        ]
        if not self.leaves or all(w is None or not w.size for w in self.weights):
            pytest.skip("nothing to differentiate in this case")

    @staticmethod
    def _direction(rng: np.random.Generator, like: Array | None) -> Array:
        assert like is not None
        drawn: Array = rng.standard_normal(like.shape)
        if like.dtype.kind == "c":
            drawn = drawn + 1j * rng.standard_normal(like.shape)
        return drawn

    def _flows(self, output: str) -> bool:
        """False of outputs that carry no gradient: the rule does not name them."""
        if not callable(self.row.grad):
            return True
        code = self.row.grad.__code__
        return f"d{output}" in code.co_varnames[: code.co_argcount]

    @property
    def coarse(self) -> bool:
        """True if the differences of gradients themselves are of few digits."""
        return self.wide in WIDE

    def moved(self, step: float) -> list[Array | None]:
        """The arrays, each leaf widened and moved along its direction."""
        return [
            a.astype(np.result_type(a, np.float64)) + step * self.directions[i]
            if i in self.directions and a is not None
            else a
            for i, a in enumerate(self.arrays)
        ]

    def value(self, step: float) -> float:
        """The weighted sum of the reference's outputs at the moved arrays."""
        outputs = reference(self.sample, self.moved(step), self.case.attrs)
        return weighted(outputs, self.weights)

    def slopes(self, create_graph: bool) -> tuple[list[Any], list[Any]]:
        """The leaves as tensors, in the requested dtype and layout, and gradients."""
        pairs = zip(self.arrays, self.case.inputs, strict=True)
        tensors = [
            tensor_of(a, self.dtype, layout_of(given, self.layout))
            for a, given in pairs
        ]
        return self._slopes(tensors, create_graph)

    def slopes_at(self, step: float) -> list[Any]:
        """The gradients at the moved arrays, in the wider dtype."""
        tensors = [
            None if a is None else _core.from_numpy(self._widened(a), True)
            for a in self.moved(step)
        ]
        return self._slopes(tensors, False)[1]

    def _widened(self, array: Array) -> Array:
        """In the dtype of differences, if it is of the dtype under test."""
        if array.dtype.kind == "f":
            real = self.wide.replace("complex128", "float64")
            return array.astype(real.replace("complex64", "float32"))
        return array.astype(self.wide) if array.dtype.kind == "c" else np.array(array)

    def _slopes(
        self, tensors: list[Any], create_graph: bool
    ) -> tuple[list[Any], list[Any]]:
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
        return weighted(*self._given(grads))

    def within(self, grads: list[Any], tolerance: float) -> float:
        """The error allowed in the component along the directions."""
        pairs = zip(*self._given(grads), strict=True)
        return tolerance * (1 + sum(float(abs(g * d).sum()) for g, d in pairs))

    def _given(self, grads: list[Any]) -> tuple[list[Array], list[Array | None]]:
        pairs = [
            (np.asarray(g.numpy()), self.directions[i])
            for i, g in zip(self.leaves, grads, strict=True)
            if g is not None
        ]
        return [g for g, _ in pairs], [d for _, d in pairs]


@pytest.mark.parametrize(("sample", "case", "dtype", "layout"), runs(False))
def test_the_gradient_is_the_finite_difference(
    sample: Sample, case: Case, dtype: str, layout: str
):
    probe = Probe(sample, case, dtype, layout)
    variables, grads = probe.slopes(False)
    for v, g in zip(variables, grads, strict=True):
        assert g is None or (list(g.shape), g.dtype) == (list(v.shape), v.dtype)
    h = 1e-5
    want = (probe.value(h) - probe.value(-h)) / (2 * h)
    error = probe.within(grads, TOLERANCE[dtype])
    assert probe.along(grads) == pytest.approx(want, abs=error)


@pytest.mark.parametrize(("sample", "case", "dtype", "layout"), runs(True))
def test_the_second_derivative_is_the_gradients_finite_difference(
    sample: Sample, case: Case, dtype: str, layout: str
):
    probe = Probe(sample, case, dtype, layout)
    variables, grads = probe.slopes(True)
    pairs = [
        (i, g)
        for i, g in zip(probe.leaves, grads, strict=True)
        if g is not None and not g.stop_gradient
    ]
    h = 1e-3 if probe.coarse else 1e-5
    want = (probe.along(probe.slopes_at(h)) - probe.along(probe.slopes_at(-h))) / (
        2 * h
    )
    seconds: list[Any] = [None for _ in variables]
    if pairs:
        inner = weighted_tensor(
            [g for _, g in pairs], [probe.directions[i] for i, _ in pairs]
        )
        seconds = proa.grad([inner], variables, allow_unused=True)
    error = probe.within(seconds, 2e-2 if probe.coarse else 10 * TOLERANCE[dtype])
    assert probe.along(seconds) == pytest.approx(want, abs=error)


def test_rows_without_a_gradient_are_marked():
    """Floating in, floating out and no rule: only these, each for a reason."""
    without = {
        row.name
        for row in ROWS.values()
        if row.grad is None
        and row.arrays
        and not row.arrays[0].shape_only
        and set(row.dtypes) & set(FLOATING)
        and row.out[0] in ("same", "last", "float32")
        and not row.mutates
    }
    assert without == {
        "floor_div",  # constant almost everywhere
        "bernoulli",  # random
    }


def test_a_gradient_without_a_rule_is_an_error_and_not_silently_zero():
    refused = {row.name for row in ROWS.values() if row.grad == REFUSED}
    assert refused == {
        "squared_norm",  # of gradients
        "conv2d_act",  # made by graph passes, for inference
        "conv2d_norm",
        "channel_moments",  # made by passes over recorded steps, after the backward
        "normalise_by",
        "batch_norm_relu_grad",
        "linear_act",
        "recurrent_grad",  # autograd.recurrent composes the second derivative
        "recurrent_int8",  # for inference
        "linear_dynamic",
        "linear_weight_only",
        "qr_complete",  # the further columns are any that fit
        "svd_full",
    }
    x = proa.ones([2, 3, 3])
    x.stop_gradient = False
    with pytest.raises(UnimplementedError, match=r"\[svd_full\] the gradient"):
        proa.linalg.svd(x, full_matrices=True)[1].sum().backward()
    g = proa.grad(
        [_core.ops.recurrent(x, *states(), cell="tanh")[0]], [x], create_graph=True
    )
    with pytest.raises(UnimplementedError, match=r"\[recurrent_grad\] the gradient"):
        g[0].square().sum().backward()


def states() -> tuple[proa.Tensor, proa.Tensor]:
    """A recurrent weight and a first state."""
    return proa.ones([3, 3]) * 0.3, proa.zeros([3, 3])
