"""Structured pruning of live networks: channels are removed, not masked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

import numpy as np

import proa
from proa.errors import InvalidArgumentError, NotFoundError
from proa.ir.program import Value
from proa.ir.record import to_array
from proa_slim.analysis.recorded import specs_of
from proa_slim.loading import require_layers
from proa_slim.prune.agreement import Agreement
from proa_slim.prune.criteria import Criterion, Scoring
from proa_slim.prune.dependency import Group
from proa_slim.prune.network import PrunableNetwork, Undo
from proa_slim.prune.plan import PruningPlan, plan_of
from proa_slim.prune.selection import Selector
from proa_slim.prune.sensitivities import RATIOS, Sensitivities, SensitivityFile

#: ``imperative`` removes channels (``impretive`` is PaddleSlim's spelling), ``lazy``
#: sets them to zero, None changes nothing.
Apply = Literal["imperative", "impretive", "lazy"]
PruneType = Literal["all", "conv", "fc"]


class Pruner:
    """Removes channels of a network, with all that depends on them.

        pruner = Pruner(net, [1, 3, 224, 224])
        plan = pruner.prune_vars({"conv1.weight": 0.3}, axis=0)

    The network is changed in place: its parameters become smaller and stay the same
    objects, so that an optimizer, `state_dict`, `proa.jit.save` and quantization go on
    with what remains.

    Args:
        model: The network.
        inputs: A shape, or a shape or `InputSpec` for each input. Symbolic sizes count
            as 1 in multiply-adds.
        opt: An optimizer whose state is to shrink with the parameters.
        prune_type: Which weights `sensitive` and ratios for targets are about: those of
            convolutions, of linear layers (heads of attention among them), or all.
        input_dtype: Dtype of inputs that are given as shapes.
        criterion: The name of a criterion, or a function of `Channels`.

    Raises:
        InvalidArgumentError: If an argument is none of the above.
        InvalidTypeError: If the network was loaded from a file.
        PreconditionNotMetError: If the network has no channels that can be removed.
        UnimplementedError: If it has branches or loops that tensors decide.
    """

    def __init__(
        self,
        model: proa.nn.Layer,
        inputs: Sequence[Any],
        opt: Any = None,
        prune_type: PruneType = "all",
        input_dtype: str | Sequence[str] = "float32",
        criterion: str | Criterion = "l1_norm",
    ) -> None:
        if prune_type not in ("all", "conv", "fc"):
            raise InvalidArgumentError(
                f"[Pruner] prune_type must be all, conv or fc, got {prune_type!r}"
            )
        require_layers(model, "Pruner", "`prune_file` prunes one")
        self.model, self.opt = model, opt
        self.prune_type, self.criterion = prune_type, criterion
        self.network = PrunableNetwork(model, specs_of(inputs, input_dtype))
        self._undo: list[Undo] = []
        self._losses: Sensitivities | None = None
        #: What was removed last.
        self.plan: PruningPlan | None = None

    # -- what there is -----------------------------------------------------------------
    @property
    def skipped(self) -> Mapping[str, str]:
        """Paths of layers that stay whole, and why."""
        return dict(self.network.graph.skipped)

    @property
    def groups(self) -> list[Group]:
        """The groups of channels that `prune_type` names."""
        return [g for g in self.network.graph.groups if self._is_of_type(g)]

    def _is_of_type(self, group: Group) -> bool:
        nodes = self.network.graph.flow.producers
        is_conv = any(nodes[w].op.startswith("conv") for w in group.weights)
        return self.prune_type == "all" or is_conv == (self.prune_type == "conv")

    def selector(self, align: int | None = None) -> Selector:
        """Scores of the network as it is now."""
        tensors = self.network.tensors

        def array(value: Value) -> Any:
            return np.asarray(to_array(tensors[value]))

        def gradient(value: Value) -> Any:
            found = tensors[value].grad
            return None if found is None else np.asarray(found.numpy())

        scoring = Scoring(self.network.graph, self.criterion, array, gradient)
        return Selector(scoring, align)

    def name_of(self, name: str) -> str:
        """The structured name of a parameter that is given by either name.

        Raises:
            NotFoundError: If the network has none of this name.
        """
        known = {v.name: t.name for v, t in self.network.tensors.items()}
        if name in known:
            return name
        for structured, own in known.items():
            if own == name:
                return structured
        raise NotFoundError(
            f"[Pruner] expected the name of a parameter, got {name!r}; there are "
            f"{', '.join(known)}"
        )

    # -- sensitivities -----------------------------------------------------------------
    def status(
        self,
        data: Any = None,
        eval_func: Callable[..., float] | None = None,
        status_file: str | PathLike[str] | None = None,
    ) -> Sensitivities:
        """Measure what each group of channels is worth, at ratios of 0.1 to 0.9.

        The channels are really removed, evaluated and put back. The file is written
        after each evaluation and read first, so that a run that was stopped continues;
        it is the file of `FilterPruner.sensitive`.

        Args:
            data: Batches that can be read more than once: each an array, a tensor, or a
                sequence whose first items are the inputs.
            eval_func: Takes the data, if there are any; returns the metric of the
                network as it is, the greater the better. None: how often the greatest
                score is at the place where the whole network, as it is now, has it.
            status_file: Where results are, or will be. With neither data nor eval_func
                they are read alone.

        Returns:
            For the first weight of each group, (m0 - m) / m0 by ratio, with m0 the
            metric of the whole network and m that without the channels.

        Raises:
            InvalidArgumentError: If there is nothing to read and nothing to evaluate,
                the file is of another network or criterion, data can be read once, or
                m0 is 0, or a metric is not finite; or without eval_func, a batch has
                fewer arrays than the network has inputs, or the network gives no
                scores.
        """
        if data is not None and iter(data) is data:
            raise InvalidArgumentError(
                "[status] expected data that can be read more than once, such as a "
                f"list or a DataLoader, got {type(data).__name__}"
            )
        evaluate = eval_func
        if data is not None:
            evaluate = (
                Agreement(self.model, data, len(self.network.specs))
                if eval_func is None
                else lambda: eval_func(data)
            )
        return self._measure("status", self.groups, evaluate, status_file, RATIOS)

    def _measure(
        self,
        where: str,
        groups: Sequence[Group],
        eval_func: Callable[[], float] | None,
        path: str | PathLike[str] | None,
        ratios: Sequence[float],
    ) -> Sensitivities:
        if eval_func is None:
            known = SensitivityFile(path)
            if not known.losses:
                raise InvalidArgumentError(
                    f"[{where}] expected an eval_func or a file with sensitivities, "
                    f"got {path}"
                )
            self._losses = known.losses
            return known.losses
        known = SensitivityFile(path, self._fingerprint())
        if known.baseline is None:
            known.baseline = float(eval_func())
        known.require_baseline(where)
        known.save()
        total, count = len(groups) * len(ratios), 0
        selector = self.selector()
        for group in groups:
            for ratio in ratios:
                count += 1
                if ratio in known.losses.get(group.name, {}):
                    continue
                metric = self._without(selector.units(group, ratio), eval_func)
                loss = known.measured(where, group.name, float(ratio), metric)
                self._report(f"{count}/{total} {group.name} {ratio:.2f}: {loss:.4f}")
        self._losses = known.losses
        return known.losses

    def _report(self, line: str) -> None:
        """Called after each evaluation."""

    def _without(self, units: Iterable[int], eval_func: Callable[[], float]) -> float:
        tensors = [*self.network.tensors.values()]
        before = [tensor.clone().detach() for tensor in tensors]
        undo = self.network.remove(units)
        try:
            return float(eval_func())
        finally:
            self.network.restore(undo)
            with proa.no_grad():
                for tensor, value in zip(tensors, before, strict=True):
                    tensor.set_value(value)

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(repr(self.criterion).encode())
        for value, tensor in self.network.tensors.items():
            digest.update(f"{value.name}{value.shape}".encode())
            digest.update(np.ascontiguousarray(to_array(tensor)).tobytes())
        return digest.hexdigest()

    # -- pruning -----------------------------------------------------------------------
    def prune_var(
        self,
        var_name: str,
        axis: int | Sequence[int],
        pruned_ratio: float,
        apply: Apply | None = "imperative",
    ) -> PruningPlan:
        """`prune_vars` of one parameter."""
        return self.prune_vars({var_name: pruned_ratio}, axis, apply)

    def prune_vars(
        self,
        ratios: Mapping[str, float],
        axis: int | Sequence[int] | None = None,
        apply: Apply | None = "imperative",
        align: int | None = None,
    ) -> PruningPlan:
        """Remove a share of the channels of parameters.

        Args:
            ratios: By the parameter, in [0, 1), rounded down to channels. Of parameters
                whose channels depend on each other, the greatest counts.
            axis: The axis of each parameter that loses indices: 0 are the filters of a
                convolution. None means output channels, whichever axis counts them.
            apply: What to do with the channels.
            align: Numbers of channels that stay are multiples of it, if they can be.

        Raises:
            NotFoundError: If the network has no parameter of a name.
            InvalidArgumentError: If a ratio is not in [0, 1), or an axis cannot lose
                channels; the message says why.
        """
        chosen: dict[str, tuple[float, list[int]]] = {}
        selector = self.selector(align)
        for given, ratio in ratios.items():
            name = self.name_of(given)
            along = self._axis(name, axis)
            group, units = self.network.graph.group_along(name, along)
            found = selector.units(group, ratio, (u for u in units.tolist() if u >= 0))
            if group.name not in chosen or chosen[group.name][0] < ratio:
                chosen[group.name] = ratio, found
        return self.apply([u for _, units in chosen.values() for u in units], apply)

    def _axis(self, name: str, axis: int | Sequence[int] | None) -> int:
        if isinstance(axis, int):
            return axis
        if axis is not None:
            if len(axis) != 1:
                raise InvalidArgumentError(
                    f"[prune_vars] expected one axis, got {list(axis)}"
                )
            return int(axis[0])
        for value, place in self.network.graph.flow.producers:
            if value.name == name:
                return place
        raise InvalidArgumentError(
            f"[prune_vars] expected an axis for {name}, which is no weight "
            "that produces channels"
        )

    def prune_groups(
        self,
        ratios: Mapping[str, float],
        apply: Apply | None = "imperative",
        align: int | None = None,
    ) -> PruningPlan:
        """Remove a share of the units of groups, by the names of the groups."""
        return self.apply(self.selector(align).removed(ratios), apply)

    def apply(
        self, units: Iterable[int], apply: Apply | None = "imperative"
    ) -> PruningPlan:
        """Remove units of ``network.graph``.

        Raises:
            InvalidArgumentError: If `apply` is none of the above.
            PreconditionNotMetError: If the network's code does not allow it.
        """
        if apply not in ("imperative", "impretive", "lazy", None):
            raise InvalidArgumentError(
                f"[Pruner] apply must be imperative, lazy or None, got {apply!r}"
            )
        removed = frozenset(units)
        remaining = self.network.graph.removal(removed)
        self.plan = plan_of(self.network.graph, remaining)
        if apply == "lazy":
            self._undo.append(self.network.zero(removed))
        elif apply is not None:
            self._undo.append(self.network.remove(removed, self.opt))
            self.network.renew()
        return self.plan

    def restore(self) -> None:
        """Let the network be as it was before the first removal."""
        while self._undo:
            self.network.restore(self._undo.pop())
        self.network.renew()
