"""The namespace has every name of the standard, with the standard's signatures."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import ModuleType
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import proa
from proa import array_api as xp
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    UnavailableError,
    UnsupportedNameError,
)

strict.set_array_api_strict_flags(api_version="2023.12")

#: Names of the standard 2023.12, by chapter.
CREATION = (
    "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid "
    "ones ones_like tril triu zeros zeros_like"
)
DATA_TYPES = "astype can_cast finfo iinfo isdtype result_type"
ELEMENTWISE = (
    "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert "
    "bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil clip conj "
    "copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal "
    "hypot imag isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp "
    "logical_and logical_not logical_or logical_xor maximum minimum multiply negative "
    "not_equal positive pow real remainder round sign signbit sin sinh sqrt square "
    "subtract tan tanh trunc"
)
MANIPULATION = (
    "broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims "
    "repeat reshape roll squeeze stack tile unstack"
)
OTHERS = (
    "matmul matrix_transpose tensordot vecdot take argmax argmin nonzero searchsorted "
    "where unique_all unique_counts unique_inverse unique_values argsort sort "
    "cumulative_sum max mean min prod std sum var all any __array_namespace_info__"
)
LINALG = (
    "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power "
    "matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot "
    "trace vecdot vector_norm"
)
FFT = (
    "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift "
    "ifftshift"
)
FUNCTIONS = " ".join((CREATION, DATA_TYPES, ELEMENTWISE, MANIPULATION, OTHERS)).split()


def names_and_kinds(function: Any) -> list[tuple[str, str]]:
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind.name) for p in parameters]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_signature_of_the_standard(name: str) -> None:
    own, theirs = (names_and_kinds(getattr(m, name)) for m in (xp, strict))
    assert own == theirs


@pytest.mark.parametrize("name", [*(f"linalg.{n}" for n in LINALG.split()),
                                  *(f"fft.{n}" for n in FFT.split())])  # fmt: skip
def test_a_function_of_an_extension_has_the_signature_of_the_standard(
    name: str,
) -> None:
    part, _, function = name.partition(".")
    own, theirs = (getattr(getattr(m, part), function) for m in (xp, strict))
    later = {("dtype", "KEYWORD_ONLY")} if name.endswith("freq") else set()
    expected = [p for p in names_and_kinds(theirs) if p not in later]
    assert names_and_kinds(own) == expected


def test_defaults_are_those_of_the_standard() -> None:
    for name in FUNCTIONS:
        theirs = inspect.signature(getattr(strict, name)).parameters
        own = inspect.signature(getattr(xp, name)).parameters
        for key, parameter in theirs.items():
            # Strict's default is an object of its own, or belongs to a later version.
            if name not in ("astype", "expand_dims", "from_dlpack"):
                assert own[key].default == parameter.default, (name, key)


def test_constants_and_dtypes() -> None:
    for name in ("e", "inf", "nan", "pi"):
        np.testing.assert_equal(getattr(xp, name), getattr(np, name))
    assert xp.newaxis is None
    dtypes = "bool uint8 int8 int16 int32 int64 float32 float64 complex64 complex128"
    for name in dtypes.split():
        assert getattr(xp, name) == getattr(np, name)
    assert xp.__array_api_version__ == "2023.12"


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_a_missing_dtype_is_a_typed_error(name: str) -> None:
    assert not hasattr(xp, name)
    with pytest.raises(UnsupportedNameError, match=name):
        getattr(xp, name)
    with pytest.raises(InvalidTypeError, match=name):
        xp.asarray(np.zeros(2, name))


def test_a_tensor_leads_to_the_namespace() -> None:
    x = proa.ones([2])
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    assert x.__array_namespace__(api_version="2022.12") is xp
    with pytest.raises(InvalidArgumentError, match=r"api_version.*'2020\.01'"):
        x.__array_namespace__(api_version="2020.01")


def test_array_api_compat_finds_the_namespace() -> None:
    compat = pytest.importorskip("array_api_compat")
    assert compat.is_array_api_obj(proa.ones([2]))
    assert compat.array_namespace(proa.ones([2])) is xp
    assert compat.device(proa.ones([2])) == xp.__array_namespace_info__().devices()[0]
    assert compat.size(proa.ones([2, 3])) == 6


def test_info_says_what_there_is() -> None:
    info = xp.__array_namespace_info__()
    capabilities = info.capabilities()
    assert capabilities["boolean indexing"] and capabilities["data-dependent shapes"]
    assert info.default_device() == proa.ones([1]).device
    assert info.devices() == [info.default_device()]
    assert info.default_dtypes() == {
        "real floating": xp.float32,
        "complex floating": xp.complex64,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    everything = strict.__array_namespace_info__().dtypes()
    missing = {"uint16", "uint32", "uint64"}
    assert set(info.dtypes()) == set(everything) - missing
    for kind in ("bool", "signed integer", "real floating", "complex floating"):
        theirs = strict.__array_namespace_info__().dtypes(kind=kind)
        assert set(info.dtypes(kind=kind)) == set(theirs)
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {"bool", "uint8"}
    with pytest.raises(InvalidArgumentError, match="kind"):
        info.dtypes(kind="float")


def test_default_dtypes_follow_the_default_dtype() -> None:
    proa.set_default_dtype("float64")
    try:
        found = xp.__array_namespace_info__().default_dtypes()
        assert found["real floating"] == xp.float64 == xp.ones(2).dtype
        assert found["complex floating"] == xp.complex128 == xp.asarray(1j).dtype
    finally:
        proa.set_default_dtype("float32")


def test_another_device_is_refused() -> None:
    cpu = xp.__array_namespace_info__().default_device()
    assert xp.ones(2, device=cpu).device == cpu
    x = xp.ones(2)
    assert x.to_device(cpu) is x
    with pytest.raises(UnavailableError, match="gpu:0"):
        xp.zeros(2, device="gpu:0")
    with pytest.raises(UnavailableError, match="gpu:0"):
        x.to_device("gpu:0")


def test_the_namespace_is_imported_when_it_is_first_used() -> None:
    program = "import sys, proa; sys.exit('proa.array_api' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_names_are_listed() -> None:
    assert isinstance(xp, ModuleType)
    public = {name for name in FUNCTIONS if not name.startswith("_")}
    assert public <= set(dir(xp)) == set(xp.__all__)
    assert set(dir(xp.linalg)) == set(LINALG.split())
    assert set(dir(xp.fft)) == set(FFT.split())
