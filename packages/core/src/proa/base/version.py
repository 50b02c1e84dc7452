"""The version that is installed, by the name of its folder of metadata."""

from __future__ import annotations

import os
import re
import sys
from functools import cache

_FOLDER = re.compile(r"^proa-(.+)\.dist-info$")


@cache
def installed_version() -> str:
    """The version of the package; "0+source" if it is used without an installation.

    As `importlib.metadata.version`, whose import takes longer than to load most models.
    """
    for path in sys.path:
        try:
            with os.scandir(path or ".") as entries:
                found = [m[1] for entry in entries if (m := _FOLDER.match(entry.name))]
        except OSError:  # no folder, or none that may be read
            continue
        if found:
            return found[0]
    return "0+source"
