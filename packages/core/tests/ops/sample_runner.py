"""Runs one call of a record: draws its arrays, makes tensors, calls the reference."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa import _core
from proa.schema import ROWS, Row
from proa.schema.dtypes import ALL, COMPLEX, FLOATING, INTEGERS

from .sample import Case, Input, Sample

Array = NDArray[Any]
RTOL = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-9}
RTOL |= {"complex64": 5e-5, "complex128": 1e-9}
ATOL = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-10}
ATOL |= {"complex64": 1e-5, "complex128": 1e-10}
#: What NumPy holds the values of a dtype in.
HELD = {"bfloat16": "float32"}
#: Ways to lay out the same values, see `tensor_of`.
LAYOUTS = ("rows", "transposed", "reversed", "gaps", "broadcast")


def follows(row: Row) -> bool:
    """True if `row.dtypes` are of an index or a condition and other arrays vary."""
    selecting = set(row.dtypes) <= {"bool", "int32", "int64"}
    return selecting and "last" in row.out and len(row.arrays) > 1


def dtypes_of(sample: Sample) -> tuple[str, ...]:
    """The dtypes to run: of the first array, or of those after the index."""
    row = ROWS[sample.name]
    if sample.dtypes is not None:
        return tuple(sample.dtypes)
    if follows(row):
        return ALL if row.dtypes == ("bool",) else FLOATING
    return row.dtypes


def _varies(given: Input) -> bool:
    """True if the dtype under test shows in this input."""
    return given is not None and (
        isinstance(given, tuple) or callable(given) or given.dtype.kind == "f"
    )


def runs_of(sample: Sample, cases: Iterable[Case]) -> Iterator[tuple[str, Case]]:
    """The cases in every dtype; once where the case itself settles all dtypes."""
    for case in cases:
        if any(map(_varies, case.inputs)):
            yield from ((dtype, case) for dtype in dtypes_of(sample))
        else:
            yield str(case.attrs.get("dtype", "float32")), case


def rounded(array: Array, dtype: str) -> Array:
    """The values as `dtype` holds them."""
    if dtype != "bfloat16":
        return array.astype(dtype)
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits += 0x7FFF + ((bits >> 16) & 1)  # to nearest, halves to even
    return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32).reshape(array.shape)


def _random(
    rng: np.random.Generator, sample: Sample, shape: tuple[int, ...], dtype: str
) -> Array:
    low, high = sample.domain
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        floor = max(int(low), 0) if dtype == "uint8" else int(low)
        return rng.integers(floor, max(int(high), floor + 1) + 1, shape).astype(dtype)
    value = np.asarray(rng.uniform(low, high, shape))
    if dtype in COMPLEX:
        value = value + 1j * rng.uniform(low, high, shape)
    return rounded(value, dtype)


def draw(sample: Sample, case: Case, dtype: str) -> list[Array | None]:
    """The arrays of a case. What is drawn has `dtype`, and given floats take it too.

    Given int64 arrays (indices, labels) are int32 in the runs of float64.
    """
    rng = np.random.default_rng(zlib.crc32(f"{sample.name}{case}".encode()))
    row = ROWS[sample.name]
    arrays: list[Array | None] = []
    for i, given in enumerate(case.inputs):
        if given is None:
            arrays.append(None)
        elif isinstance(given, tuple):
            own = "bool" if i == 0 and row.dtypes == ("bool",) else dtype
            arrays.append(_random(rng, sample, given, own))
        else:
            array = given(rng) if callable(given) else given
            if array.dtype.kind == "f" and dtype in FLOATING:
                array = rounded(array, dtype)
            elif array.dtype == np.int64 and dtype == "float64":
                array = array.astype(np.int32)
            arrays.append(array)
    return arrays


def repeat_first(case: Case, arrays: list[Array | None]) -> None:
    """Make what was drawn repeat along its first axis, as "broadcast" requires.

    What was given stays: an index or label may not be repeated.
    """
    for i, given in enumerate(case.inputs):
        array = arrays[i]
        if isinstance(given, tuple) and array is not None and array.ndim:
            arrays[i] = np.broadcast_to(array[:1], array.shape).copy()


def layout_of(given: Input, layout: str) -> str:
    """The layout of an input: what is given does not repeat."""
    return layout if layout != "broadcast" or isinstance(given, tuple) else "rows"


def tensor_of(array: Array | None, dtype: str, layout: str = "rows") -> Any:
    """The array as a tensor whose memory is laid out in one of LAYOUTS.

    For "broadcast" the array must repeat along its first axis.
    """
    if array is None:
        return None
    cast = dtype == "bfloat16" and array.dtype == np.float32
    ops, rank = _core.ops, array.ndim
    axes = list(range(rank))

    def plain(values: Array) -> Any:
        tensor = _core.from_numpy(np.array(values, order="C"), True)
        return ops.cast(tensor, dtype=dtype) if cast else tensor

    if rank == 0 or rank > 7 or layout == "rows":
        return plain(array)
    if layout == "transposed":
        return ops.transpose(plain(array.T), perm=axes[::-1])
    if layout == "reversed":
        flipped = plain(np.flip(array))
        bounds = {
            "starts": [-1] * rank,
            "ends": [-(2**63)] * rank,
            "steps": [-1] * rank,
        }
        return ops.slice(flipped, axes=axes, **bounds)
    if layout == "gaps":
        wide = plain(np.repeat(array, 2, axis=-1))
        end = 2 * array.shape[-1]
        return ops.slice(wide, axes=[rank - 1], starts=[0], ends=[end], steps=[2])
    return ops.broadcast_to(plain(array[:1]), shape=list(array.shape))


def numpy_of(tensor: Any) -> Array:
    """The tensor's values; those of bfloat16 in float32."""
    if dtype_name(tensor) == "bfloat16":
        tensor = _core.ops.cast(tensor, dtype="float32")
    return np.asarray(tensor.numpy())


def dtype_name(tensor: Any) -> str:
    """float32 and so on."""
    return str(tensor.dtype).rpartition(".")[2]


def run(row: Row, tensors: list[Any], attrs: dict[str, Any]) -> list[Any]:
    """The op's outputs."""
    out = getattr(_core.ops, row.name)(*tensors, **attrs)
    return list(out) if isinstance(out, tuple | list) else [out]


def reference(
    sample: Sample, arrays: list[Array | None], attrs: dict[str, Any]
) -> list[Array]:
    """The reference's outputs, computed in float64 or complex128."""
    assert sample.ref is not None
    row = ROWS[sample.name]
    wide: list[Array | None] = []
    for array in arrays:
        if array is not None:
            if array.dtype.kind == "f" or (
                row.promote == "float" and array.dtype.kind != "c"
            ):
                array = array.astype(np.float64)
            elif array.dtype.kind == "c":
                array = array.astype(np.complex128)
        wide.append(array)
    with np.errstate(all="ignore"):
        out = sample.ref(*wide, **attrs)
    return [np.asarray(o) for o in (out if isinstance(out, tuple) else (out,))]


def compare(sample: Sample, dtype: str, got: list[Any], want: list[Array]) -> None:
    """Shapes and values; exact unless the output is floating."""
    outputs = sample.outputs if sample.outputs is not None else range(len(want))
    for i in outputs:
        value, expect = numpy_of(got[i]), want[i]
        assert value.shape == expect.shape
        if value.dtype.kind in "fc":
            rtol = sample.rtol.get(dtype, RTOL.get(dtype, 2e-5))
            atol = sample.atol.get(dtype, ATOL.get(dtype, 1e-5))
            np.testing.assert_allclose(value, expect, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(value, expect)


def output_dtypes(
    row: Row, arrays: list[Array | None], dtype: str, attrs: dict[str, Any]
) -> list[str]:
    """What the row's `out` promises for arrays of these dtypes."""
    given = [
        dtype if a.dtype.name == HELD.get(dtype) else a.dtype.name
        for a in arrays
        if a is not None
    ]
    first = given[0] if given else dtype
    if row.promote == "float" and first not in FLOATING + COMPLEX:
        first = "float32"
    whole = first == "bool" or first in INTEGERS
    # complex64 <-> float32, complex128 <-> float64
    real = f"float{int(first[7:]) // 2}" if first in COMPLEX else first
    answers = {
        "same": first,
        "last": given[-1] if given else first,
        "real": real,
        "complex": "complex128" if first == "float64" else "complex64",
        "sum": "int64" if whole else first,
        "wide": "float32" if first in ("float16", "bfloat16") else first,
        "attr": str(attrs.get("dtype", "")).rpartition(".")[2],
    }
    return [answers.get(out, out) for out in row.out]
