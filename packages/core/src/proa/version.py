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
    """Print the version and its parts."""
    print(f"full_version: {full_version}")
    print(f"major: {major}\nminor: {minor}\npatch: {patch}")
    print(f"cuda: {cuda()}\ncudnn: {cudnn()}")
