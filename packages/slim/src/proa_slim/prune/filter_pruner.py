"""Pruners by the norm of filters, with sensitivities and targets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proa
from proa.errors import InvalidArgumentError
from proa_slim.analysis.latency import median_latency
from proa_slim.prune.criteria import Criterion
from proa_slim.prune.dependency import Group
from proa_slim.prune.plan import PruningPlan
from proa_slim.prune.pruner import Apply, Pruner, PruneType
from proa_slim.prune.selection import bisect, check_share, impossible
from proa_slim.prune.sensitivities import RATIOS, Sensitivities
from proa_slim.prune.tradeoff import HIGHEST, Tradeoff

#: Halvings of the interval when each trial is timed.
_TIMED_STEPS = 7


class FilterPruner(Pruner):
    """Chooses ratios from sensitivities, for a target of multiply-adds or of time.

        pruner = L1NormFilterPruner(net, [1, 3, 224, 224], sen_file="sen.json")
        pruner.sensitive(eval_func=lambda: accuracy(net))
        plan = pruner.sensitive_prune(pruned_flops=0.4)

    Args:
        model, inputs, opt, prune_type, input_dtype, criterion: As for `Pruner`.
        sen_file: Where sensitivities are, or will be.
        progress: Whether each evaluation writes a line to standard error.
    """

    def __init__(
        self,
        model: proa.nn.Layer,
        inputs: Sequence[Any],
        sen_file: str | PathLike[str] | None = None,
        opt: Any = None,
        prune_type: PruneType = "all",
        input_dtype: str | Sequence[str] = "float32",
        criterion: str | Criterion = "l1_norm",
        progress: bool = False,
    ) -> None:
        super().__init__(model, inputs, opt, prune_type, input_dtype, criterion)
        self._sen_file, self._progress = sen_file, progress

    # -- sensitivities -----------------------------------------------------------------
    def sensitive(
        self,
        eval_func: Callable[[], float] | None = None,
        sen_file: str | PathLike[str] | None = None,
        target_vars: Collection[str] | None = None,
        skip_vars: Collection[str] = (),
        ratios: Sequence[float] = RATIOS,
    ) -> Sensitivities:
        """Measure what each group of channels is worth.

        The channels are really removed, evaluated and put back, with all parameters and
        buffers: an `eval_func` may let norms see some batches first, or train a little,
        which tells far more than what the network does at once. The file is written
        after each evaluation and read first, so that a stopped run can be resumed and
        repeats at most the evaluation in progress.

        Args:
            eval_func: The metric of the network as it is, the greater the better. None
                if the file has all that is wanted.
            sen_file: The file; that of the constructor if not given.
            target_vars: Weights whose groups are measured; all if not given.
            skip_vars: Weights whose groups are not.
            ratios: Shares of the channels.

        Returns:
            For the first weight of each group, (m0 - m) / m0 by ratio, with m0 the
            metric of the whole network and m that without the channels.

        Raises:
            InvalidArgumentError: If the file is of another network or criterion, if
                there is nothing to read and no eval_func, or m0 is 0 or not finite.
            NotFoundError: If a variable is none of the network's.
        """
        path = self._sen_file if sen_file is None else sen_file
        groups = self._chosen(target_vars, skip_vars)
        return self._measure("sensitive", groups, eval_func, path, ratios)

    def _report(self, line: str) -> None:
        if self._progress:
            print(f"[sensitive] {line}", file=sys.stderr, flush=True)

    def _chosen(
        self, target_vars: Collection[str] | None, skip_vars: Collection[str]
    ) -> list[Group]:
        wanted = None if target_vars is None else {self.name_of(n) for n in target_vars}
        skipped = {self.name_of(name) for name in skip_vars}
        found = []
        for group in self.groups:
            names = {weight.value.name for weight in group.weights}
            is_wanted = wanted is None or names & wanted
            if is_wanted and not names & skipped:
                found.append(group)
        return found

    # -- targets -----------------------------------------------------------------------
    def get_ratios_by_sensitivity(
        self,
        pruned_flops: float,
        align: int | None = None,
        skip_vars: Collection[str] = (),
    ) -> dict[str, float]:
        """Ratios of the smallest sum of losses that meet the target.

        Each group has the ratio at which its loss minus a price times what it saves is
        smallest, for one price for all.

        Args:
            pruned_flops: The share of the multiply-adds to remove, in (0, 1).
            align: As for `prune_vars`.
            skip_vars: Weights whose groups stay whole.

        Raises:
            InvalidArgumentError: If there are no sensitivities, or the target is not in
                (0, 1).
            PreconditionNotMetError: If the target cannot be met; it names the layer
                with the most multiply-adds that remain.
        """
        levels = self._levels(skip_vars)
        return self._for_flops(levels, pruned_flops, align)

    def get_uniform_ratios(
        self,
        pruned_flops: float,
        align: int | None = None,
        skip_vars: Collection[str] = (),
    ) -> dict[str, float]:
        """The one ratio for all groups that removes this share of the multiply-adds.

        Raises:
            InvalidArgumentError, PreconditionNotMetError: As
                `get_ratios_by_sensitivity`.
        """
        levels = self._uniform_levels(skip_vars)
        return self._for_flops(levels, pruned_flops, align)

    def get_ratios_by_latency(
        self,
        pruned_latency: float,
        align: int | None = None,
        skip_vars: Collection[str] = (),
        repeats: int = 30,
    ) -> dict[str, float]:
        """Ratios, by sensitivities if there are any and else uniform, that save this
        share of the time of a run, measured on this machine for each trial.

        Args:
            pruned_latency: The share to save, in (0, 1).
            repeats: Runs of which the median counts.

        Raises:
            InvalidArgumentError, PreconditionNotMetError: As
                `get_ratios_by_sensitivity`.
        """
        check_share("pruned_latency", pruned_latency)
        selector = self.selector(align)
        specs = self.network.specs
        whole = median_latency(self.model, specs, repeats)

        def saved(ratios: dict[str, float]) -> float:
            undo = self.network.remove(selector.removed(ratios))
            try:
                return 1 - median_latency(self.model, specs, repeats) / whole
            finally:
                self.network.restore(undo)

        known = self._losses is not None or self._sen_file is not None
        levels = (self._levels if known else self._uniform_levels)(skip_vars)
        ratios, reached = bisect(levels, saved, pruned_latency, _TIMED_STEPS)
        if reached < pruned_latency:
            remaining = selector.remaining(ratios)
            graph = self.network.graph
            raise impossible(graph, remaining, "the time", pruned_latency, reached)
        return ratios

    def _uniform_levels(
        self, skip_vars: Collection[str]
    ) -> Callable[[float], dict[str, float]]:
        names = [group.name for group in self._chosen(None, skip_vars)]
        return lambda level: dict.fromkeys(names, HIGHEST * level)

    def _levels(
        self, skip_vars: Collection[str]
    ) -> Callable[[float], dict[str, float]]:
        losses = self.sensitive() if self._losses is None else self._losses
        names = {group.name for group in self._chosen(None, skip_vars)}
        table = {name: found for name, found in losses.items() if name in names}
        if not table:
            raise InvalidArgumentError(
                "[FilterPruner] expected sensitivities of this network's groups, got "
                f"those of {', '.join(losses)}"
            )
        return Tradeoff(self.selector(), table)

    def _for_flops(
        self,
        levels: Callable[[float], dict[str, float]],
        pruned_flops: float,
        align: int | None,
    ) -> dict[str, float]:
        check_share("pruned_flops", pruned_flops)
        selector = self.selector(align)
        ratios, reached = bisect(levels, selector.saved_flops, pruned_flops)
        if reached < pruned_flops:
            remaining, graph = selector.remaining(ratios), self.network.graph
            raise impossible(
                graph, remaining, "the multiply-adds", pruned_flops, reached
            )
        return ratios

    def sensitive_prune(
        self,
        pruned_flops: float,
        skip_vars: Collection[str] = (),
        align: int | None = None,
        apply: Apply | None = "imperative",
    ) -> PruningPlan:
        """Prune by `get_ratios_by_sensitivity`.

        Raises:
            InvalidArgumentError, PreconditionNotMetError: As that.
        """
        ratios = self.get_ratios_by_sensitivity(pruned_flops, align, skip_vars)
        return self.prune_groups(ratios, apply, align)

    def cal_mask(self, pruned_ratio: float, collection: Group) -> NDArray[np.int64]:
        """1 for each index of a group's first weight that stays, 0 for the others."""
        removed = set(self.selector().units(collection, pruned_ratio))
        along = self.network.graph.units_along(*collection.weights[0])
        return np.array([int(unit not in removed) for unit in along.tolist()])


def _with(criterion: str) -> Callable[..., None]:
    def begin(
        self: FilterPruner,
        model: proa.nn.Layer,
        inputs: Sequence[Any],
        sen_file: str | PathLike[str] | None = None,
        opt: Any = None,
        prune_type: PruneType = "all",
        input_dtype: str | Sequence[str] = "float32",
        progress: bool = False,
    ) -> None:
        FilterPruner.__init__(
            self, model, inputs, sen_file, opt, prune_type, input_dtype, criterion,
            progress,
        )  # fmt: skip

    return begin


class L1NormFilterPruner(FilterPruner):
    """A `FilterPruner` by `l1_norm`."""

    __init__ = _with("l1_norm")


class L2NormFilterPruner(FilterPruner):
    """A `FilterPruner` by `l2_norm`."""

    __init__ = _with("l2_norm")


class FPGMFilterPruner(FilterPruner):
    """A `FilterPruner` by `geometry_median`."""

    __init__ = _with("geometry_median")

    @staticmethod
    def get_distance_sum(value: NDArray[np.floating], out_idx: int) -> float:
        """Sum of Euclidean distances of one filter, value[out_idx], to the others."""
        rows = np.asarray(value, np.float64).reshape(len(value), -1)
        return float(np.linalg.norm(rows - rows[out_idx], axis=1).sum())


def prune_channels(
    model: proa.nn.Layer,
    inputs: Sequence[Any],
    ratio: float,
    criterion: str | Criterion = "l1_norm",
    opt: Any = None,
    skip: Mapping[str, Any] | Collection[str] = (),
    align: int | None = None,
    input_dtype: str | Sequence[str] = "float32",
) -> PruningPlan:
    """Remove the same share of the channels of every group that can lose some.

    Args:
        model: Is changed in place.
        inputs, criterion, opt, input_dtype: As for `Pruner`.
        ratio: In [0, 1).
        skip: Weights, or Layers by their paths, that stay whole.
        align: As for `Pruner.prune_vars`.

    Returns:
        What was removed; its `skipped` names layers that stayed whole, and why.

    Raises:
        InvalidArgumentError, PreconditionNotMetError, UnimplementedError: As `Pruner`.
        NotFoundError: If `skip` names what the network does not have.
    """
    pruner = FilterPruner(
        model, inputs, opt=opt, input_dtype=input_dtype, criterion=criterion
    )
    paths = {path for path, _ in model.named_sublayers()}
    weights = {pruner.name_of(name) for name in skip if name not in paths}
    ratios = {}
    for group in pruner.groups:
        names = {weight.value.name for weight in group.weights}
        if names & weights or any(
            layer == path or layer.startswith(f"{path}.")
            for layer in group.layers
            for path in paths.intersection(skip)
        ):
            continue
        ratios[group.name] = ratio
    return pruner.prune_groups(ratios, align=align)
