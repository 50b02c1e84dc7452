"""Operators in C++, built and loaded without rebuilding Proa.

``load`` builds when it is called; ``setup`` makes a package to install. The form
of sources is documented in ``proa/extension.h`` (in `proa.sysconfig.get_include()`)::

    ops = load(name="my_ops", sources=["relu.cc"])
    y = ops.custom_relu(x)
"""

from proa.utils.cpp_extension.compile import get_build_directory
from proa.utils.cpp_extension.loading import load, load_library
from proa.utils.cpp_extension.package import (
    BuildExtension,
    CppExtension,
    CUDAExtension,
    setup,
)

__all__ = [
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "get_build_directory",
    "load",
    "load_library",
    "setup",
]


def __dir__() -> list[str]:
    return __all__
