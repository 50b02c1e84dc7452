"""Promotion, casting and the limits of dtypes."""

from __future__ import annotations

import itertools

import array_api_strict as strict
import numpy as np
import pytest
from drawn import ALL, COMPLEX, INTEGERS, REAL_FLOATS

import proa
from proa import array_api as xp
from proa.errors import InvalidArgumentError, InvalidTypeError

#: Pairs of dtypes that the standard promotes.
SAME_KIND = [
    (a, b)
    for kind in (("bool",), INTEGERS, REAL_FLOATS + COMPLEX)
    for a, b in itertools.product(kind, kind)
]


@pytest.mark.parametrize("a, b", SAME_KIND)
def test_dtypes_of_a_kind_promote_as_in_the_standard(a: str, b: str) -> None:
    expected = strict.result_type(getattr(strict, a), getattr(strict, b))
    name = str(expected).rpartition(".")[2]
    assert xp.result_type(getattr(xp, a), getattr(xp, b)).name == name
    x, y = xp.ones(2, dtype=a), xp.ones((3, 1), dtype=b)
    assert xp.result_type(x, b).name == xp.result_type(a, y).name == name
    assert xp.result_type(x, y, a) == name
    function = xp.logical_and if a == "bool" else xp.multiply
    assert function(x, y).dtype == name
    if a != "bool":
        assert (x * y).dtype == (x + y).dtype == (y - x).dtype == name
    assert xp.where(xp.asarray(True), x, y).dtype == name
    assert xp.concat([x, xp.ones(2, dtype=b)]).dtype == name
    assert xp.stack([x, xp.ones(2, dtype=b)]).dtype == name


def test_numbers_widen_no_array() -> None:
    for name in INTEGERS:
        x = xp.ones(2, dtype=name)
        assert (x + 1).dtype == (1 - x).dtype == xp.result_type(x, 1) == name
    for name in REAL_FLOATS + COMPLEX:
        x = xp.ones(2, dtype=name)
        assert (x + 1).dtype == (x * 2.5).dtype == xp.result_type(x, 1, 2.5) == name
    assert xp.result_type(xp.float32, 1j) == (xp.ones(2, dtype="float32") + 1j).dtype
    assert xp.result_type(xp.float64, 1j) == (xp.ones(2, dtype="float64") + 1j).dtype


@pytest.mark.parametrize("a, b", SAME_KIND)
def test_can_cast_agrees_with_numpy(a: str, b: str) -> None:
    assert xp.can_cast(getattr(xp, a), getattr(xp, b)) == np.can_cast(a, b)
    assert xp.can_cast(xp.ones(2, dtype=a), getattr(xp, b)) == np.can_cast(a, b)


KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating",
         "complex floating", "numeric"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_isdtype_agrees_with_numpy(kind: str) -> None:
    for name in ALL:
        expected = np.isdtype(np.dtype(name), kind)
        assert xp.isdtype(getattr(xp, name), kind) == expected
        assert xp.isdtype(getattr(xp, name), (kind, xp.int8)) == (
            expected or name == "int8"
        )
    assert xp.isdtype(xp.int8, xp.int8) and not xp.isdtype(xp.int8, xp.int16)
    assert xp.isdtype(xp.int8, ("real floating", ("bool", "integral")))


def test_isdtype_refuses_what_it_does_not_know() -> None:
    with pytest.raises(InvalidArgumentError, match="kind must be one of bool"):
        xp.isdtype(xp.int8, "float")
    with pytest.raises(InvalidTypeError, match="expected a Tensor or a dtype"):
        xp.isdtype(3, "bool")
    with pytest.raises(InvalidArgumentError, match="expected a Tensor or a dtype"):
        xp.result_type(1, 2.0)


@pytest.mark.parametrize("name", ["float16", *REAL_FLOATS, *COMPLEX])
def test_finfo_agrees_with_numpy(name: str) -> None:
    expected, dtype = np.finfo(name), getattr(proa, name)
    for given in (dtype, xp.ones(1, dtype=dtype)):
        found = xp.finfo(given)
        assert found.bits == expected.bits and found.eps == float(expected.eps)
        assert found.max == float(expected.max) and found.min == float(expected.min)
        assert found.smallest_normal == float(expected.tiny)
        assert found.dtype == expected.dtype
        assert isinstance(found.max, float)


def test_finfo_of_bfloat16() -> None:
    # Half the bits of float32: 8 of exponent and 7 of fraction.
    found = xp.finfo(proa.bfloat16)
    assert (found.bits, found.eps, found.smallest_normal) == (16, 2**-7, 2.0**-126)
    assert found.max == (2 - 2**-7) * 2.0**127


@pytest.mark.parametrize("name", INTEGERS)
def test_iinfo_agrees_with_numpy(name: str) -> None:
    found, expected = xp.iinfo(getattr(xp, name)), np.iinfo(name)
    assert (found.bits, found.max, found.min) == (
        expected.bits, expected.max, expected.min,
    )  # fmt: skip
    assert found.dtype == name == xp.iinfo(xp.ones(1, dtype=name)).dtype


def test_limits_of_another_kind_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="floating dtype, got int8"):
        xp.finfo(xp.int8)
    with pytest.raises(InvalidArgumentError, match="integer dtype, got float32"):
        xp.iinfo(xp.float32)


@pytest.mark.parametrize("a, b", list(itertools.product(ALL, ALL)))
def test_astype_agrees_with_numpy(a: str, b: str) -> None:
    values = np.asarray([0, 1, 3], a)
    x = xp.asarray(values)
    if a in COMPLEX and b not in (*COMPLEX, "bool"):
        with pytest.raises(InvalidTypeError, match="expected a complex dtype"):
            xp.astype(x, getattr(xp, b))
        return
    y = xp.astype(x, getattr(xp, b))
    assert y.dtype == b
    np.testing.assert_array_equal(y.numpy(), values.astype(b))
    assert not np.shares_memory(y.numpy(), x.numpy())
    assert (xp.astype(x, getattr(xp, b), copy=False) is x) == (a == b)
