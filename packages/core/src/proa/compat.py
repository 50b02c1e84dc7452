"""What Paddle 2.0 kept from the time when programs ran under Python 2 as well."""

import math as _math
from typing import Any as _Any

from proa import errors as _errors

__all__ = [
    "floor_division", "get_exception_message", "long_type", "round", "to_bytes",
    "to_text",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


#: The type of integers of any size.
long_type = int


def _converted(where: str, obj: _Any, encoding: str, inplace: bool, to: type) -> _Any:
    """Texts or bytes become those of the type `to`, also within a list, set or dict."""
    if isinstance(obj, (list, set)):
        items = [_converted(where, item, encoding, False, to) for item in obj]
        if not inplace:
            return type(obj)(items)
        obj.clear()
        (obj.extend if isinstance(obj, list) else obj.update)(items)
        return obj
    if isinstance(obj, dict):
        pairs = {
            _converted(where, k, encoding, False, to): _converted(
                where, v, encoding, False, to
            )
            for k, v in obj.items()
        }
        if not inplace:
            return pairs
        obj.clear()
        obj.update(pairs)
        return obj
    if isinstance(obj, bytes) and to is str:
        return obj.decode(encoding)
    if isinstance(obj, str) and to is bytes:
        return obj.encode(encoding)
    if obj is None or isinstance(obj, (str, bytes, bool, int, float)):
        return obj
    raise _errors.InvalidTypeError(
        f"[{where}] obj must be text, bytes, a number, or a list, set or dict of them, "
        f"got {type(obj).__name__}"
    )


def to_text(obj: _Any, encoding: str = "utf-8", inplace: bool = False) -> _Any:
    """Bytes as text, also within a list, set or dict; all else as it is.

    Args:
        obj: Text, bytes, a number, None, or a list, set or dict of them.
        encoding: What bytes are decoded by.
        inplace: Whether a container is changed itself, in place of a copy.

    Raises:
        InvalidTypeError: If obj is of another type.
    """
    return _converted("to_text", obj, encoding, inplace, str)


def to_bytes(obj: _Any, encoding: str = "utf-8", inplace: bool = False) -> _Any:
    """Text as bytes, also within a list, set or dict; all else as it is.

    Args:
        obj: Text, bytes, a number, None, or a list, set or dict of them.
        encoding: What text is encoded by.
        inplace: Whether a container is changed itself, in place of a copy.

    Raises:
        InvalidTypeError: If obj is of another type.
    """
    return _converted("to_bytes", obj, encoding, inplace, bytes)


def round(x: float, d: int = 0) -> float:
    """x to d digits after the decimal point; halves go away from zero."""
    if not _math.isfinite(x):
        return x
    scale = 10.0**d
    return _math.copysign(_math.floor(abs(x) * scale + 0.5) / scale, x)


def floor_division(x: _Any, y: _Any) -> _Any:
    """``x // y``."""
    return x // y


def get_exception_message(exc: BaseException) -> str:
    """The message of an exception.

    Raises:
        InvalidTypeError: If none is given.
    """
    if not isinstance(exc, BaseException):
        raise _errors.InvalidTypeError(
            f"[get_exception_message] exc must be an exception, got {exc!r}"
        )
    return str(exc)
