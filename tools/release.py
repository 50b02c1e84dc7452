"""Check the wheels in dist/ as an index and a user would, and make source archives.

    python tools/release.py WHEEL...          say what is wrong with the wheels
    python tools/release.py --archives OUT    make the archives of all packages, and in
                                              OUT what pip makes of each one alone

A wheel's metadata must be complete, its files typed and licensed, its commands there,
and its tag true: no library may want a newer glibc than the tag names. A wheel made of
an archive holds the files that the checkout's has.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

import wheels
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

METADATA = (
    "Name",
    "Version",
    "Summary",
    "Keywords",
    "Requires-Python",
    "Description-Content-Type",
)
CLASSIFIERS = ("Development Status", "Intended Audience", "Operating System", "Topic")
PYTHONS = tuple(
    f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 15)
)
# Belongs to a checkout, not to an installed package.
# `find_package` reads what a CMake package is installed as, NAMEConfig.cmake.
STRAY = re.compile(
    r"(^|/)(tests?|__pycache__|build)/|\.(cc|o|gen\.py)$"
    r"|(?<!Config)(?<!ConfigVersion)\.cmake$"
)
# Modules without a type marker: `paddle` is Proa under another name.
UNTYPED = ("paddle",)


def faults(wheel: Path) -> list[str]:
    """What is wrong with a wheel, a line each."""
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if not n.endswith("/")]
        (folder,) = {n.split("/")[0] for n in names if ".dist-info/" in n}
        facts = archive.read(f"{folder}/METADATA").decode()
        found = [*metadata_faults(facts), *file_faults(names, folder)]
        commands = f"{folder}/entry_points.txt"
        if commands in names:
            found += command_faults(archive, archive.read(commands).decode(), names)
        found += tag_faults(archive, wheel, names)
    return [f"{wheel.name}: {fault}" for fault in found]


def metadata_faults(text: str) -> Iterator[str]:
    """The metadata that an index shows and that pip resolves by."""
    facts = message_from_string(text)
    for field in METADATA:
        if not facts.get(field):
            yield f"its metadata must have {field}"
    if facts.get("License-Expression") != "Apache-2.0" or not facts.get("License-File"):
        yield "it must name its licence (Apache-2.0) and the licence's file"
    if not str(facts.get_payload()).strip():
        yield "it must have a description"
    given = facts.get_all("Classifier", [])
    for kind in CLASSIFIERS:
        if not any(each.startswith(f"{kind} :: ") for each in given):
            yield f"it must have a classifier of {kind}"
    if missing := sorted(set(PYTHONS) - set(given)):
        yield f"it must have the classifiers {missing}"
    if urls := [*facts.get_all("Project-URL", []), *facts.get_all("Home-page", [])]:
        yield f"it must name no address, as the project has none, got {urls}"


def file_faults(names: list[str], folder: str) -> Iterator[str]:
    """A licence, a type marker in each package, and no file of the checkout."""
    if not any(n.startswith(f"{folder}/licenses/") for n in names):
        yield "the text of its licence must be in it"
    packages = {n.split("/")[0] for n in names if n.endswith("/__init__.py")}
    for package in sorted(packages - set(UNTYPED)):
        if f"{package}/py.typed" not in names:
            yield f"{package}/py.typed must be in it"
    for name in names:
        if STRAY.search(name.removeprefix(f"{next(iter(packages), '')}/")):
            yield f"{name} must not be in it"


def command_faults(
    archive: zipfile.ZipFile, text: str, names: list[str]
) -> Iterator[str]:
    """Every entry point must name a function or class of a module in the wheel."""
    points = configparser.ConfigParser()
    points.read_string(text)
    for group in points.sections():
        for name, value in points.items(group):
            module, _, attribute = value.partition(":")
            file = module.replace(".", "/") + ".py"
            there = file in names and attribute in defined(archive.read(file).decode())
            if not there:
                yield f"its entry point {name} must name what is in it, got {value}"


def defined(source: str) -> set[str]:
    """The functions and classes of a module."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(source).body if isinstance(node, kinds)}


def tag_faults(
    archive: zipfile.ZipFile, wheel: Path, names: list[str]
) -> Iterator[str]:
    """The platform tag against what the libraries want of glibc."""
    libraries = [n for n in names if re.search(r"\.so(\.\d+)*$", n)]
    platform = wheel.stem.rpartition("-")[2]
    if not libraries:
        if platform != "any":
            yield f"it holds no library, so its platform must be any, got {platform}"
        return
    tag = re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", platform)
    if tag is None:
        yield f"its platform must be a manylinux tag, got {platform}"
        return
    for name in libraries:
        with tempfile.TemporaryDirectory() as folder:
            wanted = glibc_of(Path(archive.extract(name, folder)))
        if wanted > (int(tag[1]), int(tag[2])):
            yield f"{name} wants glibc {wanted[0]}.{wanted[1]}, its tag is {platform}"


def glibc_of(library: Path) -> tuple[int, int]:
    """The newest version of glibc whose symbols a library wants."""
    newest = (0, 0)
    with library.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if not isinstance(section, GNUVerNeedSection):
                continue
            for _, needed in section.iter_versions():
                for each in needed:
                    version = re.match(r"GLIBC_(\d+)\.(\d+)", each.name)
                    if version:
                        newest = max(newest, (int(version[1]), int(version[2])))
    return newest


def archive_of(package: str, interpreter: Path) -> Path:
    """The source archive of a package, in dist/."""
    folder = wheels.ROOT / "packages" / package
    for old in wheels.DIST.glob(f"{wheels.distribution(package)}-*.tar.gz"):
        old.unlink()
    path = f"{interpreter.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    subprocess.run(
        [str(interpreter), "-m", "build", "--sdist", "--no-isolation",
         "--skip-dependency-check", "-o", str(wheels.DIST), str(folder)],
        check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PATH": path},
    )  # fmt: skip
    (result,) = wheels.DIST.glob(f"{wheels.distribution(package)}-*.tar.gz")
    return result


def wheel_of(archive: Path, out: Path) -> Path:
    """What pip makes of a source archive, in an environment of the build's own."""
    fresh = out / archive.name.removesuffix(".tar.gz")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check",
         "--no-deps", "--no-cache-dir", f"--find-links={wheels.DIST}",
         "-w", str(fresh), str(archive)],
        check=True, cwd=out,
        # One instruction set: what there is to see is that everything needed is there.
        env={**os.environ, "SKBUILD_CMAKE_DEFINE": "PROA_ISAS=native"},
    )  # fmt: skip
    (result,) = fresh.glob("*.whl")
    return result.rename(out / result.name)


def missing_files(path: Path, known: Path) -> set[str]:
    """Files that one of the two wheels lacks."""
    held = []
    for wheel in (path, known):
        with zipfile.ZipFile(wheel) as archive:
            held.append({n for n in archive.namelist() if not n.endswith("/")})
    return held[0] ^ held[1]


def archives(packages: list[str], out: Path) -> list[str]:
    """Make archives and their wheels; return what is wrong with them."""
    found = []
    out.mkdir(parents=True, exist_ok=True)
    for package in packages:
        interpreter = wheels.build_environment(sys.executable)
        (known,) = wheels.ensure([package], sys.executable).values()
        source = archive_of(package, interpreter)
        result = wheel_of(source, out)
        wheels.say(f"{package}: {source.name}, {source.stat().st_size / 1e6:.2f} MB")
        if differing := missing_files(result, known):
            found.append(f"{source.name}: the wheel of it differs in {differing}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheels", nargs="*", type=Path)
    parser.add_argument("--archives", type=Path, help="where their wheels go")
    parser.add_argument("--packages", nargs="*", default=wheels.present())
    options = parser.parse_args()
    found = [fault for wheel in options.wheels for fault in faults(wheel)]
    if options.archives:
        found += archives(options.packages, options.archives.resolve())
    print("\n".join(found) or f"nothing is wrong with {len(options.wheels)} wheels")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
