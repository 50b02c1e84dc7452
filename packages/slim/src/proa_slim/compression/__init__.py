"""One command from a model and data to a smaller model: `compress`."""

from proa_slim.compression.progress import TrialResult
from proa_slim.compression.recipe import RECIPES, Recipe
from proa_slim.compression.trials import Compressed, compress

__all__ = ["RECIPES", "Compressed", "Recipe", "TrialResult", "compress"]


def __dir__() -> list[str]:
    return __all__
