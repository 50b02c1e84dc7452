"""What the namespace supports, in the words of the array API standard."""

from __future__ import annotations

from proa.array_api.arrays import check_device
from proa.array_api.data_types import KINDS, isdtype
from proa.base.device import CPU, Place
from proa.base.dtype import DTYPES, as_dtype, dtype
from proa.errors import InvalidArgumentError


class NamespaceInfo:
    """What the namespace supports."""

    def capabilities(self) -> dict[str, bool | int]:
        """Masks as indices, results whose shape depends on values, and most axes."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 8,
        }

    def default_device(self) -> Place:
        """The device of new arrays."""
        return CPU

    def devices(self) -> list[Place]:
        """The devices that arrays can be on."""
        return [CPU]

    def default_dtypes(self, *, device: Place | None = None) -> dict[str, dtype]:
        """The dtypes of Python numbers and of indices, as `set_default_dtype` left."""
        check_device("default_dtypes", device)
        real = as_dtype("default")
        double = real == "float64"
        return {
            "real floating": real,
            "complex floating": as_dtype("complex128" if double else "complex64"),
            "integral": as_dtype("int64"),
            "indexing": as_dtype("int64"),
        }

    def dtypes(
        self,
        *,
        device: Place | None = None,
        kind: str | tuple[str, ...] | None = None,
    ) -> dict[str, dtype]:
        """The dtypes of the standard that are supported, by name.

        Args:
            device: None or the CPU.
            kind: As `isdtype` takes it; all kinds for None.

        Raises:
            InvalidArgumentError: If a kind is none of `isdtype`.
        """
        check_device("dtypes", device)
        if not isinstance(kind, (str, tuple, type(None))):
            raise InvalidArgumentError(f"[dtypes] kind must be a str, got {kind!r}")
        names = KINDS["bool"] + KINDS["numeric"]
        found = {name: DTYPES[name] for name in DTYPES if name in names}
        if kind is None:
            return found
        return {name: each for name, each in found.items() if isdtype(each, kind)}


#: Versions of the standard of which the namespace has everything.
VERSIONS = ("2021.12", "2022.12", "2023.12")


def require_version(api_version: str | None) -> None:
    """Raise unless the namespace follows that version of the standard.

    Raises:
        InvalidArgumentError: If it does not.
    """
    if api_version not in (None, *VERSIONS):
        raise InvalidArgumentError(
            f"[__array_namespace__] api_version must be one of {', '.join(VERSIONS)} "
            f"or None, got {api_version!r}"
        )


def __array_namespace_info__() -> NamespaceInfo:
    """What the namespace supports: devices, dtypes and capabilities."""
    return NamespaceInfo()
