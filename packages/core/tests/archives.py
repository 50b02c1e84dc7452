"""Archives as data sets are published."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def make_tar(path: Path, files: dict[str, bytes], mode: str = "w:gz") -> str:
    """Write files into an archive; its path."""
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return str(path)
