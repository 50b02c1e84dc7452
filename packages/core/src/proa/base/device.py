"""Where tensors live. This build computes on the CPU."""

from __future__ import annotations

from proa.errors import InvalidArgumentError, UnavailableError


class Place:
    """The device of a tensor, e.g. ``Place(cpu)``."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def __repr__(self) -> str:
        return f"Place({self.device})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def is_cpu_place(self) -> bool:
        """Whether this is the host's memory."""
        return self.device == "cpu"

    def is_gpu_place(self) -> bool:
        """Whether this is a GPU's memory."""
        return self.device.startswith("gpu")


class CPUPlace(Place):
    """The host's memory."""

    def __init__(self) -> None:
        super().__init__("cpu")


class CUDAPlace(Place):
    """A GPU's memory, which this build cannot use."""

    def __init__(self, id: int = 0) -> None:
        super().__init__(f"gpu:{id}")
        check_place("CUDAPlace", self)


class CUDAPinnedPlace(Place):
    """Host memory that a GPU reads fast, which this build cannot use."""

    def __init__(self) -> None:
        super().__init__("gpu_pinned")
        check_place("CUDAPinnedPlace", self)


class XPUPlace(Place):
    """A Kunlun XPU's memory, which this build cannot use."""

    def __init__(self, dev_id: int = 0) -> None:
        super().__init__(f"xpu:{dev_id}")
        check_place("XPUPlace", self)


class NPUPlace(Place):
    """An Ascend NPU's memory, which this build cannot use."""

    def __init__(self, id: int = 0) -> None:
        super().__init__(f"npu:{id}")
        check_place("NPUPlace", self)


class IPUPlace(Place):
    """A Graphcore IPU's memory, which this build cannot use."""

    def __init__(self) -> None:
        super().__init__("ipu")
        check_place("IPUPlace", self)


CPU = CPUPlace()


def check_place(where: str, place: object) -> None:
    """Raise if no tensor can be placed there; None is the CPU."""
    device = getattr(place, "device", place)
    if device is None or device == "cpu":
        return
    kind = str(device).partition(":")[0]
    if kind in ("gpu", "cuda", "gpu_pinned", "xpu", "npu", "ipu"):
        raise UnavailableError(
            f"[{where}] expected an available device, got {device!r}"
        )
    raise InvalidArgumentError(
        f"[{where}] expected 'cpu' or 'gpu:<number>', got {device!r}"
    )


def set_device(device: str) -> Place:
    """Choose the device of new tensors, "cpu"."""
    check_place("set_device", device)
    return CPU


def get_device() -> str:
    """Name of the device of new tensors."""
    return "cpu"


def is_compiled_with_cuda() -> bool:
    """Whether this build drives CUDA devices itself: no."""
    return False
