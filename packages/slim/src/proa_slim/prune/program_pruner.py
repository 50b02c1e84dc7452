"""Structured pruning of saved models, whose weights are constants of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

import numpy as np

from proa.errors import NotFoundError, PreconditionNotMetError
from proa.ir import file
from proa.ir.program import Program
from proa_slim.prune.criteria import Criterion, Scoring
from proa_slim.prune.dependency import DependencyGraph
from proa_slim.prune.plan import PruningPlan, plan_of
from proa_slim.prune.selection import Selector


def prune_program(
    program: Program,
    ratios: float | Mapping[str, float],
    criterion: str | Criterion = "l1_norm",
    align: int | None = None,
) -> tuple[Program, PruningPlan]:
    """A program without some of its channels.

    Args:
        program: Is not changed. Its floating-point constants may shrink.
        ratios: One for all groups, or by the names of weights; in [0, 1).
        criterion: As for `Pruner`; one without gradients.
        align: As for `Pruner.prune_vars`.

    Raises:
        NotFoundError: If the program has no weight of a name.
        InvalidArgumentError: If a ratio is not in [0, 1), or a weight stays whole.
        PreconditionNotMetError: If no channel can be removed.
    """
    weights = [v for v in program.constants() if v.dtype.startswith("float")]
    graph = DependencyGraph(program, weights)
    if not graph.groups:
        raise PreconditionNotMetError(
            "[prune_program] expected a model with channels that can be removed, got "
            f"none: {graph.skipped}"
        )
    scoring = Scoring(graph, criterion, lambda value: np.asarray(value.data))
    selector = Selector(scoring, align)
    if isinstance(ratios, Mapping):
        axes = {value.name: axis for value, axis in graph.flow.producers}
        unknown = set(ratios) - set(axes)
        if unknown:
            raise NotFoundError(
                f"[prune_program] expected names of weights, got {sorted(unknown)}; "
                f"there are {', '.join(axes)}"
            )
        chosen = {graph.group_along(n, axes[n])[0].name: r for n, r in ratios.items()}
    else:
        chosen = {group.name: ratios for group in graph.groups}
    remaining = selector.remaining(chosen)
    return graph.rewritten(remaining), plan_of(graph, remaining)


def prune_file(
    source: str | PathLike[str],
    target: str | PathLike[str],
    ratios: float | Mapping[str, float],
    criterion: str | Criterion = "l1_norm",
    align: int | None = None,
) -> PruningPlan:
    """`prune_program` of a model file, written as another.

    Raises:
        NotFoundError, InvalidArgumentError, PreconditionNotMetError: As that.
    """
    program, plan = prune_program(file.read(source), ratios, criterion, align)
    file.write(program, target)
    return plan
