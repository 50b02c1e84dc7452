"""Where tensors live. This build computes on the CPU."""

from __future__ import annotations

from proa.errors import InvalidArgumentError, UnavailableError


class CPUPlace:
    """The host's memory."""

    def __repr__(self) -> str:
        return "Place(cpu)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CPUPlace)

    def __hash__(self) -> int:
        return hash("cpu")


def set_device(device: str) -> CPUPlace:
    """Choose the device of new tensors, "cpu"."""
    kind = device.partition(":")[0]
    if kind == "gpu":
        raise UnavailableError(f"[set_device] the device must be there, got {device!r}")
    if kind != "cpu":
        raise InvalidArgumentError(
            f"[set_device] must be 'cpu' or 'gpu:<number>', got {device!r}"
        )
    return CPUPlace()


def get_device() -> str:
    """Name of the device of new tensors."""
    return "cpu"
