"""Reads the keys of a configuration, each of a type, and names what is left over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proa_serving.protocol.datatypes import datatype_of
from proa_serving.protocol.errors import InvalidRequestError, ModelLoadError
from proa_serving.protocol.messages import TensorSpec

_KINDS = {str: "a string", int: "a whole number", bool: "true or false"}


class Fields:
    """One table of a configuration; ``where`` is for errors.

    Every method raises a ModelLoadError that says what must hold where a value is of
    another type or out of its range.
    """

    def __init__(self, held: object, where: str) -> None:
        if not isinstance(held, Mapping):
            raise ModelLoadError(where, f"must be a table, got {held!r:.60}")
        self._held = dict(held)
        self._where = where

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def __iter__(self) -> Iterator[str]:
        """The keys that were not taken yet."""
        return iter(list(self._held))

    def error(self, message: str) -> ModelLoadError:
        return ModelLoadError(self._where, message)

    def finish(self) -> None:
        """Raise if keys are left, and name them."""
        if self._held:
            names = ", ".join(sorted(map(str, self._held)))
            raise self.error(f"has settings that are not known: {names}")

    def take(self, key: str, default: Any = None) -> Any:
        """The value as it came."""
        return self._held.pop(key, default)

    def _typed(self, key: str, kind: type, default: Any) -> Any:
        value = self._held.pop(key, None)
        if value is None:
            return default
        if type(value) is not kind:
            raise self.error(f"{key} must be {_KINDS[kind]}, got {value!r:.60}")
        return value

    def text(self, key: str, default: str = "") -> str:
        return str(self._typed(key, str, default))

    def flag(self, key: str, default: bool) -> bool:
        return bool(self._typed(key, bool, default))

    def number(self, key: str, default: int, low: int = 0) -> int:
        value = int(self._typed(key, int, default))
        if value < low:
            raise self.error(f"{key} must be at least {low}, got {value}")
        return value

    def real(self, key: str, default: float, low: float, high: float) -> float:
        value = self._held.pop(key, default)
        if type(value) not in (int, float) or not low <= value <= high:
            raise self.error(f"{key} must be {low:g} to {high:g}, got {value!r:.60}")
        return float(value)

    def cores(self, key: str, default: int) -> int:
        """A number of 1 or more, or "auto", which is 0."""
        if self._held.get(key) == "auto":
            del self._held[key]
            return 0
        return self.number(key, default, 1) if key in self._held else default

    def numbers(self, key: str, low: int = 1) -> tuple[int, ...]:
        value = self._held.pop(key, [])
        if not isinstance(value, list) or any(
            type(item) is not int or item < low for item in value
        ):
            raise self.error(
                f"{key} must be a list of numbers of {low} or more, got {value!r:.60}"
            )
        return tuple(value)

    def texts(self, key: str) -> dict[str, str]:
        """A table of strings."""
        value = self._held.pop(key, {})
        if not isinstance(value, Mapping) or any(
            not isinstance(item, str) for item in value.values()
        ):
            raise self.error(f"{key} must be a table of strings, got {value!r:.60}")
        return dict(value)

    def table(self, key: str) -> Fields | None:
        value = self._held.pop(key, None)
        return None if value is None else Fields(value, f"{self._where}, {key}")

    def tables(self, key: str) -> list[Fields]:
        value = self._held.pop(key, [])
        if not isinstance(value, list):
            raise self.error(f"{key} must be a list of tables, got {value!r:.60}")
        return [
            Fields(item, f"{self._where}, {key} {at}") for at, item in enumerate(value)
        ]

    def specs(self, key: str) -> tuple[TensorSpec, ...]:
        """Tensors as ``{name, datatype, shape}``."""
        return tuple(held.spec() for held in self.tables(key))

    def spec(self) -> TensorSpec:
        """The tensor that this table is."""
        name, datatype = self.text("name"), self.text("datatype")
        shape = self.numbers("shape", -1)
        self.finish()
        if not name:
            raise self.error("must have a name")
        try:
            datatype_of(datatype, self._where)
        except InvalidRequestError as error:
            raise self.error(f"{name}: {error}") from None
        return TensorSpec(name, datatype, shape)
