"""Checks of the installation and of other installed packages."""

from __future__ import annotations

import importlib
import platform
import re
import warnings
from types import ModuleType

from proa.errors import InvalidArgumentError, VersionError

#: The version of PaddlePaddle's API that Proa follows.
API_VERSION = "2.1.3"


def try_import(module_name: str, err_msg: str | None = None) -> ModuleType:
    """The module of that name; ImportError with ``err_msg`` if it is not installed."""
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        text = err_msg or (
            f"[try_import] {module_name} is not installed; install it with pip"
        )
        raise ImportError(text) from error


def _parts(name: str, version: object) -> tuple[int, ...]:
    if not isinstance(version, str) or not re.fullmatch(r"\d+(\.\d+){0,3}", version):
        raise InvalidArgumentError(
            f"[require_version] {name} must have the form '2.1.0', got {version!r}"
        )
    numbers = [int(n) for n in version.split(".")]
    return tuple(numbers + [0] * (4 - len(numbers)))


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Raise VersionError unless PaddlePaddle's API is followed in a version within.

    Programs for PaddlePaddle query this; `API_VERSION` answers.
    """
    low = _parts("min_version", min_version)
    high = None if max_version is None else _parts("max_version", max_version)
    own = _parts("API_VERSION", API_VERSION)
    if high is not None and high < low:
        raise InvalidArgumentError(
            f"[require_version] max_version must be at least {min_version}, "
            f"got {max_version}"
        )
    if own < low or (high is not None and own > high):
        wanted = f"at least {min_version}" + (
            f", at most {max_version}" if high else ""
        )
        raise VersionError(
            f"[require_version] the API version must be {wanted}, got {API_VERSION}"
        )


def run_check() -> None:
    """Look for a GPU, run a small layer eagerly and recorded, and train it for a step.

    Says whether all is well; warns where no GPU can be used.
    """
    import numpy

    import proa
    from proa import _core, jit, nn, optimizer
    from proa.device import cuda

    if cuda.device_count() == 0:
        warnings.warn(
            "[run_check] no GPU that this build can use was found: checking the CPU",
            stacklevel=2,
        )
    net, x = nn.Linear(4, 2), proa.ones([3, 4])
    before = net.weight.numpy().copy()
    (net(x) ** 2).mean().backward()
    optimizer.SGD(0.1, net.parameters()).step()
    if not (net.weight.numpy() != before).any():
        raise RuntimeError("[run_check] a training step changed no weights")
    net.eval()
    with proa.no_grad():
        eager, recorded = net(x), jit.to_static(net.forward)(x)
    if not proa.allclose(eager, recorded).item():
        raise RuntimeError(
            "[run_check] the recorded layer must return the eager result"
        )
    built = _core.build_info()
    print(
        f"Proa {proa.__version__}, Python {platform.python_version()}, "
        f"NumPy {numpy.__version__}"
    )
    print(
        f"Proa works: one training step and one recorded program done on the CPU "
        f"({built['isa']} kernels, {proa.get_num_threads()} threads)."
    )
