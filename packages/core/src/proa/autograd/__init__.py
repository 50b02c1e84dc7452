"""Gradients: what records, what does not, and how they are requested."""

from proa.autograd.backward_mode import backward, grad
from proa.autograd.grad_mode import (
    enable_grad,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from proa.autograd.hooks import RemovableHook
from proa.autograd.py_layer import PyLayer, PyLayerContext
from proa.base.public import publish as _publish

__all__ = [
    "PyLayer",
    "PyLayerContext",
    "RemovableHook",
    "backward",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
