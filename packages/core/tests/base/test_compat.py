"""`proa.compat`: text and bytes, rounding away from zero."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pytest

from proa import compat
from proa.errors import InvalidTypeError

TEXT: Any = ["a", {"k": "v", "n": 1}, ["ä", None, 2.5], True]
BYTES: Any = [b"a", {b"k": b"v", b"n": 1}, ["ä".encode(), None, 2.5], True]


def test_text_and_bytes_within_containers() -> None:
    assert compat.to_bytes(TEXT) == BYTES and compat.to_text(BYTES) == TEXT
    assert compat.to_text(TEXT) == TEXT and compat.to_bytes(BYTES) == BYTES
    assert compat.to_text({b"x", "y"}) == {"x", "y"}
    assert compat.to_bytes("ä", encoding="latin-1") == b"\xe4"
    for convert in (compat.to_text, compat.to_bytes):
        with pytest.raises(InvalidTypeError, match=r"must be text.*got object"):
            convert(object())


@pytest.mark.parametrize("kind", [list, set, lambda _: {b"k": b"v"}])
def test_containers_are_changed_in_place_on_request(kind: Any) -> None:
    given = kind([b"a", b"b"])
    copy = compat.to_text(given)
    assert copy is not given and copy != given
    assert compat.to_text(given, inplace=True) is given and given == copy


@pytest.mark.parametrize("digits", [0, 1, 2, -1])
@pytest.mark.parametrize("x", [0.5, 1.5, -2.5, 2.25, 17.125, -0.375, 15.0, 0.0])
def test_halves_are_rounded_away_from_zero(x: float, digits: int) -> None:
    unit = decimal.Decimal(1).scaleb(-digits)
    want = decimal.Decimal(x).quantize(unit, rounding=decimal.ROUND_HALF_UP)
    assert compat.round(x, digits) == float(want)


def test_what_is_left() -> None:
    assert np.isnan(compat.round(float("nan"))) and compat.round(-np.inf) == -np.inf
    assert compat.floor_division(7, 2) == 3 and compat.floor_division(-7, 2) == -4
    assert compat.long_type(3) == 3
    assert compat.get_exception_message(ValueError("a word")) == "a word"
    with pytest.raises(InvalidTypeError, match="must be an exception, got 'x'"):
        compat.get_exception_message("x")  # type: ignore[arg-type]
