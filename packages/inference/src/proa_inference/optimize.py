"""Graph passes at load time: bytes of a model in, bytes of the optimized model out."""

from __future__ import annotations

from collections.abc import Sequence

from proa.ir import file, passes
from proa_inference.config import CHAINS


def optimized(
    content: bytes, names: Sequence[str]
) -> tuple[bytes, list[tuple[int, int]]]:
    """The model after the passes of those names, in order, and its chains.

    Chains, (first node, count), are elementwise nodes that run block by block; the pass
    that makes them comes last.
    """
    if not names:
        return content, []
    program = file.from_bytes(content)
    passes.apply(program, [name for name in names if name != CHAINS])
    if CHAINS in names:
        passes.apply(program, [CHAINS])
    return file.to_bytes(program), passes.chain_spans(program)
