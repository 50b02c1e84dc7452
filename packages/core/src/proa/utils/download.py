"""Weights by their address. Nothing is downloaded: files are looked up in a cache."""

from proa.utils.weights import (
    _get_unique_endpoints as _get_unique_endpoints,  # libraries import it
)
from proa.utils.weights import get_path_from_url, get_weights_path_from_url

__all__ = ["get_path_from_url", "get_weights_path_from_url"]


def __dir__() -> list[str]:
    return __all__
