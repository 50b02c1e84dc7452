"""Run clang-tidy over the C++ that differs from the branch main, or over all of it.

    python tools/clang_tidy.py [--all] [FILE ...]

Commands come from the builds of `nox -s ctest` (build/ctest/<package>); without one, or
without clang-tidy, nothing is checked. A changed header is checked by the source next
to it. Serving's transport has no such build and is compiled by Python's header alone.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# GCC's default, which is not in the commands.
STANDARD = "-std=gnu++17"
# Pragmas and attributes are GCC's; & and | of comparisons work on vectors, too.
ALLOWED = ("unknown-pragmas", "unknown-attributes", "bitwise-instead-of-logical")


def git(*command: str) -> list[str]:
    """The lines that git prints, or none if it fails."""
    done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def sources() -> list[str]:
    """The C++ that is checked: all but tests."""
    names = git("ls-files", "packages/*.cc")
    return [n for n in names if "/tests/" not in n and (ROOT / n).exists()]


def changed() -> set[str]:
    """Sources that differ from where the branch left main, or whose header does."""
    main = next((b for b in ("origin/main", "main") if git("rev-parse", b)), "HEAD")
    base = git("merge-base", "HEAD", main) or ["HEAD"]
    names = git("diff", "--name-only", *base)
    names += git("ls-files", "--others", "--exclude-standard")
    return {Path(name).with_suffix(".cc").as_posix() for name in names}


def command(name: str) -> list[str]:
    """How clang-tidy checks a file; empty where its package is not built."""
    package = name.split("/")[1]
    if package == "serving":
        include = f"-I{sysconfig.get_path('include')}"
        return ["clang-tidy", "--quiet", name, "--", STANDARD, include]
    build = ROOT / "build" / "ctest" / package
    if not (build / "compile_commands.json").exists():
        return []
    extra = (STANDARD, *(f"-Wno-{warning}" for warning in ALLOWED))
    options = ["--quiet", *(f"--extra-arg={arg}" for arg in extra), "-p", str(build)]
    return ["clang-tidy", *options, name]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="default: the changed")
    parser.add_argument("--all", action="store_true", help="every file: over an hour")
    options = parser.parse_args()
    if not shutil.which("clang-tidy"):
        print("[clang-tidy] left out: it is not installed")
        return 0
    named = options.files or ([] if options.all else changed())
    chosen = [name for name in sources() if options.all or name in named]
    known = [name for name in chosen if command(name)]
    failed = [n for n in known if subprocess.run(command(n), cwd=ROOT).returncode]
    print(f"[clang-tidy] {len(known)} files, {len(failed)} with findings", end="")
    left_out = len(chosen) - len(known)
    print(f", {left_out} left out without a `nox -s ctest` build" if left_out else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
