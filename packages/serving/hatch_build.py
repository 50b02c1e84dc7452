"""Generate the protobuf messages of the Open Inference Protocol.

The build runs this as a hook. When working from a checkout, run it by hand:
``python packages/serving/hatch_build.py``.
"""

from __future__ import annotations

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
        for made in sorted((out / package.relative_to(folder)).iterdir()):
            text = made.read_text(encoding="utf-8")
            if made.suffix == ".pyi":  # protobuf's own types may not be installed.
                text = f"# mypy: ignore-errors\n{text}"
            _write_if_changed(target / made.name, text)
    _write_if_changed(target / "__init__.py", '"""Generated at build time."""\n')


def _write_if_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


class GenerateMessages(BuildHookInterface):  # type: ignore[type-arg]  # no config class
    """Runs :func:`generate` before a wheel or an editable install is made."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate()
        build_data["artifacts"].append("src/proa_serving/protocol/generated/*")


if __name__ == "__main__":
    generate()
