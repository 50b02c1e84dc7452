"""The version of the package, in parts: 1.2.3 is major 1, minor 2, patch 3."""

from proa import __version__ as _version

__all__ = ["cuda", "cudnn", "full_version", "major", "minor", "patch", "show"]


def __dir__() -> list[str]:
    return __all__


full_version: str = _version
major, minor, patch = (*full_version.split("+")[0].split("."), "0", "0")[:3]


def cuda() -> str | bool:
    """Version of CUDA that the package was built with: False, without."""
    return False


def cudnn() -> str | bool:
    """Version of cuDNN that the package was built with: False, without."""
    return False


def show() -> None:
    """Print the version and its parts, then what `proa info` says of the machine.

    That is the CPU, the instruction sets that are built in and the chosen one, devices
    and the installed extras.
    """
    from proa.utils import installation

    facts = {"full_version": full_version, "major": major, "minor": minor}
    facts |= {"patch": patch, "cuda": str(cuda()), "cudnn": str(cudnn())}
    facts |= installation.machine() | installation.engine() | installation.features()
    for name, value in facts.items():
        print(f"{name}: {value}")
