"""Build the wheels into dist/, each once per state of its sources.

    python tools/wheels.py [--isas NAMES] [PACKAGE ...]

A package's state is a hash over its own files (as they are on disk, committed or
not), over those of the packages it is built from, and over the compiler and the
Python that build it. The hash is stored next to the wheel, so that a second run with
nothing changed builds nothing. On Linux auditwheel gives a wheel of compiled libraries
the manylinux tag that is true of them. With --isas the kernels are built for these
instruction sets alone, as in `--isas scalar`, and wheels go to dist/<names>/. Only the
standard library and `virtualenv` (which nox brings) are needed: the build tools
come into an environment of their own, .nox/build-env-<python>.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"

# Each package's sources, besides packages/<name>. In build order: a wheel that others
# are built against comes before them.
NATIVE_CORE = (
    "packages/core/CMakeLists.txt",
    "packages/core/cmake",
    "packages/core/codegen",
    "packages/core/csrc",
    "packages/core/src/proa/schema",
)
SOURCES: dict[str, tuple[str, ...]] = {
    "core": (),
    "slim": (),
    "inference": NATIVE_CORE,  # links against core's runtime library
    "lite": NATIVE_CORE,  # compiles core's portable sources and generated tables
    "serving": (),
    "alias": (),
}
NEEDS_CORE_INSTALLED = ("inference",)
# Bound to the interpreter; the other wheels are for every Python.
FOR_ONE_PYTHON = ("core", "serving")
# Changes here change no wheel.
NOT_BUILT = ("tests", "csrc/tests", "csrc/bench", "README.md")


def present() -> list[str]:
    """The packages that are in the tree, in build order."""
    return [p for p in SOURCES if (ROOT / "packages" / p / "pyproject.toml").exists()]


def source_files(package: str) -> Iterator[Path]:
    """Every file the package's wheel is made from, as it is on disk."""
    roots = [f"packages/{package}", *SOURCES[package]]
    skipped = tuple(f"packages/{p}/{part}" for p in SOURCES for part in NOT_BUILT)
    for name in sorted(listed_by_git(roots) or listed_on_disk(roots)):
        if not name.startswith(skipped) and (ROOT / name).is_file():
            yield ROOT / name


def listed_by_git(roots: list[str]) -> list[str]:
    """Tracked and untracked files but the ignored ones; empty where git has no say."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(
            [*command, *roots], cwd=ROOT, capture_output=True, text=True
        )
    except OSError:
        return []
    return [name for name in answer.stdout.split("\0") if name]


def listed_on_disk(roots: list[str]) -> list[str]:
    """Every file of an unpacked source archive."""
    files = (path for root in roots for path in (ROOT / root).rglob("*"))
    built = ("build", "__pycache__")
    return [
        path.relative_to(ROOT).as_posix()
        for path in files
        if not any(part in built for part in path.parts) and path.suffix != ".so"
    ]


def compiler_version() -> str:
    compiler = os.environ.get("CXX", "c++")
    try:
        answer = subprocess.run([compiler, "--version"], capture_output=True, text=True)
    except OSError:
        return "none"
    return answer.stdout.partition("\n")[0]


def state_of(package: str, tag: str) -> str:
    """A hash of everything the package's wheel depends on."""
    digest = hashlib.sha256()
    build_flags = sorted(
        k for k in os.environ if k.startswith(("SKBUILD_", "PROA_ISAS"))
    )
    for fact in (tag, compiler_version(), os.environ.get("CXXFLAGS", "")):
        digest.update(fact.encode() + b"\0")
    for key in build_flags:
        digest.update(f"{key}={os.environ[key]}\0".encode())
    for path in source_files(package):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def build_environment(python: str) -> Path:
    """Make the environment of the build tools if needed; return its Python."""
    folder = ROOT / ".nox" / f"build-env-{python_tag(python)}"
    wanted = build_requirements()
    stamp = folder / "requirements.json"
    interpreter = folder / "bin" / "python"
    if not (stamp.exists() and json.loads(stamp.read_text()) == wanted):
        say(f"making the build environment ({', '.join(wanted)})")
        shutil.rmtree(folder, ignore_errors=True)
        make = [sys.executable, "-m", "virtualenv", "-q", "-p", python, str(folder)]
        subprocess.run(make, check=True)
        install(interpreter, wanted)
        stamp.write_text(json.dumps(wanted))
    return interpreter


def build_requirements() -> list[str]:
    """The root's `build` group and what each package's build needs."""
    wanted = listed_strings(ROOT / "pyproject.toml", "build")
    for package in present():
        settings = ROOT / "packages" / package / "pyproject.toml"
        wanted += listed_strings(settings, "requires")
    return sorted({each for each in wanted if not is_own(each)})


def is_own(requirement: str) -> bool:
    """Whether it is a package of this repository, which no index has."""
    name = re.split(r"[^\w-]", requirement)[0].replace("-", "_")
    return name in map(distribution, SOURCES)


def listed_strings(settings: Path, key: str) -> list[str]:
    """A list of strings in a TOML file (its parser comes with Python 3.11 only)."""
    entry = rf'^{key} = (\[(?:[^"\]]|"[^"]*")*\])'
    found = re.search(entry, settings.read_text(), re.M)
    return re.findall(r'"([^"]*)"', found[1]) if found else []


def install(interpreter: Path, what: list[str]) -> None:
    command = [str(interpreter), "-m", "pip", "install", "-q"]
    subprocess.run([*command, "--disable-pip-version-check", *what], check=True)


def python_tag(python: str) -> str:
    query = "import sys; print('cp%d%d' % sys.version_info[:2])"
    return subprocess.run(
        [python, "-c", query], check=True, capture_output=True, text=True
    ).stdout.strip()


def distribution(package: str) -> str:
    names = {"core": "proa", "alias": "proa_paddle_alias"}
    return names.get(package, f"proa_{package}")


def restrict(isas: str) -> None:
    """Build kernels for these instruction sets alone, next to the ordinary wheels."""
    global DIST
    name = "-".join(isas.split(";"))
    DIST = ROOT / "dist" / name
    os.environ["SKBUILD_CMAKE_DEFINE"] = f"PROA_ISAS={isas}"
    # An ordinary build would find the definition in a shared folder's cache.
    os.environ["SKBUILD_BUILD_DIR"] = f"build/{name}-{{wheel_tag}}"


def stamp_of(package: str, tag: str) -> Path:
    return DIST / ".state" / f"{package}-{tag}.json"


def built_wheel(package: str, tag: str, state: str) -> tuple[Path | None, str]:
    """The wheel of this state, or None and the reason why there is none."""
    stamp = stamp_of(package, tag)
    if not stamp.exists():
        return None, "it has not been built here yet"
    known = json.loads(stamp.read_text())
    wheel = DIST / known["wheel"]
    if known["state"] != state:
        return None, "its sources or the compiler changed"
    if not wheel.exists():
        return None, "its wheel is no longer in dist/"
    return wheel, ""


class Progress:
    """Shows how far ninja is: in place on a terminal, else a line each ten percent."""

    STEP = re.compile(r"\[(\d+)/(\d+)\]")

    def __init__(self, package: str) -> None:
        self.package, self.shown = package, -1
        self.in_place = sys.stdout.isatty()

    def see(self, line: str) -> None:
        step = self.STEP.search(line)
        if not step:
            return
        done, total = int(step[1]), int(step[2])
        percent = 100 * done // max(total, 1)
        if percent // (1 if self.in_place else 10) == self.shown:
            return
        self.shown = percent // (1 if self.in_place else 10)
        text = f"  {self.package}: {done} of {total} steps ({percent} %)"
        print(f"\r{text}" if self.in_place else text, end=self.end(), flush=True)

    def end(self) -> str:
        return "" if self.in_place else "\n"

    def close(self) -> None:
        if self.in_place and self.shown >= 0:
            print(flush=True)


def build(package: str, interpreter: Path, tag: str) -> Path:
    """Build one wheel into dist/ and return its path; log to dist/<name>.log."""
    fresh = DIST / ".new" / package
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    command = [str(interpreter), "-m", "pip", "wheel", "-v", "--no-deps"]
    command += ["--no-build-isolation", "--disable-pip-version-check"]
    command += ["-w", str(fresh), str(ROOT / "packages" / package)]
    # cmake and ninja of the build environment come first on PATH.
    path = f"{interpreter.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path}
    if sys.platform == "linux":  # A wheel of ours is not without what is optional.
        env.setdefault("PROA_SERVING_NATIVE", "1")
    progress, lines = Progress(package), []
    with subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            progress.see(line)
    progress.close()
    (DIST / f"{package}.log").write_text("".join(lines))
    if process.returncode != 0:
        errors = [
            i for i, line in enumerate(lines) if re.search(r"error:|FAILED:", line)
        ]
        start = errors[0] if errors else max(len(lines) - 60, 0)
        sys.stdout.write("".join(lines[start : start + 60]))
        raise SystemExit(
            f"[build] {package} failed; the full log is dist/{package}.log"
        )
    (wheel,) = fresh.glob("*.whl")
    if sys.platform == "linux" and "-linux_" in wheel.name:
        wheel = tagged(wheel, interpreter, env)
    for old in DIST.glob(same_target(wheel)):
        old.unlink()
    return wheel.rename(DIST / wheel.name)


def tagged(wheel: Path, interpreter: Path, env: dict[str, str]) -> Path:
    """The wheel with the manylinux tag that its libraries' symbols allow.

    The runtime library stays the one of core's wheel, for all that link against it.
    """
    folder = wheel.parent / "tagged"
    command = [str(interpreter), "-m", "auditwheel", "repair", "--only-plat"]
    command += ["--exclude", "libproa_runtime.so", "-w", str(folder), str(wheel)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"[build] auditwheel refused {wheel.name}:\n{done.stderr}")
    (result,) = folder.glob("*.whl")
    return result


def same_target(wheel: Path) -> str:
    """The pattern of wheels for the same Python and machine, of any version."""
    name, _, python, abi, platform = wheel.stem.split("-")
    machine = re.sub(r"^(many)?linux_(\d+_\d+_)?", "", platform)
    return f"{name}-*-{python}-{abi}-*{machine}.whl"


def say(text: str) -> None:
    print(f"[build] {text}", flush=True)


def ensure(packages: list[str], python: str) -> dict[str, Path]:
    """Build what is missing or stale and return each package's wheel."""
    DIST.mkdir(parents=True, exist_ok=True)
    wheels: dict[str, Path] = {}
    # The platform of another machine in a cross-build; see tools/arm.py.
    target = os.environ.get("_PYTHON_HOST_PLATFORM", "")
    begin = time.monotonic()
    for package in packages:
        tag = python_tag(python) if package in FOR_ONE_PYTHON else "py3"
        tag += f"-{target}" if target else ""
        state = state_of(package, tag)
        wheel, reason = built_wheel(package, tag, state)
        if wheel is None:
            say(f"{package}: building, because {reason}")
            start = time.monotonic()
            interpreter = build_environment(python)
            if package in NEEDS_CORE_INSTALLED and not target:
                core = ensure(["core"], python)["core"]
                install(interpreter, ["--force-reinstall", "--no-deps", str(core)])
                install(interpreter, ["numpy"])
            wheel = build(package, interpreter, tag)
            stamp = stamp_of(package, tag)
            stamp.parent.mkdir(exist_ok=True)
            stamp.write_text(json.dumps({"state": state, "wheel": wheel.name}))
            size, took = wheel.stat().st_size / 1e6, time.monotonic() - start
            say(f"{package}: {wheel.name}, {size:.2f} MB, in {took:.0f} s")
        else:
            say(f"{package}: {wheel.name} is up to date")
        wheels[package] = wheel
    say(f"{len(wheels)} wheels in dist/ after {time.monotonic() - begin:.0f} s")
    return wheels


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "packages", nargs="*", help="default: every package in the tree"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="build for this Python"
    )
    parser.add_argument("--isas", help="instruction sets, separated by semicolons")
    parser.add_argument("--json", type=Path, help="write {package: wheel} to this file")
    options = parser.parse_args()
    unknown = set(options.packages) - set(SOURCES)
    if unknown:
        raise SystemExit(f"[build] packages must be of {list(SOURCES)}, got {unknown}")
    if options.isas:
        restrict(options.isas)
    chosen = [p for p in present() if not options.packages or p in options.packages]
    wheels = ensure(chosen, options.python)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({p: str(w) for p, w in wheels.items()}))


if __name__ == "__main__":
    main()
