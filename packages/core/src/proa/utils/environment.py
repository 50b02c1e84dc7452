"""Checks of the installation and of other installed packages."""

from __future__ import annotations

import importlib
import platform
import re
import warnings
from types import ModuleType

from proa.base import mode
from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    VersionError,
)

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
    """Look for a GPU, then train small networks eagerly, recorded and as a program.

    Says what works and on which instruction set; warns where no GPU can be used.

    Raises:
        PreconditionNotMetError: a result is not what it must be.
    """
    import numpy

    import proa
    from proa.device import cuda
    from proa.utils import installation

    if cuda.device_count() == 0:
        warnings.warn(
            "[run_check] no GPU that this build can use was found: checking the CPU",
            stacklevel=2,
        )
    was_dynamic = mode.in_dynamic_mode()
    try:
        mode.disable_static()
        _check_eager_and_recorded()
        mode.enable_static()
        _check_static_program()
    finally:
        (mode.disable_static if was_dynamic else mode.enable_static)()
    built = installation.engine()
    print(
        f"Proa {proa.__version__}, Python {platform.python_version()}, "
        f"NumPy {numpy.__version__}"
    )
    print(
        f"Proa works: one training step, one recorded program and one static program "
        f"done on the CPU ({built['isa']} kernels of {built['built for']}; "
        f"{proa.get_num_threads()} threads)."
    )


def _must(fact: bool, what: str) -> None:
    if not fact:
        raise PreconditionNotMetError(f"[run_check] {what}")


def _check_eager_and_recorded() -> None:
    """One training step against the rule of SGD, and a recorded layer."""
    import proa
    from proa import jit, nn, optimizer

    net, x = nn.Linear(4, 2), proa.ones([3, 4])
    before = net.weight.numpy().copy()
    (net(x) ** 2).mean().backward()
    assert net.weight.grad is not None
    wanted = before - 0.1 * net.weight.grad.numpy()
    optimizer.SGD(0.1, net.parameters()).step()
    moved = (net.weight.numpy() != before).any()
    _must(
        bool(moved) and abs(net.weight.numpy() - wanted).max() < 1e-6,
        "a training step must subtract the gradient times the rate from the weights",
    )
    net.eval()
    with proa.no_grad():
        eager, recorded = net(x), jit.to_static(net.forward)(x)
    _must(
        bool(proa.allclose(eager, recorded).item()),
        "the recorded layer must return the eager result",
    )


def _check_static_program() -> None:
    """A program that is built, fed and trained for two steps by an executor."""
    import numpy

    from proa import optimizer, static

    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        x = static.data("x", [None, 4], "float32")
        loss = (static.nn.fc(x, 2) ** 2).mean()
        optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    with static.scope_guard(static.Scope()):
        executor.run(startup)
        feed = {"x": numpy.ones((3, 4), "float32")}
        first, second = (
            float(executor.run(program, feed=feed, fetch_list=[loss])[0])
            for _ in range(2)
        )
    _must(second < first, "two steps of a static program must lower its loss")
