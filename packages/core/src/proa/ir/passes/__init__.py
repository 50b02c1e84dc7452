"""Rewrites of programs. `pipeline.PIPELINE` lists them in running order."""

from proa.ir.passes.base import Pass
from proa.ir.passes.chains import chain_spans
from proa.ir.passes.pipeline import PASSES, PIPELINE, apply, optimize

__all__ = [
    "PASSES",
    "PIPELINE",
    "Pass",
    "apply",
    "chain_spans",
    "optimize",
]
