"""Reparametrisations of layers, and parameters as one vector."""

from proa.base.public import publish as _publish
from proa.nn.utils.spectral_norm_hook import spectral_norm
from proa.nn.utils.vector import parameters_to_vector, vector_to_parameters
from proa.nn.utils.weight_norm_hook import remove_weight_norm, weight_norm

__all__ = [
    "parameters_to_vector",
    "remove_weight_norm",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
