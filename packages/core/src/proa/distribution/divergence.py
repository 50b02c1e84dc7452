"""Kullback-Leibler divergences, found by the types of both distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from proa._core import Tensor
from proa.distribution.distribution import Distribution
from proa.errors import InvalidArgumentError, UnimplementedError

Rule = TypeVar("Rule", bound=Callable[..., Any])

_RULES: dict[tuple[type, type], Callable[..., Tensor]] = {}


def register_kl(cls_p: type, cls_q: type) -> Callable[[Rule], Rule]:
    """Decorate the function that computes KL(p, q) of two types of distributions."""
    for kind in (cls_p, cls_q):
        if not issubclass(kind, Distribution):
            raise InvalidArgumentError(
                f"[register_kl] it must be a class of distributions, got {kind!r}"
            )

    def keep(rule: Rule) -> Rule:
        _RULES[cls_p, cls_q] = rule
        return rule

    return keep


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expected log of p's probability over q's, values drawn from p.

    Of several rules that fit, that of the nearest ancestors of p, then of q, is taken.

    Raises:
        UnimplementedError: If no rule is registered for the two types.
    """
    for kind_p in type(p).__mro__:
        for kind_q in type(q).__mro__:
            rule = _RULES.get((kind_p, kind_q))
            if rule is not None:
                return rule(p, q)
    raise UnimplementedError(
        "[kl_divergence] there must be a rule for both distributions, got "
        f"{type(p).__name__} and {type(q).__name__}"
    )
