"""Criteria: how much a channel matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.ir.program import Value
from proa_slim.prune.dependency import DependencyGraph, Group, layer_of
from proa_slim.prune.flow import ParameterAxis

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Channels:
    """The output channels of one weight, as a criterion sees them.

    Attributes:
        name: Name of the weight.
        weight: (channels, elements), float64.
        gradient: Gradient of the weight, likewise; None if there is none.
        scale: (channels,), the mean magnitude of the norm scales that multiply each
            channel; None if no norm follows.
    """

    name: str
    weight: Scores
    gradient: Scores | None
    scale: Scores | None


#: Importance of each channel, (channels,); those with the lowest are removed.
Criterion = Callable[[Channels], NDArray[np.floating]]


def l1_norm(channels: Channels) -> Scores:
    """sum |w| of a filter (Li et al., "Pruning Filters for Efficient ConvNets")."""
    found: Scores = np.abs(channels.weight).sum(axis=1)
    return found


def l2_norm(channels: Channels) -> Scores:
    """sqrt(sum w^2) of a filter."""
    found: Scores = np.sqrt((channels.weight**2).sum(axis=1))
    return found


def geometry_median(channels: Channels) -> Scores:
    """Sum of Euclidean distances to the other filters: those near the geometric median
    can be replaced by the others (He et al., FPGM, CVPR 2019).
    """
    w = channels.weight
    squares = (w**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * (w @ w.T)
    found: Scores = np.sqrt(np.maximum(distances, 0)).sum(axis=1)
    return found


def bn_scale(channels: Channels) -> Scores:
    """|gamma| of the norm after the layer (Liu et al., network slimming, ICCV 2017).

    Raises:
        PreconditionNotMetError: If no norm follows the layer.
    """
    if channels.scale is None:
        raise PreconditionNotMetError(
            "[bn_scale] expected layers that a norm with a scale follows, got "
            f"{layer_of(channels.name)!r} without"
        )
    return channels.scale


def taylor(channels: Channels) -> Scores:
    """(sum w dL/dw)^2 of a filter, to first order the change of the loss without it
    (Molchanov et al., CVPR 2019).

    Raises:
        PreconditionNotMetError: If the weight has no gradient.
    """
    if channels.gradient is None:
        raise PreconditionNotMetError(
            "[taylor] expected gradients of the weights: call backward() on the loss "
            f"of some batches first, got none of {channels.name!r}"
        )
    found: Scores = ((channels.weight * channels.gradient).sum(axis=1)) ** 2
    return found


class Random:
    """Uniform numbers, of a stream that `seed` begins: the baseline of criteria."""

    def __init__(self, seed: int = 0) -> None:
        self._numbers = np.random.default_rng(seed)

    def __call__(self, channels: Channels) -> Scores:
        return self._numbers.random(len(channels.weight))


#: Criteria by their names.
CRITERION: dict[str, Criterion] = {
    "l1_norm": l1_norm,
    "l2_norm": l2_norm,
    "geometry_median": geometry_median,
    "fpgm": geometry_median,
    "bn_scale": bn_scale,
    "taylor": taylor,
    "random": Random(),
}


def criterion_of(criterion: str | Criterion) -> Criterion:
    """A criterion by its name, or a function of one's own.

    Raises:
        InvalidArgumentError: If there is none of that name.
    """
    if callable(criterion):
        return criterion
    if criterion not in CRITERION:
        raise InvalidArgumentError(
            f"[prune] expected a criterion among {', '.join(CRITERION)}, or a "
            f"function, got {criterion!r}"
        )
    return CRITERION[criterion]


class Scoring:
    """Scores the units of a graph.

    Args:
        graph: Channels of the network or program.
        criterion: Applied to each weight of a group.
        arrays: The elements of parameters.
        gradients: Gradients of parameters, as far as they are known.
    """

    def __init__(
        self,
        graph: DependencyGraph,
        criterion: str | Criterion,
        arrays: Callable[[Value], NDArray[np.floating]],
        gradients: Callable[[Value], NDArray[np.floating] | None] = lambda _: None,
    ) -> None:
        self.graph, self.criterion = graph, criterion_of(criterion)
        self._arrays, self._gradients = arrays, gradients
        self._scales: dict[int, list[float]] | None = None

    def __call__(self, group: Group) -> dict[int, float]:
        """The score of each unit: the mean over the weights of the group, each divided
        by its own mean magnitude, so that layers of different scales count alike.

        Raises:
            InvalidArgumentError: If the criterion returns no finite number for each
                channel.
        """
        totals: dict[int, list[float]] = {unit: [] for unit in group.units}
        for weight in self._counted(group):
            scores = self._scores(weight)
            units = self.graph.units_along(*weight)
            own: dict[int, float] = {}
            for unit, score in zip(units.tolist(), scores.tolist(), strict=True):
                if unit >= 0:
                    own[unit] = own.get(unit, 0.0) + score
            mean = sum(map(abs, own.values())) / max(len(own), 1)
            for unit, score in own.items():
                totals[unit].append(score / mean if mean else score)
        return {u: sum(s) / len(s) if s else 0.0 for u, s in totals.items()}

    def _counted(self, group: Group) -> list[ParameterAxis]:
        """Weights that make channels; depthwise ones only if there are no others."""
        nodes = self.graph.flow.producers
        dense = [w for w in group.weights if nodes[w].attrs.get("groups", 1) == 1]
        return dense or list(group.weights)

    def _scores(self, weight: ParameterAxis) -> Scores:
        value, axis = weight
        channels = Channels(
            value.name,
            _rows(self._arrays(value), axis),
            None if (g := self._gradients(value)) is None else _rows(g, axis),
            self._scale(weight),
        )
        scores = np.asarray(self.criterion(channels), np.float64)
        count = value.shape[axis]
        if scores.shape != (count,) or not np.isfinite(scores).all():
            raise InvalidArgumentError(
                f"[prune] expected {count} finite scores of the channels of "
                f"{value.name}, got {scores!r}"
            )
        return scores

    def _scale(self, weight: ParameterAxis) -> Scores | None:
        if self._scales is None:
            self._scales = {}
            for value, axis in self.graph.flow.scales:
                units = self.graph.units_along(value, axis).tolist()
                sizes = np.abs(self._arrays(value)).tolist()
                for unit, size in zip(units, sizes, strict=True):
                    self._scales.setdefault(unit, []).append(size)
        known = self._scales
        units = self.graph.units_along(*weight).tolist()
        if not any(unit in known for unit in units if unit >= 0):
            return None
        means = [float(np.mean(known[u])) if u in known else 0.0 for u in units]
        return np.array(means)


def _rows(array: NDArray[np.floating], axis: int) -> Scores:
    moved = np.moveaxis(np.asarray(array, np.float64), axis, 0)
    return moved.reshape(len(moved), -1)


def lowest(
    scores: Mapping[int, float], count: int, protected: frozenset[int] = frozenset()
) -> list[int]:
    """The `count` units with the least scores, the protected ones left out."""
    order = sorted(scores, key=lambda unit: scores[unit])
    return [unit for unit in order if unit not in protected][:count]
