"""The class of layers, and the layers by family."""

from proa.nn.layer.base import Layer
from proa.nn.layer.hooks import HookHandle

__all__ = ["HookHandle", "Layer"]
