"""Make wheels of another kind and use each installed package once.

    python tools/variants.py light                 for CPUs without AVX, in dist/scalar
    python tools/variants.py development [NUMBER]  for `pip install --pre`, in
                                                   dist/development

The number of a development build is today's date unless it is given. Light wheels are
held to their budgets, and checked on an emulated CPU where qemu-user is there.
"""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
from pathlib import Path

import wheels
from development import development_wheel

#: A CPU of 2008, which has no AVX.
OLD_CPU = "Nehalem"


def run(*command: str) -> None:
    """Run a program, without the paths of this one."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run(command, cwd=wheels.ROOT, check=True, env=env)


def environment(name: str) -> str:
    """The Python of a fresh environment."""
    folder = wheels.ROOT / ".nox" / f"try-{name}"
    make = (sys.executable, "-m", "virtualenv", "-q", "--clear", "-p", sys.executable)
    run(*make, str(folder))
    return str(folder / "bin" / "python")


def pip_install(python: str, *what: str) -> None:
    """Install into the environment of a Python."""
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *what)


def light() -> None:
    """Wheels with kernels for x86-64 without AVX alone."""
    wheels.restrict("scalar")
    built = wheels.ensure(wheels.present(), sys.executable)
    python = environment("light")
    pip_install(python, *map(str, built.values()))
    run(python, "tools/smoke.py")
    if emulator := shutil.which("qemu-x86_64"):
        program = "import proa; proa.utils.run_check()"
        run(emulator, "-cpu", OLD_CPU, python, "-c", program)
    run(sys.executable, "tools/size.py", "--light", "--skip-import")


def development(number: int) -> None:
    """Wheels that pip installs with --pre, in the place of released ones."""
    folder = wheels.DIST / "development"
    shutil.rmtree(folder, ignore_errors=True)
    built = wheels.ensure(wheels.present(), sys.executable)
    for wheel in built.values():
        print(development_wheel(wheel, number, folder).name)
    python = environment("development")
    pip_install(python, *map(str, built.values()))
    # From this folder alone: an index may have other packages of these names.
    only = ("--upgrade", "--no-index", "--find-links", str(folder))
    names = [wheels.distribution(package) for package in built]
    pip_install(python, "--pre", *only, *names)
    run(python, "-m", "pip", "check")
    program = "import proa; assert '.dev' in proa.__version__; print(proa.__version__)"
    run(python, "-c", program)
    run(python, "tools/smoke.py")


def main() -> None:
    """Parse the command line."""
    kind, *more = sys.argv[1:] or [""]
    if kind == "light" and not more:
        light()
    elif kind == "development" and len(more) <= 1:
        today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d")
        development(int(more[0] if more else today))
    else:
        raise SystemExit(f"{Path(__file__).name}: expected light, or development and "
                         f"a number, got {sys.argv[1:]}")  # fmt: skip


if __name__ == "__main__":
    main()
