"""Structured pruning of programs of static mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError, NotFoundError, PreconditionNotMetError
from proa.ir.program import Value
from proa.static import Program, global_scope
from proa_slim.prune.criteria import Criterion, Scoring
from proa_slim.prune.dependency import DependencyGraph, sliced
from proa_slim.prune.plan import PruningPlan, plan_of
from proa_slim.prune.selection import Selector

Array = np.ndarray[Any, Any]
#: By the names of parameters.
Arrays = dict[str, Array]
Shapes = dict[str, tuple[int, ...]]


class ProgramPruner:
    """Removes channels of programs that static mode built.

        pruner = ProgramPruner()
        pruned, plan = pruner.prune(
            program, scope, ["conv2d_0.w_0"], [0.5]
        )

    Args:
        criterion: As for `Pruner`; one without gradients.
        align: As for `Pruner.prune_vars`.
    """

    def __init__(
        self, criterion: str | Criterion = "l1_norm", align: int | None = None
    ) -> None:
        self.criterion, self._align = criterion, align

    def prune(
        self,
        program: Program,
        scope: Any = None,
        params: Sequence[str] | None = None,
        ratios: Sequence[float] | float = 0.5,
        only_graph: bool = False,
    ) -> tuple[Program, PruningPlan]:
        """A program without some of its channels; the scope has what remains of them.

        The result runs and is saved; as any clone it cannot be differentiated. To train
        on, prune a Layer.

        Args:
            program: Is not changed.
            scope: Where parameters are; the global one if not given.
            params: Weights; every one that can lose channels, if not given.
            ratios: One for each weight, or one for all; in [0, 1).
            only_graph: Leave the scope as it is, so that the program can be counted.

        Raises:
            InvalidArgumentError: If there are not as many ratios as weights, a ratio is
                not in [0, 1), or a weight stays whole.
            NotFoundError: If the program has no weight of a name, or the scope has
                nothing for it.
            PreconditionNotMetError: If the program has backward operators, or nothing
                can be removed.
        """
        if program.roles:
            raise PreconditionNotMetError(
                "[ProgramPruner] expected a program without backward operators, as "
                "clone(for_test=True) gives, got one with them"
            )
        draft = program.clone()
        where = global_scope() if scope is None else scope
        arrays = {value: array_in(where, name) for name, value in draft.states.items()}
        graph = DependencyGraph(draft.graph, draft.states.values())
        if not graph.groups:
            raise PreconditionNotMetError(
                "[ProgramPruner] expected a program with channels that can be removed, "
                f"got none: {graph.skipped}"
            )
        scoring = Scoring(graph, self.criterion, lambda value: arrays[value])
        selector = Selector(scoring, self._align)
        remaining = selector.remaining(_chosen(graph, params, ratios))
        plan, masks = plan_of(graph, remaining), graph.masks(remaining)
        shapes = {v: graph.shape(v, remaining) for v in graph.flow.axes}
        graph.rewritten(remaining)  # checks every shape
        for node, attributes in graph.attributes(remaining).items():
            node.attrs.update(attributes)
        for value, shape in shapes.items():
            value.shape = shape
        if not only_graph:
            for name, value in draft.states.items():
                if value in masks:
                    small = sliced(arrays[value], masks[value])
                    where.var(name).set(small)
        return draft.clone(), plan  # whose Variables have the new shapes


class Pruner:
    """`ProgramPruner` with the arguments of PaddleSlim's ``prune.Pruner``.

        pruned, _, _ = Pruner().prune(program, scope, ["conv2d_0.w_0"], [0.5])

    The pruner of Layers is `proa_slim.Pruner`.

    Args:
        criterion: As for `ProgramPruner`.
        idx_selector: ``default_idx_selector``: the channels of the lowest scores go.

    Raises:
        InvalidArgumentError: If idx_selector is another.
    """

    def __init__(
        self,
        criterion: str | Criterion = "l1_norm",
        idx_selector: str = "default_idx_selector",
    ) -> None:
        if idx_selector != "default_idx_selector":
            raise InvalidArgumentError(
                "[Pruner] idx_selector must be 'default_idx_selector', got "
                f"{idx_selector!r} (a criterion may be a function)"
            )
        self._pruner = ProgramPruner(criterion)

    def prune(
        self,
        program: Program,
        scope: Any,
        params: Sequence[str],
        ratios: Sequence[float] | float,
        place: object = None,
        lazy: bool = False,
        only_graph: bool = False,
        param_backup: bool = False,
        param_shape_backup: bool = False,
    ) -> tuple[Program, Arrays | None, Shapes | None]:
        """A program without a share of the channels of weights.

        Args:
            program: Is not changed.
            scope: Where parameters are; None is the global one.
            params: Weights.
            ratios: One for each weight, or one for all; in [0, 1).
            place: Has no meaning here; callers of PaddleSlim give one.
            lazy: Set to zero in the scope what would go; all shapes stay.
            only_graph: Leave the scope as it is, so that the program can be counted.
            param_backup: Whether what the scope had is returned.
            param_shape_backup: Whether its shapes are returned.

        Returns:
            The program; by the names of all parameters that lose something, their
            arrays from before, or None; and their shapes from before, or None.

        Raises:
            InvalidArgumentError: If lazy and only_graph are given together; or as
                `ProgramPruner.prune`.
            NotFoundError, PreconditionNotMetError: As that.
        """
        if lazy and only_graph:
            raise InvalidArgumentError(
                "[Pruner] expected lazy or only_graph, got both, which would change "
                "nothing"
            )
        where = global_scope() if scope is None else scope
        before = {name: np.array(array_in(where, name)) for name in program.states}
        small, plan = self._pruner.prune(
            program, where, params, ratios, only_graph=lazy or only_graph
        )
        if lazy:
            small = program.clone()
            for name, axes in plan.masks.items():
                where.var(name).set(zeroed(before[name], axes))
        arrays = {name: before[name] for name in plan.masks}
        shapes = {name: array.shape for name, array in arrays.items()}
        return (
            small,
            arrays if param_backup else None,
            shapes if param_shape_backup else None,
        )


def zeroed(array: Array, axes: Mapping[int, NDArray[np.bool_]]) -> Array:
    """A copy with zeros at the indices of axes where masks are false."""
    result = np.array(array)
    for axis, mask in axes.items():
        np.moveaxis(result, axis, 0)[~mask] = 0
    return result


def array_in(scope: Any, name: str, where: str = "ProgramPruner") -> Array:
    """What a scope has of a name; errors name the function `where`."""
    found = scope.find_var(name)
    if found is None or found.tensor is None:
        raise NotFoundError(
            f"[{where}] expected {name!r} in the scope (run the startup program "
            "first), got nothing"
        )
    return np.asarray(found.tensor.numpy())


def _chosen(
    graph: DependencyGraph,
    params: Sequence[str] | None,
    ratios: Sequence[float] | float,
) -> Mapping[str, float]:
    if params is None:
        if not isinstance(ratios, (int, float)):
            raise InvalidArgumentError(
                f"[ProgramPruner] expected one ratio for all weights, got {ratios!r}"
            )
        return {group.name: float(ratios) for group in graph.groups}
    each = [ratios] * len(params) if isinstance(ratios, (int, float)) else list(ratios)
    if len(each) != len(params):
        raise InvalidArgumentError(
            f"[ProgramPruner] expected a ratio for each of {len(params)} weights, got "
            f"{len(each)}"
        )
    axes: dict[str, tuple[Value, int]] = {
        value.name: (value, axis) for value, axis in graph.flow.producers
    }
    unknown = [name for name in params if name not in axes]
    if unknown:
        raise NotFoundError(
            f"[ProgramPruner] expected names of weights, got {unknown}; there are "
            f"{', '.join(axes)}"
        )
    return {
        graph.group_along(name, axes[name][1])[0].name: ratio
        for name, ratio in zip(params, each, strict=True)
    }
