"""Elementwise functions give what NumPy gives, element by element, in new arrays."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
from drawn import ALL, FLOATS, INTEGERS, NUMERIC, REAL, REAL_FLOATS
from hypothesis import assume, given
from hypothesis import strategies as st

import proa
from proa import array_api as xp
from proa.errors import InvalidTypeError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

#: Functions of one array: the dtypes, and by how many eps NumPy's results may differ.
UNARY = {
    "abs": (NUMERIC, 2), "acos": (REAL_FLOATS, 8), "acosh": (REAL_FLOATS, 8),
    "asin": (REAL_FLOATS, 8), "asinh": (REAL_FLOATS, 8), "atan": (REAL_FLOATS, 8),
    "atanh": (REAL_FLOATS, 8), "bitwise_invert": (("bool", *INTEGERS), None),
    "ceil": (REAL, None), "conj": (NUMERIC, None), "cos": (REAL_FLOATS, 8),
    "cosh": (REAL_FLOATS, 16), "exp": (REAL_FLOATS, 16), "expm1": (REAL_FLOATS, 16),
    "floor": (REAL, None), "imag": (NUMERIC, None), "isfinite": (NUMERIC, None),
    "isinf": (NUMERIC, None), "isnan": (NUMERIC, None), "log": (REAL_FLOATS, 8),
    "log10": (REAL_FLOATS, 8), "log1p": (REAL_FLOATS, 8), "log2": (REAL_FLOATS, 8),
    "logical_not": (("bool",), None), "negative": (NUMERIC, None),
    "positive": (NUMERIC, None), "real": (NUMERIC, None), "round": (NUMERIC, None),
    "sign": (REAL, None), "signbit": (REAL_FLOATS, None), "sin": (REAL_FLOATS, 8),
    "sinh": (REAL_FLOATS, 16), "sqrt": (REAL_FLOATS, 2), "square": (REAL, None),
    "tan": (REAL_FLOATS, 16), "tanh": (REAL_FLOATS, 8), "trunc": (REAL, None),
}  # fmt: skip
#: Functions of complex arrays that are compared away from infinities and NaN.
COMPLEX_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1",
    "log", "log10", "log1p", "log2", "sign", "sin", "sinh", "sqrt", "square", "tan",
    "tanh",
)  # fmt: skip
BINARY = {
    "add": (NUMERIC, None), "atan2": (REAL_FLOATS, 8),
    "bitwise_and": (("bool", *INTEGERS), None),
    "bitwise_or": (("bool", *INTEGERS), None),
    "bitwise_xor": (("bool", *INTEGERS), None), "copysign": (REAL_FLOATS, None),
    "divide": (REAL_FLOATS, 1), "equal": (ALL, None), "floor_divide": (REAL, None),
    "greater": (REAL, None), "greater_equal": (REAL, None), "hypot": (REAL_FLOATS, 4),
    "less": (REAL, None), "less_equal": (REAL, None), "logaddexp": (REAL_FLOATS, 16),
    "logical_and": (("bool",), None), "logical_or": (("bool",), None),
    "logical_xor": (("bool",), None), "maximum": (REAL, None),
    "minimum": (REAL, None), "multiply": (REAL, None), "not_equal": (ALL, None),
    "pow": (REAL_FLOATS, 32), "remainder": (REAL, 4), "subtract": (NUMERIC, None),
}  # fmt: skip
#: At a zero they have a sign, which must be NumPy's.
SIGNED_ZEROS = {
    "abs", "asin", "asinh", "atan", "atanh", "atan2", "ceil", "copysign", "divide",
    "expm1", "floor", "floor_divide", "log1p", "multiply", "negative", "positive",
    "remainder", "round", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@drawn.SETTINGS
@given(data=st.data())
def test_a_function_of_one_array_agrees_with_numpy(name: str, data: Any) -> None:
    dtypes, eps = UNARY[name]
    a = data.draw(drawn.arrays(dtypes))
    if name == "sign" and a.dtype.kind == "c":
        assume(np.isfinite(a).all())
    x = drawn.tensor(a)
    result, expected = getattr(xp, name)(x), getattr(np, name)(a)
    exact = eps is None or a.dtype.kind in "iu"
    drawn.check(result, expected, None if exact else eps, 1)
    if name in SIGNED_ZEROS and a.dtype.kind == "f":
        drawn.check_signs(result, expected)
    np.testing.assert_array_equal(x.numpy(), a)
    assert not np.shares_memory(result.numpy(), x.numpy())


@pytest.mark.parametrize("name", COMPLEX_UNARY)
@drawn.SETTINGS
@given(data=st.data())
def test_a_function_of_complex_numbers_agrees_with_numpy(name: str, data: Any) -> None:
    part = st.floats(-8, 8, width=32).filter(lambda v: v == 0 or abs(v) > 1e-3)
    a = data.draw(drawn.arrays(drawn.COMPLEX, numbers=st.builds(complex, part, part)))
    poles = {"atan": a**2 == -1, "atanh": a**2 == 1, "log1p": a == -1}
    assume(not (poles.get(name, a == 0) & (name != "sign")).any() or name in FINITE)
    expected = getattr(np, name)(a)
    drawn.check(getattr(xp, name)(drawn.tensor(a)), expected, 64, 64)


#: Functions that are finite at 0.
FINITE = set(COMPLEX_UNARY) - {"atan", "atanh", "log", "log10", "log1p", "log2"}


@pytest.mark.parametrize("name", BINARY)
@drawn.SETTINGS
@given(data=st.data())
def test_a_function_of_two_arrays_agrees_with_numpy(name: str, data: Any) -> None:
    dtypes, eps = BINARY[name]
    a, b = data.draw(drawn.pairs(dtypes))
    if name in ("floor_divide", "remainder") and b.dtype.kind in "iu":
        assume((b != 0).all() and not (b == -1).any())
    if name == "pow":  # NumPy takes a square root, so that -inf gives NaN, not inf
        assume(not (np.isneginf(a) & (b == 0.5)).any())
    x, y = drawn.tensor(a), drawn.tensor(b)
    result, expected = getattr(xp, name)(x, y), getattr(np, name)(a, b)
    exact = eps is None or expected.dtype.kind in "iub"
    if not exact and name in ("floor_divide", "remainder"):
        assume((np.abs(np.nan_to_num(a)) < 1e6).all())
    drawn.check(result, expected, None if exact else eps, 1)
    if name in SIGNED_ZEROS and expected.dtype.kind == "f":
        drawn.check_signs(result, expected)
    np.testing.assert_array_equal(x.numpy(), a)
    np.testing.assert_array_equal(y.numpy(), b)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "pow"])
@drawn.SETTINGS
@given(data=st.data())
def test_arithmetic_of_complex_numbers_agrees_with_numpy(name: str, data: Any) -> None:
    part = st.floats(0.25, 4, width=32)
    a, b = data.draw(drawn.pairs(FLOATS, numbers=part))
    a, b = a.astype(np.result_type(a, "complex64")), b
    result = getattr(xp, name)(drawn.tensor(a), drawn.tensor(b))
    drawn.check(result, getattr(np, name)(a, b), 64, 64)


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
@drawn.SETTINGS
@given(data=st.data())
def test_shifts_agree_with_numpy(name: str, data: Any) -> None:
    a, b = data.draw(drawn.pairs(INTEGERS))
    b = b % (8 * np.result_type(a, b).itemsize)
    b = b.astype(np.result_type(b))
    result = getattr(xp, name)(drawn.tensor(a), drawn.tensor(b))
    drawn.check(result, getattr(np, name)(a, b))
    x, y = drawn.tensor(a), drawn.tensor(b)
    shifted = x << y if name == "bitwise_left_shift" else x >> y
    drawn.check(shifted, getattr(np, name)(a, b))


@drawn.SETTINGS
@given(data=st.data())
def test_integer_powers_agree_with_numpy(data: Any) -> None:
    a, b = data.draw(drawn.pairs(INTEGERS))
    b = np.abs(b % 8)
    drawn.check(xp.pow(drawn.tensor(a), drawn.tensor(b)), np.power(a, b))


@drawn.SETTINGS
@given(data=st.data())
def test_clip_agrees_with_numpy_and_keeps_the_dtype(data: Any) -> None:
    a = data.draw(drawn.arrays(REAL))
    few = hnp_number(a.dtype.name)
    low, high = sorted((data.draw(few), data.draw(few)))
    x = drawn.tensor(a)
    low, high = a.dtype.type(low).item(), a.dtype.type(high).item()
    drawn.check(xp.clip(x, low, high), np.clip(a, low, high))
    drawn.check(xp.clip(x, min=low), np.clip(a, low, None))
    drawn.check(xp.clip(x, max=high), np.clip(a, None, high))
    drawn.check(xp.clip(x), a)
    both = [drawn.tensor(np.asarray(v, a.dtype)) for v in (low, high)]
    drawn.check(xp.clip(x, *both), np.clip(a, low, high))


def hnp_number(dtype: str) -> st.SearchStrategy[Any]:
    return drawn.elements(dtype, special=False)


def test_clip_limits_narrow_integers_by_wide_numbers() -> None:
    x = xp.asarray([1, 100], dtype=xp.int8)
    assert xp.clip(x, -1000, 1000).tolist() == [1, 100]
    assert xp.clip(x, 1.5, xp.inf).tolist() == [2, 100]


@pytest.mark.parametrize("name", ["add", "multiply", "less", "maximum", "floor_divide"])
def test_a_python_number_takes_the_dtype_of_the_array(name: str) -> None:
    for dtype in REAL:
        a = np.asarray([1, 5, 7], dtype)
        x = drawn.tensor(a)
        drawn.check(getattr(xp, name)(x, 2), getattr(np, name)(a, 2))
        drawn.check(getattr(xp, name)(2, x), getattr(np, name)(2, a))


def test_hypot_neither_overflows_nor_underflows() -> None:
    for dtype, big in (("float32", 3e38), ("float64", 1e308)):
        a = np.asarray([big, 1e-30, np.inf, np.nan], dtype)
        b = np.asarray([big / 8, 1e-30, np.nan, 1], dtype)
        drawn.check(xp.hypot(drawn.tensor(a), drawn.tensor(b)), np.hypot(a, b), 4)


def test_what_is_no_tensor_is_refused_by_name() -> None:
    with pytest.raises(InvalidTypeError, match=r"\[abs\] .* got ndarray"):
        xp.abs(np.ones(2))
    with pytest.raises(InvalidTypeError, match=r"\[add\] .* got int and"):
        xp.add(1, 2)
    with pytest.raises(InvalidTypeError, match=r"\[add\] expected a Tensor, got list"):
        xp.add(xp.ones(2), [1, 2])
    with pytest.raises(InvalidTypeError, match=r"\[signbit\] .* floating dtype"):
        xp.signbit(xp.ones(2, dtype="int8"))
    with pytest.raises(InvalidTypeError, match="expected integers"):
        xp.bitwise_left_shift(xp.ones(2), 1)


def test_gradients_flow_through_functions_of_the_namespace() -> None:
    x = proa.to_tensor([0.5, -1.5], stop_gradient=False)
    xp.sum(xp.hypot(xp.exp(x), xp.copysign(x, xp.asarray([-1.0, 1.0])))).backward()
    a = np.asarray([0.5, -1.5])
    r = np.hypot(np.exp(a), a)
    # d/dx sqrt(e^2x + x^2) = (e^2x + x) / sqrt(..)
    np.testing.assert_allclose(x.grad.numpy(), (np.exp(2 * a) + a) / r, rtol=1e-5)
