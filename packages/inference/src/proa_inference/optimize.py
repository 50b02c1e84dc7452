"""Graph passes at load time: bytes of a model in, bytes of the optimized model out."""

from __future__ import annotations

from collections.abc import Sequence

from proa.ir import file, passes


def optimized(content: bytes, names: Sequence[str]) -> bytes:
    """The model after the passes of those names, in order."""
    if not names:
        return content
    program = file.from_bytes(content)
    passes.apply(program, names)
    return file.to_bytes(program)
