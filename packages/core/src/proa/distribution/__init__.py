"""Probability distributions: drawing, densities, entropies and divergences."""

from proa.base.public import publish as _publish
from proa.distribution.bernoulli import Bernoulli
from proa.distribution.categorical import Categorical
from proa.distribution.distribution import Distribution, kl_divergence, register_kl
from proa.distribution.independent import Independent
from proa.distribution.laplace import Laplace
from proa.distribution.normal import Normal
from proa.distribution.uniform import Uniform

__all__ = [
    "Bernoulli",
    "Categorical",
    "Distribution",
    "Independent",
    "Laplace",
    "Normal",
    "Uniform",
    "kl_divergence",
    "register_kl",
]


def __dir__() -> list[str]:
    return __all__


_publish(__name__)
