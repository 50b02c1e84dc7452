"""Graph passes at load time."""

from __future__ import annotations

from collections.abc import Sequence

from proa.ir import file, passes
from proa.runtime import Engine, engine_from_parts
from proa_inference.config import CHAINS


def optimized_engine(
    content: bytes | memoryview, names: Sequence[str], threads: int
) -> Engine:
    """An engine of the model after the passes of those names, in order.

    The engine reads weights that no pass changed where `content` has them. Chains,
    elementwise nodes that run block by block, are made last.
    """
    program = file.from_bytes(content)
    passes.apply(program, [name for name in names if name != CHAINS])
    if CHAINS in names:
        passes.apply(program, [CHAINS])
    graph, weights = file.to_parts(program)
    chains = passes.chain_spans(program)
    return engine_from_parts(graph, weights, threads, chains)
