"""torch, the reference of some tests, where it is installed.

Elsewhere (it is large, and the full tests alone install it) whatever calls it is left
out, and the other tests run.
"""

from __future__ import annotations

from typing import Any

import pytest


class _Absent:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **settings: Any) -> Any:
        pytest.skip("torch, a further reference, is not installed")


torch: Any
try:
    import torch
except ImportError:
    torch = _Absent()
