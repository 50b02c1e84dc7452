"""Helpers of large training jobs."""

from proa.nn.recompute import recompute

__all__ = ["recompute"]
