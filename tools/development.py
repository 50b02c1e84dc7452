"""Give wheels the version of a development build, for `pip install --pre`.

    python tools/development.py NUMBER FOLDER WHEEL...

The version after the wheel's own, with `.devNUMBER`, as in 0.1.1.dev20261124: pip takes
it for newer than what was released and older than what comes next, and packages that
require proa>=0.1 accept it. The copies in FOLDER are the same builds; only their
metadata and `__version__` differ.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path


def development_version(version: str, number: int) -> str:
    """The next patch's version, as one in development."""
    *first, patch = version.split(".")
    return ".".join([*first, str(int(patch) + 1), f"dev{number}"])


def renamed(name: str, old: str, new: str) -> str:
    """The name of a file in a wheel whose version is another."""
    pattern = rf"^(\w+)-{re.escape(old)}(?=\.(dist-info|data)/)"
    return re.sub(pattern, rf"\1-{new}", name)


def changed(name: str, data: bytes, old: str, new: str) -> bytes:
    """What a file holds in a wheel whose version is another."""
    if name.endswith(".dist-info/METADATA"):
        pattern, text = rf"^Version: {re.escape(old)}$", f"Version: {new}"
    elif re.fullmatch(r"\w+/__init__\.py", name):
        pattern, text = rf'^__version__ = "{re.escape(old)}"$', f'__version__ = "{new}"'
    else:
        return data
    return re.sub(pattern, text, data.decode(), flags=re.M).encode()


def record_line(name: str, data: bytes) -> str:
    """The line of a wheel's RECORD for a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    return f"{name},sha256={digest.rstrip('=')},{len(data)}"


def development_wheel(wheel: Path, number: int, folder: Path) -> Path:
    """A copy of a wheel in a folder, with the version of a development build."""
    old = wheel.name.split("-")[1]
    new = development_version(old, number)
    target = folder / wheel.name.replace(f"-{old}-", f"-{new}-", 1)
    folder.mkdir(parents=True, exist_ok=True)
    lines, record = [], ""
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w") as file:
        for entry in source.infolist():
            name = renamed(entry.filename, old, new)
            if name.endswith(".dist-info/RECORD"):
                record = name
                continue
            data = changed(name, source.read(entry), old, new)
            entry.filename = name
            file.writestr(entry, data, zipfile.ZIP_DEFLATED)
            if not entry.is_dir():
                lines.append(record_line(name, data))
        text = "\n".join([*lines, f"{record},,", ""])
        file.writestr(record, text, zipfile.ZIP_DEFLATED)
    return target


def main() -> None:
    number, folder, *chosen = sys.argv[1:]
    for wheel in chosen:
        print(development_wheel(Path(wheel), int(number), Path(folder)))


if __name__ == "__main__":
    main()
