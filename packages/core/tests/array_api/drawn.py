"""Arrays that hypothesis draws for tests of `proa.array_api`, and how they compare."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import proa
from proa import array_api as xp

SETTINGS = settings(max_examples=40, deadline=None)
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
REAL_FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
FLOATS = REAL_FLOATS + COMPLEX
REAL = INTEGERS + REAL_FLOATS
NUMERIC = REAL + COMPLEX
ALL = ("bool", *NUMERIC)
#: Floats at which functions change: signed zeros, infinities, NaN, ones and halves.
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-30)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def elements(dtype: str, special: bool = True) -> st.SearchStrategy[Any]:
    """Numbers of a dtype; floats with the special ones among them, if wanted."""
    if dtype in COMPLEX:
        part = elements("float32" if dtype == "complex64" else "float64", special)
        return st.builds(complex, part, part)
    if dtype in REAL_FLOATS:
        plain = st.floats(-100, 100, width=32)
        return st.one_of(st.sampled_from(SPECIAL), plain) if special else plain
    return hnp.from_dtype(np.dtype(dtype))


def arrays(
    dtypes: Any, shape: Any = SHAPES, special: bool = True, numbers: Any = None
) -> st.SearchStrategy[Any]:
    """NumPy arrays of one of the dtypes."""
    chosen = st.sampled_from((dtypes,) if isinstance(dtypes, str) else dtypes)

    def of(dtype: str) -> st.SearchStrategy[Any]:
        given = elements(dtype, special) if numbers is None else numbers
        return hnp.arrays(np.dtype(dtype), shape, elements=given, fill=st.nothing())

    return chosen.flatmap(of)


@st.composite
def pairs(draw: Any, dtypes: Any, special: bool = True, numbers: Any = None) -> Any:
    """Two arrays of one kind that broadcast."""
    first = draw(st.sampled_from(dtypes))
    kind = next(k for k in ("b", "ui", "fc") if np.dtype(first).kind in k)
    kinds = [d for d in dtypes if np.dtype(d).kind in kind]
    second = draw(st.sampled_from(kinds))
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3))
    return tuple(
        draw(arrays(dtype, shape, special, numbers))
        for dtype, shape in zip((first, second), shapes.input_shapes, strict=True)
    )


def tensor(a: Any) -> Any:
    """A Tensor of a copy."""
    return xp.asarray(np.array(a), copy=True)


def check(result: Any, expected: Any, rtol: float | None = None, atol: Any = 0) -> None:
    """The Tensor has NumPy's dtype, shape and values; exactly, without rtol.

    NumPy's default floating dtype is float64 where Proa's is float32.
    """
    assert isinstance(result, proa.Tensor)
    expected = np.asarray(expected)
    assert result.dtype.name == expected.dtype.name, (result.dtype, expected.dtype)
    assert result.shape == expected.shape, (result.shape, expected.shape)
    if rtol is None or expected.dtype.kind in "biu":
        np.testing.assert_array_equal(result.numpy(), expected)
    else:
        eps = float(np.finfo(expected.dtype).eps)
        np.testing.assert_allclose(
            result.numpy(), expected, rtol=rtol * eps, atol=atol * eps
        )


def check_signs(result: Any, expected: Any) -> None:
    """Zeros have the signs of NumPy's zeros."""
    expected = np.asarray(expected)
    zero = expected == 0
    np.testing.assert_array_equal(
        np.signbit(result.numpy()[zero]), np.signbit(expected[zero])
    )
