"""How many channels of each group, and which of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa_slim.analysis.operations import multiply_adds
from proa_slim.prune.criteria import Scoring, lowest
from proa_slim.prune.dependency import DependencyGraph, Group, layer_of
from proa_slim.prune.units import Remaining

#: Share of channels to remove from each group, by the group's name.
Ratios = Mapping[str, float]


class Selector:
    """Chooses units by their scores.

    Args:
        scoring: Gives the scores; each group is scored once.
        align: Numbers of channels that stay are multiples of it, if they can be.

    Raises:
        InvalidArgumentError: If `align` is not positive.
    """

    def __init__(self, scoring: Scoring, align: int | None = None) -> None:
        if align is not None and align < 1:
            raise InvalidArgumentError(
                f"[prune] expected a positive align, got {align}"
            )
        self.graph: DependencyGraph = scoring.graph
        self._scoring, self._align = scoring, align or 1
        self._scores: dict[str, dict[int, float]] = {}

    def scores(self, group: Group) -> dict[int, float]:
        """Scores of a group's units."""
        if group.name not in self._scores:
            self._scores[group.name] = self._scoring(group)
        return self._scores[group.name]

    def units(
        self, group: Group, ratio: float, among: Iterable[int] | None = None
    ) -> list[int]:
        """The units to remove; every weight of the group keeps at least one.

        Args:
            ratio: Share of the units, rounded down.
            among: The units that it is a share of; all of the group, if not given.

        Raises:
            InvalidArgumentError: If the ratio is not in [0, 1).
        """
        if not 0 <= ratio < 1:
            raise InvalidArgumentError(
                f"[prune] expected a ratio in [0, 1) for {group.name}, got {ratio}"
            )
        scores = self.scores(group)
        if among is not None:
            chosen = set(among)
            scores = {unit: score for unit, score in scores.items() if unit in chosen}
        count = int(len(scores) * ratio + 1e-9)
        stay = len(scores) - count
        if stay % self._align and len(scores) >= self._align:
            stay = min(len(scores), -(-stay // self._align) * self._align)
        return lowest(scores, len(scores) - stay, self._protected(group, scores))

    def _protected(self, group: Group, scores: Mapping[int, float]) -> frozenset[int]:
        """The best unit of each weight whose units are all among the candidates."""
        found = set()
        for weight in group.weights:
            own = {u for u in self.graph.units_along(*weight).tolist() if u >= 0}
            if own and own <= set(scores):
                found.add(max(own, key=lambda unit: scores[unit]))
        return frozenset(found)

    def removed(self, ratios: Ratios) -> list[int]:
        """The units of all groups that ratios name."""
        groups = {group.name: group for group in self.graph.groups}
        return [u for name, r in ratios.items() for u in self.units(groups[name], r)]

    def remaining(self, ratios: Ratios) -> Remaining:
        """Which labels remain with these ratios."""
        return self.graph.removal(self.removed(ratios))

    def saved_flops(self, ratios: Ratios) -> float:
        """Share of the multiply-adds that go."""
        whole = self.graph.flops()
        return 1 - self.graph.flops(self.remaining(ratios)) / whole if whole else 0.0


def bisect(
    ratios_at: Callable[[float], dict[str, float]],
    saved: Callable[[dict[str, float]], float],
    target: float,
    steps: int = 24,
) -> tuple[dict[str, float], float]:
    """The ratios of the least level in [0, 1] that save as much as a target.

    Args:
        ratios_at: Ratios of a level; a higher one removes as much or more.
        saved: The share of the whole cost that ratios save.
        target: Likewise.
        steps: Halvings of the interval.

    Returns:
        The ratios and what they save, of the highest level if none saves enough.
    """
    best = ratios_at(1.0)
    reached = saved(best)
    if reached < target:
        return best, reached
    low, high = 0.0, 1.0
    for _ in range(steps):
        middle = (low + high) / 2
        ratios = ratios_at(middle)
        if ratios == best:
            high = middle
        elif (share := saved(ratios)) >= target:
            high, best, reached = middle, ratios, share
        else:
            low = middle
    return best, reached


def check_share(name: str, share: float) -> None:
    """A target is in (0, 1).

    Raises:
        InvalidArgumentError: If it is not.
    """
    if not 0 < share < 1:
        raise InvalidArgumentError(f"[prune] expected {name} in (0, 1), got {share}")


def impossible(
    graph: DependencyGraph,
    remaining: Remaining,
    what: str,
    target: float,
    reached: float,
) -> PreconditionNotMetError:
    """The error of a target that is not met with all but one channel removed."""
    name, share = largest_layer(graph, remaining)
    return PreconditionNotMetError(
        f"[prune] expected a target that the network can meet, got {target:.3f} of "
        f"{what}: at most {reached:.3f} can go, and layer {name!r} then still has "
        f"{share:.3f} of the multiply-adds of the whole network"
    )


def largest_layer(graph: DependencyGraph, remaining: Remaining) -> tuple[str, float]:
    """The layer with the most multiply-adds that remain, and its share of all."""
    whole, found = max(graph.flops(), 1), ("", 0.0)
    for node in graph.program.main.nodes:
        shapes = [None if v is None else graph.shape(v, remaining) for v in node.inputs]
        count = multiply_adds(
            node.op, shapes, [graph.shape(v, remaining) for v in node.outputs]
        )
        weight = node.inputs[1] if len(node.inputs) > 1 else None
        source = graph.flow.source_of(weight)
        name = layer_of(source.name) if source is not None else node.op
        if count / whole > found[1]:
            found = name, count / whole
    return found
