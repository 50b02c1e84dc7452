"""What tools/release.py says of wheels built for the purpose, and of the packages."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from .loaded import TOOLS, tool

wheels = tool("wheels")
release = tool("release")

METADATA = """\
Metadata-Version: 2.4
Name: net
Version: 1.0
Summary: A net
Keywords: net
Requires-Python: >=3.10
License-Expression: Apache-2.0
License-File: LICENSE
Description-Content-Type: text/markdown
Classifier: Development Status :: 3 - Alpha
Classifier: Intended Audience :: Developers
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Programming Language :: Python :: 3.10
Classifier: Programming Language :: Python :: 3.11
Classifier: Programming Language :: Python :: 3.12
Classifier: Programming Language :: Python :: 3.13
Classifier: Programming Language :: Python :: 3.14

# A net
"""
FILES = {
    "net/__init__.py": "",
    "net/cli.py": "def main():\n    pass\n",
    "net/cmake/netConfig.cmake": "",
    "net/cmake/netConfigVersion.cmake": "",
    "net/py.typed": "",
    "net-1.0.dist-info/METADATA": METADATA,
    "net-1.0.dist-info/entry_points.txt": "[console_scripts]\nnet = net.cli:main\n",
    "net-1.0.dist-info/licenses/LICENSE": "As you like.",
}


def wheel_with(
    folder: Path, files: dict[str, str | None], platform: str = "any"
) -> Path:
    """A wheel of FILES with those changed; None leaves one out."""
    wheel = folder / f"net-1.0-py3-none-{platform}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**FILES, **files}.items():
            if text is not None:
                archive.writestr(name, text)
    return wheel


def test_a_complete_wheel_has_no_faults(tmp_path: Path) -> None:
    assert release.faults(wheel_with(tmp_path, {})) == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("net/py.typed", None, "net/py.typed must be in it"),
        ("net-1.0.dist-info/licenses/LICENSE", None, "text of its licence"),
        ("net/tests/test_a.py", "", "net/tests/test_a.py must not be in it"),
        ("net/kernel.cc", "", "net/kernel.cc must not be in it"),
        ("net/rules.cmake", "", "net/rules.cmake must not be in it"),
        ("net/cli.py", "", "entry point net must name what is in it"),
        ("net/lib.so", "", "platform must be a manylinux tag, got any"),
    ],
)
def test_a_faulty_file_is_found(
    tmp_path: Path, file: str, text: str | None, fault: str
) -> None:
    (found,) = release.faults(wheel_with(tmp_path, {file: text}))
    assert fault in found


@pytest.mark.parametrize(
    ("line", "instead", "fault"),
    [
        ("Keywords: net\n", "", "must have Keywords"),
        ("License-File: LICENSE\n", "", "must name its licence"),
        ("# A net\n", "", "must have a description"),
        ("Python :: 3.14", "Python :: 3.9", "Python :: 3.14"),
        ("Topic ::", "Natural Language ::", "a classifier of Topic"),
        ("Name: net\n", "Name: net\nProject-URL: Home, x.y\n", "must name no address"),
    ],
)
def test_faulty_metadata_is_found(
    tmp_path: Path, line: str, instead: str, fault: str
) -> None:
    text = METADATA.replace(line, instead)
    (found,) = release.faults(
        wheel_with(tmp_path, {"net-1.0.dist-info/METADATA": text})
    )
    assert fault in found


@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
def test_a_tag_older_than_the_librarys_symbols_is_found(tmp_path: Path) -> None:
    """The library wants a function of glibc 2.17 by its version."""
    source, library = tmp_path / "a.c", tmp_path / "a.so"
    source.write_text(
        "char* secure_getenv(const char*);\n"
        'char* home(void) { return secure_getenv("HOME"); }\n'
    )
    command = ["cc", "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    assert release.glibc_of(library) == (2, 17)
    for platform, fault in (
        ("manylinux_2_17_x86_64", []),
        ("manylinux_2_5_x86_64", ["net/a.so wants glibc 2.17"]),
    ):
        wheel = wheel_with(tmp_path, {}, platform)
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.write(library, "net/a.so")
        found = release.faults(wheel)
        assert len(found) == len(fault)
        assert all(text in line for text, line in zip(fault, found, strict=True))


def test_wheels_of_two_builds_are_compared_by_their_files(tmp_path: Path) -> None:
    known = wheel_with(tmp_path, {})
    other = tmp_path / "other"
    other.mkdir()
    assert release.missing_files(wheel_with(other, {}), known) == set()
    fewer = wheel_with(other, {"net/cli.py": None})
    assert release.missing_files(fewer, known) == {"net/cli.py"}


def test_each_package_carries_the_licence_of_the_whole() -> None:
    text = (TOOLS.parent / "LICENSE").read_text()
    for package in wheels.present():
        copy = TOOLS.parent / "packages" / package / "LICENSE"
        assert copy.read_text() == text


def test_a_wheel_replaces_those_for_the_same_python_and_machine(tmp_path: Path) -> None:
    for name in (
        "proa-0.1.0-cp311-cp311-linux_x86_64.whl",
        "proa-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl",
        "proa-0.1.0-cp311-cp311-manylinux_2_35_aarch64.whl",
        "proa-0.1.0-cp312-cp312-manylinux_2_35_x86_64.whl",
        "proa_lite-0.1.0-py3-none-manylinux_2_34_x86_64.whl",
    ):
        (tmp_path / name).touch()
    new = Path("proa-0.2.0-cp311-cp311-manylinux_2_34_x86_64.whl")
    found = sorted(p.name for p in tmp_path.glob(wheels.same_target(new)))
    assert [name.split("-")[4] for name in found] == [
        "linux_x86_64.whl",
        "manylinux_2_35_x86_64.whl",
    ]
