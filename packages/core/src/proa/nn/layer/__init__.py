"""The class of layers, and the layers by family."""

from proa.nn.layer.base import HookHandle, Layer

__all__ = ["HookHandle", "Layer"]
