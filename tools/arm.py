"""Cross-build wheels for aarch64 and run tests of core under qemu-user.

    python tools/arm.py [PYTEST ARGUMENT...]

Nothing is installed on the machine: Debian's packages of Python for arm64 are fetched
by an apt that keeps its state in build/aarch64 and unpacked into its folder `root`;
NumPy and the tests' requirements go to `site` as wheels for aarch64. The program
`python` there runs that Python under qemu-user, and so do programs that start
`sys.executable`. Needs Debian (apt-get, dpkg), its packages g++-aarch64-linux-gnu and
qemu-user, and for this machine the version of Python that Debian has; no root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import release
import wheels

PACKAGES = ("python3", "libpython3-dev", "libstdc++6")
MACHINE = "aarch64"
# The oldest glibc that wheels are made for, and those between it and this.
GLIBC = range(17, 36)
BUILT = ("core", "inference", "lite")
CPUS = ("max", "cortex-a53")  # with the dot products of int8, and without
# Kernels against NumPy's arithmetic; what calls them is the same code on every machine.
TESTS = [
    f"packages/core/tests/ops/test_{name}.py"
    for name in ("kernels", "int8_gemm", "depthwise")
]


def apt_options(folder: Path) -> list[str]:
    """Options for an apt of its own, which reads the machine's list of sources."""
    state = folder / "apt"
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()  # nothing is installed
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "true",
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "Dir::Cache::archives": state / "archives",
    }
    return [f"-o{name}={value}" for name, value in settings.items()]


def unpack_debian(folder: Path) -> Path:
    """FOLDER/root with PACKAGES and what they need; return its Python."""
    apt = ["apt-get", "-q", *apt_options(folder)]
    subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
    fetch = [*apt, "install", "--yes", "--download-only", *PACKAGES]
    subprocess.run(fetch, check=True, stdout=subprocess.DEVNULL)
    root = folder / "root"
    (root / "usr" / "lib").mkdir(parents=True, exist_ok=True)
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    for archive in sorted((folder / "apt" / "archives").glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(archive), str(root)], check=True)
    return (root / "usr" / "bin" / "python3").resolve()


def install_wheels(folder: Path, version: str, requirements: list[str]) -> None:
    """FOLDER/site with wheels of the requirements for aarch64."""
    platforms = [f"--platform=manylinux_2_{minor}_{MACHINE}" for minor in GLIBC]
    platforms.append(f"--platform=manylinux2014_{MACHINE}")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check",
         "--upgrade", f"--target={folder / 'site'}", "--only-binary=:all:",
         f"--python-version={version}", *platforms, *requirements],
        check=True,
    )  # fmt: skip


def write_runner(folder: Path, python: Path) -> Path:
    """FOLDER/python, which the emulated interpreter takes for its own path."""
    runner, root, site = folder / "python", folder / "root", folder / "site"
    runner.write_text(
        "#!/bin/sh\n"
        f"export PYTHONPATH='{site}' PYTHONNOUSERSITE=1\n"
        f"exec qemu-{MACHINE} -L '{root}' '{python}' \"$@\"\n"
    )
    runner.chmod(0o755)
    (site / "sitecustomize.py").write_text(
        f"import sys\n\nsys.executable = {str(runner)!r}\n"
    )
    return runner


def build_environment(folder: Path, python: Path) -> dict[str, str]:
    """Variables under which scikit-build-core builds for that Python."""
    root, digits = folder / "root", python.name.removeprefix("python").replace(".", "")
    include = root / "usr" / "include" / python.name
    compiler = f"{MACHINE}-linux-gnu"
    defines = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": MACHINE,
        "CMAKE_C_COMPILER": f"{compiler}-gcc",
        "CMAKE_CXX_COMPILER": f"{compiler}-g++",
        # Debian's pyconfig.h includes the machine's by a path below usr/include.
        "CMAKE_CXX_FLAGS": f"-idirafter {root / 'usr' / 'include'}",
        "Python_INCLUDE_DIR": include,
        "Python3_INCLUDE_DIR": include,
        "Python3_NumPy_INCLUDE_DIR": folder / "site" / "numpy" / "_core" / "include",
        "PYTHON_MODULE_EXTENSION": f".cpython-{digits}-{compiler}.so",
        # For proa-inference, once core is in the folder.
        "PROA_CORE": folder / "site" / "proa",
    }
    return {
        "SKBUILD_CMAKE_DEFINE": ";".join(f"{k}={v}" for k, v in defines.items()),
        "_PYTHON_HOST_PLATFORM": f"linux-{MACHINE}",
        "AUDITWHEEL_LD_LIBRARY_PATH": f"{root}/usr/lib/{compiler}",
        "CXX": f"{compiler}-g++",
    }


def ensure(folder: Path) -> dict[str, Any]:
    """Make the folder if it is missing or was made for other requirements.

    Returns:
        What is where: the ``python`` in it, its ``runner``, and the ``environment``
        under which a wheel for it is built.
    """
    requirements = wheels.listed_strings(wheels.ROOT / "pyproject.toml", "arm")
    stamp = folder / "made.json"
    wanted = {"packages": list(PACKAGES), "requirements": requirements}
    known: dict[str, Any] = json.loads(stamp.read_text()) if stamp.exists() else {}
    if known.get("wanted") == wanted:
        return known
    wheels.say(f"unpacking {', '.join((*PACKAGES, *requirements))} for {MACHINE}")
    shutil.rmtree(folder, ignore_errors=True)
    python = unpack_debian(folder)
    install_wheels(folder, version_of(python), requirements)
    known = {
        "wanted": wanted,
        "python": str(python),
        "runner": str(write_runner(folder, python)),
        "environment": build_environment(folder, python),
    }
    stamp.write_text(json.dumps(known, indent=1))
    return known


def version_of(python: Path) -> str:
    """``3.11`` of `python3.11`."""
    return python.name.removeprefix("python")


def build_wheels(folder: Path, known: dict[str, Any], native: str) -> None:
    """Build BUILT for aarch64 into dist/, check them, and unpack them into the site."""
    wheels.build_environment(native)  # with tools of this machine
    environment: dict[str, str] = known["environment"]
    with mock.patch.dict(os.environ, environment):
        for package in BUILT:
            (wheel,) = wheels.ensure([package], native).values()
            if found := release.faults(wheel):
                raise SystemExit("\n".join(found))
            unpacked = folder / "site" / wheels.distribution(package)
            shutil.rmtree(unpacked, ignore_errors=True)
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder / "site")


def main() -> int:
    tools = (f"{MACHINE}-linux-gnu-g++", f"qemu-{MACHINE}", "apt-get", "dpkg")
    if missing := [tool for tool in tools if not shutil.which(tool)]:
        raise SystemExit(
            f"[arm] {', '.join(missing)} must be there; Debian has them in "
            f"g++-{MACHINE}-linux-gnu and qemu-user"
        )
    folder = wheels.ROOT / "build" / MACHINE
    known = ensure(folder)
    pythons: dict[str, str] = json.loads(os.environ.get("PROA_PYTHONS", "{}"))
    version = version_of(Path(known["python"]))
    if version not in pythons:
        raise SystemExit(
            f"[arm] Python {version}, which Debian has for {MACHINE}, must be there "
            f"for this machine too, got {sorted(pythons)}"
        )
    build_wheels(folder, known, pythons[version])
    workers = os.environ.get("PROA_TEST_WORKERS", "2")
    command = [known["runner"], "-m", "pytest", "-q", "-n", workers]
    command += ["-p", "no:cacheprovider"]
    command += sys.argv[1:] or TESTS
    status = 0
    for cpu in CPUS:
        wheels.say(f"tests on an emulated CPU of the kind {cpu}")
        environment = {**os.environ, "QEMU_CPU": cpu}
        status |= subprocess.run(command, cwd=wheels.ROOT, env=environment).returncode
    return status


if __name__ == "__main__":
    raise SystemExit(main())
