"""Proa: tensors, gradients and layers, and one file for every runtime."""

from proa._core import Tensor
from proa.autograd import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from proa.base.device import get_device, set_device
from proa.base.dtype import (
    bfloat16,
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
)
from proa.base.dtype import bool_ as bool  # noqa: A004  (PaddlePaddle's name)
from proa.base.flags import get_flags, set_flags
from proa.base.random import get_rng_state, seed, set_rng_state
from proa.base.threads import get_num_threads, set_num_threads

__all__ = [
    "Tensor",
    "bfloat16",
    "bool",
    "complex64",
    "complex128",
    "dtype",
    "enable_grad",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "get_device",
    "get_flags",
    "get_num_threads",
    "get_rng_state",
    "grad",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "no_grad",
    "seed",
    "set_default_dtype",
    "set_device",
    "set_flags",
    "set_grad_enabled",
    "set_num_threads",
    "set_rng_state",
    "uint8",
]
