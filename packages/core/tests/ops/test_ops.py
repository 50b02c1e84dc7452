"""Every row of the operator table against its record: values, strides, gradients."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
import samples
from numpy.typing import NDArray
from sample import SAMPLES, Case, Sample

import proa
from proa import _core
from proa.schema import ROWS, Row
from proa.schema.dtypes import FLOATING, INTEGERS

samples.load()

Array = NDArray[Any]
RTOL = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-9}
RTOL |= {"complex64": 5e-5, "complex128": 1e-9}
ATOL = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-10}
ATOL |= {"complex64": 1e-5, "complex128": 1e-10}
#: NumPy's stand-in for the values of a dtype that it lacks or computes coarsely.
WIDE = {"float16": "float32", "bfloat16": "float32"}


def draw(sample: Sample, case: Case, dtype: str) -> list[Array | None]:
    """Inputs of a case; what is drawn has `dtype`, what is given keeps its own."""
    rng = np.random.default_rng(zlib.crc32(f"{sample.name}{case}".encode()))
    low, high = sample.domain
    inputs: list[Array | None] = []
    for given in case.inputs:
        if given is None:
            inputs.append(None)
        elif isinstance(given, np.ndarray):
            # A floating array that was given follows the dtype under test.
            follow = given.dtype.kind == "f" and dtype in FLOATING
            inputs.append(given.astype(WIDE.get(dtype, dtype)) if follow else given)
        elif callable(given):
            made = given(rng)
            follow = made.dtype.kind == "f" and dtype in FLOATING
            inputs.append(made.astype(WIDE.get(dtype, dtype)) if follow else made)
        elif dtype == "bool":
            inputs.append(rng.integers(0, 2, given).astype(bool))
        elif dtype in INTEGERS:
            floor = max(int(low), 0) if dtype == "uint8" else int(low)
            inputs.append(rng.integers(floor, max(int(high), floor + 1) + 1, given).astype(dtype))
        elif dtype.startswith("complex"):
            value = rng.uniform(low, high, given) + 1j * rng.uniform(low, high, given)
            inputs.append(np.asarray(value).astype(dtype))
        else:
            inputs.append(rng.uniform(low, high, given).astype(WIDE.get(dtype, dtype)))
    return inputs


def rounded(array: Array | None, dtype: str) -> Array | None:
    """The array with the values that the dtype can hold."""
    if array is None or dtype not in WIDE or array.dtype != np.float32:
        return array
    tensor = _core.ops.cast(_core.from_numpy(array.copy(), True), dtype=dtype)
    return _core.ops.cast(tensor, dtype="float32").numpy().copy()


def tensor_of(array: Array | None, dtype: str) -> Any:
    if array is None:
        return None
    tensor = _core.from_numpy(array, False)
    if dtype in WIDE and array.dtype == np.float32:
        return _core.ops.cast(tensor, dtype=dtype)
    return tensor


def numpy_of(tensor: Any) -> Array:
    if str(tensor.dtype).endswith("bfloat16"):
        tensor = _core.ops.cast(tensor, dtype="float32")
    return np.asarray(tensor.numpy())


def run(row: Row, inputs: list[Any], attrs: dict[str, Any]) -> list[Any]:
    out = getattr(_core.ops, row.name)(*inputs, **attrs)
    return list(out) if isinstance(out, (tuple, list)) else [out]


def reference(sample: Sample, inputs: list[Array | None], attrs: dict[str, Any]) -> list[Array]:
    assert sample.ref is not None
    with np.errstate(all="ignore"):
        out = sample.ref(*inputs, **attrs)
    return [np.asarray(o) for o in (out if isinstance(out, tuple) else (out,))]


def compare(sample: Sample, dtype: str, got: list[Any], want: list[Array]) -> None:
    for i in sample.outputs if sample.outputs is not None else range(len(want)):
        value, expect = numpy_of(got[i]), want[i]
        assert value.shape == expect.shape
        if value.dtype.kind in "fc":
            np.testing.assert_allclose(
                value,
                expect,
                rtol=sample.rtol.get(dtype, RTOL.get(dtype, 2e-5)),
                atol=sample.atol.get(dtype, ATOL.get(dtype, 1e-5)),
            )
        else:
            np.testing.assert_array_equal(value, expect)


def scattered(array: Array | None, how: int) -> Array | None:
    """The same values in memory that is transposed, reversed, or every other element."""
    if array is None or array.ndim == 0:
        return array
    if how == 0:
        return np.array(array.T, order="C").T
    if how == 1:
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def dtypes_of(sample: Sample) -> list[str]:
    return list(sample.dtypes if sample.dtypes is not None else ROWS[sample.name].dtypes)


RUNS = [
    pytest.param(s, d, c, id=f"{s.name}-{d}-{i}")
    for s in SAMPLES.values()
    for d in dtypes_of(s)
    for i, c in enumerate(s.cases)
]


def test_every_row_has_a_record_and_every_record_a_row():
    assert sorted(SAMPLES) == sorted(ROWS)


@pytest.mark.parametrize(("sample", "dtype", "case"), RUNS)
def test_values_equal_the_reference(sample: Sample, dtype: str, case: Case):
    inputs = [rounded(a, dtype) for a in draw(sample, case, dtype)]
    row = ROWS[sample.name]
    copies = [None if a is None else a.copy() for a in inputs]
    got = run(row, [tensor_of(a, dtype) for a in copies], case.attrs)
    if sample.check is not None:
        sample.check(inputs, case.attrs, [numpy_of(t) for t in got])
    else:
        compare(sample, dtype, got, reference(sample, inputs, case.attrs))


STRIDED = [
    pytest.param(s, s.dtypes[0] if s.dtypes else next(iter(best)), c, how, id=f"{s.name}-{i}-{how}")
    for s in SAMPLES.values()
    if s.strided and s.check is None and not s.name.endswith("_")
    for best in [[d for d in ("float32", "int64", "int8", "bool", "complex64") if d in dtypes_of(s)]]
    if best or s.dtypes
    for i, c in enumerate(s.cases)
    if any(a is not None and not callable(a) for a in c.inputs)
    for how in range(3)
]


@pytest.mark.parametrize(("sample", "dtype", "case", "how"), STRIDED)
def test_memory_order_changes_nothing(sample: Sample, dtype: str, case: Case, how: int):
    inputs = [rounded(a, dtype) for a in draw(sample, case, dtype)]
    want = reference(sample, inputs, case.attrs)
    moved = [tensor_of(scattered(a, how), dtype) for a in inputs]
    compare(sample, dtype, run(ROWS[sample.name], moved, case.attrs), want)


INPLACE = [
    pytest.param(s, c, id=f"{s.name}-{i}")
    for s in SAMPLES.values()
    if ROWS[s.name].inplace and not s.name.endswith("_") and s.ref is not None
    for i, c in enumerate(s.cases)
]


@pytest.mark.parametrize(("sample", "case"), INPLACE)
def test_the_in_place_form_writes_to_its_array(sample: Sample, case: Case):
    row = ROWS[sample.name]
    dtype = "float32" if "float32" in dtypes_of(sample) else dtypes_of(sample)[0]
    inputs = draw(sample, case, dtype)
    want = reference(sample, inputs, case.attrs)
    first = inputs[0]
    assert first is not None
    if want[0].shape != first.shape or (row.promote == "float" and first.dtype.kind != "f"):
        pytest.skip("the result does not fit into the array")
    tensors = [tensor_of(None if a is None else a.copy(), dtype) for a in inputs]
    version = tensors[0].inplace_version
    out = getattr(_core.ops, f"{row.name}_")(*tensors, **case.attrs)
    assert out is tensors[0]
    assert tensors[0].inplace_version > version
    compare(sample, dtype, [tensors[0]], want[:1])


# -- gradients ----------------------------------------------------------------------------


def differentiable(sample: Sample) -> bool:
    row = ROWS[sample.name]
    return sample.grad and row.grad is not None and sample.ref is not None


GRADS = [
    pytest.param(s, c, id=f"{s.name}-{i}")
    for s in SAMPLES.values()
    if differentiable(s)
    for i, c in enumerate(s.grad_cases if s.grad_cases is not None else s.cases)
]


def leaves_of(row: Row, inputs: list[Array | None]) -> list[int]:
    """Indices of the inputs that can get a gradient."""
    count = len(row.arrays)
    return [
        i
        for i, a in enumerate(inputs)
        if a is not None
        and a.dtype.kind in "fc"
        and not row.arrays[min(i, count - 1)].shape_only
        and a.size
    ]


def weighted(outputs: list[Any], weights: list[Array | None]) -> Any:
    """sum over outputs of sum(output * weight), on tensors or arrays."""
    total: Any = 0.0
    for out, weight in zip(outputs, weights, strict=True):
        if weight is not None:
            total = total + (out * weight).sum()
    return total


class Probe:
    """One differentiation of a sample's case, in float64."""

    def __init__(self, sample: Sample, case: Case) -> None:
        self.sample, self.case, self.row = sample, case, ROWS[sample.name]
        dtype = "float64" if "float64" in dtypes_of(sample) else "float32"
        if dtype not in dtypes_of(sample):
            # The first array is an index or a condition; the others follow.
            dtype = "float64"
            self.inputs = [
                None if a is None else (a.astype("float64") if a.dtype.kind == "f" else a)
                for a in draw(sample, case, dtype)
            ]
        else:
            self.inputs = draw(sample, case, dtype)
        self.float32 = dtype == "float32"
        self.leaves = leaves_of(self.row, self.inputs)
        rng = np.random.default_rng(5)
        self.directions = {i: rng.standard_normal(self.inputs[i].shape) for i in self.leaves}
        want = reference(sample, self.inputs, case.attrs)
        self.weights = [
            rng.standard_normal(w.shape) if w.dtype.kind == "f" and self.flows(i) else None
            for i, w in enumerate(want)
        ]

    def flows(self, output: int) -> bool:
        """False of outputs that carry no gradient: the rule does not name them."""
        row = self.row
        if not callable(row.grad):
            return True
        names = row.grad.__code__.co_varnames[: row.grad.__code__.co_argcount]
        return f"d{row.outputs[output]}" in names

    def moved(self, step: float) -> list[Array | None]:
        """The inputs, each leaf moved along its direction."""
        return [
            a + step * self.directions[i] if i in self.leaves and a is not None else a
            for i, a in enumerate(self.inputs)
        ]

    def value(self, step: float) -> float:
        """The reference's weighted sum at the moved inputs."""
        return float(
            weighted(reference(self.sample, self.moved(step), self.case.attrs), self.weights)
        )

    def slopes(self, step: float, create_graph: bool) -> tuple[list[Any], list[Any]]:
        """Tensors of the leaves at the moved inputs, and the op's gradients there."""
        tensors = [
            None if a is None else _core.from_numpy(np.array(a), False) for a in self.moved(step)
        ]
        variables = [tensors[i] for i in self.leaves]
        for v in variables:
            v.stop_gradient = False
        outputs = run(self.row, tensors, self.case.attrs)
        weights = [None if w is None else _core.from_numpy(w, False) for w in self.weights]
        loss = weighted(outputs, weights)
        grads = proa.grad([loss], variables, create_graph=create_graph, allow_unused=True)
        return variables, grads

    def along(self, grads: list[Any]) -> float:
        """The gradients' component along the directions."""
        pairs = zip(self.leaves, grads, strict=True)
        return sum(
            float((np.asarray(g.numpy()) * self.directions[i]).sum())
            for i, g in pairs
            if g is not None
        )


@pytest.mark.parametrize(("sample", "case"), GRADS)
def test_the_gradient_is_the_finite_difference(sample: Sample, case: Case):
    probe = Probe(sample, case)
    if not probe.leaves or all(w is None or not w.size for w in probe.weights):
        pytest.skip("nothing to differentiate in this case")
    _, grads = probe.slopes(0.0, False)
    got = probe.along(grads)
    h = 1e-3 if probe.float32 else 1e-5
    want = (probe.value(h) - probe.value(-h)) / (2 * h)
    rtol = 2e-2 if probe.float32 else 1e-5
    assert got == pytest.approx(want, rel=rtol, abs=rtol)


@pytest.mark.parametrize(("sample", "case"), GRADS)
def test_the_second_derivative_is_the_gradients_finite_difference(sample: Sample, case: Case):
    if not sample.second:
        pytest.skip("this op has no second derivative to check")
    probe = Probe(sample, case)
    if not probe.leaves or all(w is None or not w.size for w in probe.weights):
        pytest.skip("nothing to differentiate in this case")
    variables, grads = probe.slopes(0.0, True)
    pairs = [(i, g) for i, g in zip(probe.leaves, grads, strict=True) if g is not None]
    pairs = [(i, g) for i, g in pairs if not g.stop_gradient]
    h = 1e-3 if probe.float32 else 1e-5
    after, before = probe.slopes(h, False)[1], probe.slopes(-h, False)[1]
    want = (probe.along(after) - probe.along(before)) / (2 * h)
    got = 0.0
    if pairs:
        inner = weighted(
            [g for _, g in pairs],
            [_core.from_numpy(probe.directions[i], False) for i, _ in pairs],
        )
        second = proa.grad([inner], variables, allow_unused=True)
        got = probe.along(second)
    rtol = 2e-2 if probe.float32 else 1e-4
    assert got == pytest.approx(want, rel=rtol, abs=rtol)
