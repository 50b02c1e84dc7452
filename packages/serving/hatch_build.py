"""Generate the protobuf messages of the protocol, and compile the native transport.

The build runs this as a hook. When working from a checkout, run it by hand:
``python packages/serving/hatch_build.py``.

The native transport is compiled where there is a C++ compiler for Linux, and Python's
headers; elsewhere the package is without it, and serves by asyncio's transports.
``PROA_SERVING_NATIVE=1`` in the environment makes its absence an error, ``0`` leaves it
out.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "proto" / "open_inference.proto"
TARGET = ROOT / "src" / "proa_serving" / "protocol" / "generated"

# Messages are known in Python under a package of our own: every client library of
# the protocol registers its messages as "inference" in one process-wide table, and
# two registrations of one name collide. The bytes on the wire do not hold the name.
PUBLIC_PACKAGE = "package inference;"
PYTHON_PACKAGE = "package proa_serving.inference;"
NATIVE_SOURCES = ROOT / "csrc"
NATIVE_FOLDER = ROOT / "src" / "proa_serving"
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-s")


def generate(target: Path = TARGET) -> None:
    """Write ``open_inference_pb2.py`` and its stub into ``target``."""
    from grpc_tools import protoc

    text = SOURCE.read_text(encoding="utf-8")
    if text.count(PUBLIC_PACKAGE) != 1:
        raise RuntimeError(f"[build] {SOURCE} must hold {PUBLIC_PACKAGE!r} once")
    with tempfile.TemporaryDirectory() as folder:
        # Imported as proa_serving.protocol.generated, so compiled under that path.
        package = Path(folder, "proa_serving", "protocol", "generated")
        package.mkdir(parents=True)
        copy = package / SOURCE.name
        copy.write_text(text.replace(PUBLIC_PACKAGE, PYTHON_PACKAGE), encoding="utf-8")
        out = Path(folder, "out")
        out.mkdir()
        options = [f"-I{folder}", f"--python_out={out}", f"--pyi_out={out}", str(copy)]
        if protoc.main(["protoc", *options]) != 0:
            raise RuntimeError(f"[build] protoc must accept {SOURCE}")
        target.mkdir(parents=True, exist_ok=True)
        for result in sorted((out / package.relative_to(folder)).iterdir()):
            text = result.read_text(encoding="utf-8")
            if result.suffix == ".pyi":  # protobuf's own types may not be installed.
                text = f"# mypy: ignore-errors\n{text}"
            _write_if_changed(target / result.name, text)
    _write_if_changed(target / "__init__.py", '"""Generated at build time."""\n')


def native_path(folder: Path = NATIVE_FOLDER) -> Path:
    """Where the native transport is, for the Python that runs this."""
    return folder / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"


def compile_native(target: Path) -> str:
    """Compile the native transport to ``target``; why not, where that cannot be."""
    wish = os.environ.get("PROA_SERVING_NATIVE", "")
    if wish == "0":
        return "PROA_SERVING_NATIVE is 0"
    missing = _missing()
    if missing:
        if wish:
            raise RuntimeError(f"[build] PROA_SERVING_NATIVE is {wish}, but {missing}")
        return missing
    command = [*_compiler(), *_FLAGS, f"-I{sysconfig.get_path('include')}"]
    sources = sorted(map(str, NATIVE_SOURCES.glob("*.cc")))
    subprocess.run([*command, *sources, "-o", str(target)], check=True)
    return ""


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX", "c++"))


def _missing() -> str:
    """What the native transport would need; empty if all of it is there."""
    if sys.platform != "linux":
        return "it is for Linux"
    if shutil.which(_compiler()[0]) is None:
        return f"there is no C++ compiler {_compiler()[0]}"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's headers are not installed"
    return ""


def _write_if_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


class GenerateMessages(BuildHookInterface):  # type: ignore[type-arg]  # no config class
    """Generates and compiles before a wheel or an editable install is made."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate()
        build_data["artifacts"].append("src/proa_serving/protocol/generated/*")
        for stale in NATIVE_FOLDER.glob("_native*.so"):
            stale.unlink()
        why_not = compile_native(native_path())
        if why_not:
            self.app.display_warning(f"built without the native transport: {why_not}")
            return
        build_data["artifacts"].append(f"src/proa_serving/{native_path().name}")
        build_data["pure_python"], build_data["infer_tag"] = False, True


if __name__ == "__main__":
    generate()
    print(compile_native(native_path()) or native_path())
