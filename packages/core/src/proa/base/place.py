"""Places: where a tensor lies. This build has one, the CPU."""

from __future__ import annotations

from proa.errors import UnavailableError


class Place:
    """Where a tensor lies, e.g. ``Place(cpu)``."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def __repr__(self) -> str:
        return f"Place({self.device})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def is_cpu_place(self) -> bool:
        """Whether this is the CPU."""
        return self.device == "cpu"

    def is_gpu_place(self) -> bool:
        """Whether this is a GPU."""
        return self.device.startswith("gpu")


class CPUPlace(Place):
    """The CPU."""

    def __init__(self) -> None:
        super().__init__("cpu")


class CUDAPlace(Place):
    """A GPU, which this build cannot use."""

    def __init__(self, id: int = 0) -> None:
        super().__init__(f"gpu:{id}")
        check_place("CUDAPlace", self)


CPU = CPUPlace()


def check_place(where: str, place: object) -> None:
    """Raise if a tensor cannot lie there."""
    device = getattr(place, "device", place)
    if device is not None and device != "cpu":
        raise UnavailableError(f"[{where}] the place must be the CPU, got {device!r}")


def set_device(device: str) -> Place:
    """Choose where tensors lie; "cpu" is the one there is."""
    check_place("set_device", device)
    return CPU


def get_device() -> str:
    """Where tensors lie."""
    return "cpu"


def is_compiled_with_cuda() -> bool:
    """Whether this build drives CUDA devices itself: no."""
    return False
