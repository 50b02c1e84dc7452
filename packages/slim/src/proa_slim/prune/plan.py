"""What a pruning removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from proa_slim.prune.dependency import DependencyGraph
from proa_slim.prune.units import Remaining


@dataclass(frozen=True)
class PruningPlan:
    """Channels to remove, or removed, with what that saves.

    Attributes:
        masks: By the name of a parameter and the axis, true for indices that stay.
        flops: Multiply-adds before and after, of one sample where sizes are symbolic.
        parameters: Elements of parameters and buffers before and after.
        skipped: Paths of layers that stay whole, and why.
    """

    masks: Mapping[str, Mapping[int, NDArray[np.bool_]]]
    flops: tuple[int, int]
    parameters: tuple[int, int]
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def pruned_flops(self) -> float:
        """The share of the multiply-adds that went."""
        return 1 - self.flops[1] / self.flops[0] if self.flops[0] else 0.0

    @property
    def pruned_size(self) -> float:
        """The share of the parameters' elements that went."""
        return 1 - self.parameters[1] / self.parameters[0]

    def contains(self, name: str, axis: int) -> bool:
        """Whether this axis of a parameter loses anything."""
        return axis in self.masks.get(name, {})

    def summary(self) -> str:
        """A line for each parameter that shrinks, the totals, and what was skipped."""
        lines = []
        for name, axes in self.masks.items():
            parts = [f"axis {a}: {len(m)} -> {int(m.sum())}" for a, m in axes.items()]
            lines.append(f"{name:48} {', '.join(parts)}")
        lines.append(
            f"multiply-adds {self.flops[0]:,} -> {self.flops[1]:,}, parameters "
            f"{self.parameters[0]:,} -> {self.parameters[1]:,}"
        )
        lines += [f"left whole: {name}: {why}" for name, why in self.skipped.items()]
        return "\n".join(lines)


def plan_of(graph: DependencyGraph, remaining: Remaining) -> PruningPlan:
    """What removal takes from a program."""
    masks = {
        value.name: {i: mask for i, mask in enumerate(axes) if mask is not None}
        for value, axes in graph.masks(remaining).items()
    }
    return PruningPlan(
        masks,
        (graph.flops(), graph.flops(remaining)),
        (graph.size(), graph.size(remaining)),
        dict(graph.skipped),
    )
