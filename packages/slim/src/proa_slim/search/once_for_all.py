"""Once for all: one network is trained so that smaller ones can be cut out of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proa
from proa import nn
from proa.errors import Error, InvalidArgumentError
from proa.ir.record import to_array
from proa.nn.layer.settings import Kernel, kernel_of, set_kernel
from proa_slim.analysis.recorded import specs_of
from proa_slim.prune.criteria import Criterion, Scoring
from proa_slim.prune.network import PrunableNetwork, hold
from proa_slim.prune.resizing import put_back
from proa_slim.prune.selection import Selector
from proa_slim.search.controllers import Constraint
from proa_slim.search.one_shot import renew_statistics
from proa_slim.search.space import ChoiceSpace
from proa_slim.search.study import Record, Search

Masks = list["NDArray[np.bool_] | None"]
Tokens = Sequence[int]
#: Shares of channels, of all groups or by layers.
Widths = Sequence[float] | Mapping[str, Sequence[float]]
#: What choices are about.
TASKS = ("kernel", "depth", "width")


class _Nothing(nn.Layer):
    """Replaces a layer that is left out."""

    def forward(self, x: Any) -> Any:
        return x


class OFA:
    """A network of elastic width, kernel sizes and depth (Cai et al., 2020).

        ofa = OFA(network, [None, 3, 32, 32], widths=(0.25, 0.5))
        for x, y in batches:
            with ofa.subnet(ofa.sample()) as small:
                loss(small(x), y).backward()
            optimizer.step()               # of the whole network's parameters
            optimizer.clear_grad()
        best = ofa.search(accuracy, steps=64, calibration=inputs)
        small = ofa.export(best.tokens, calibration=inputs)

    Smaller networks share weights with larger ones: narrower layers have the channels
    that a criterion thinks most of, smaller kernels are the middle of larger ones, and
    layers that may be left out pass on what they are given. Inside `subnet` the network
    itself is smaller, whatever branches, groups and heads it has; afterwards it is
    whole again. Gradients of its parameters are 0 where the smaller one has none.

    Args:
        network: Trained; is changed by training alone.
        inputs: As for `proa_slim.Pruner`.
        widths: Shares of the channels of each group that may stay, below 1; or shares
            by the path of a layer, for the groups of these layers alone.
        kernels: Odd sizes of square kernels that convolutions may have, besides their
            own, by the layers' paths; the convolutions must pad by half of their size.
        depth: Paths of layers that may be left out.
        criterion: Criterion of channels, as for `Pruner`; without gradients.
        seed: Seed of `sample` and `search`.

    Raises:
        InvalidArgumentError: If an argument is none of the above, or the network cannot
            run without a layer; it names the layer.
        PreconditionNotMetError: If `widths` are given and no channels can be removed.
    """

    def __init__(
        self,
        network: nn.Layer,
        inputs: Sequence[Any],
        widths: Widths = (),
        kernels: Mapping[str, Sequence[int]] | None = None,
        depth: Sequence[str] = (),
        criterion: str | Criterion = "l1_norm",
        seed: int = 0,
    ) -> None:
        self.network, self._specs = network, specs_of(inputs)
        self._layers = dict(network.named_sublayers())
        self._parts = PrunableNetwork(network, self._specs)
        self._rng = np.random.default_rng(seed)
        self._seed, self._tasks = seed, frozenset(TASKS)
        tensors = self._parts.tensors
        scoring = Scoring(
            self._parts.graph, criterion, lambda v: np.asarray(to_array(tensors[v]))
        )
        #: Scores stay those of the network that was given: small networks are nested.
        self._selector = Selector(scoring)
        for group in self._parts.graph.groups if widths else ():
            self._selector.scores(group)
        self.space = ChoiceSpace(
            self._choices(widths, kernels or {}, depth), self._exported
        )
        self._check_depth(depth)

    def _choices(
        self,
        widths: Widths,
        kernels: Mapping[str, Sequence[int]],
        depth: Sequence[str],
    ) -> dict[str, list[Any]]:
        """Options by ``width NAME``, ``kernel PATH`` and ``depth PATH``, the whole
        network's first.
        """
        found: dict[str, list[Any]] = {}
        for name, shares in self._shares(widths).items():
            if not all(0 < share < 1 for share in shares):
                raise InvalidArgumentError(
                    f"[OFA] expected widths in (0, 1), got {list(shares)}"
                )
            found[f"width {name}"] = [1.0, *sorted(set(shares), reverse=True)]
        for path, sizes in kernels.items():
            own = self._kernel(path)
            if not all(size % 2 and 0 < size < own for size in sizes):
                raise InvalidArgumentError(
                    f"[OFA] expected odd kernels below {own} for {path!r}, got "
                    f"{list(sizes)}"
                )
            found[f"kernel {path}"] = [own, *sorted(set(sizes), reverse=True)]
        for path in depth:
            if path not in self._layers:
                raise self._unknown(path)
            found[f"depth {path}"] = [True, False]
        if not found:
            raise InvalidArgumentError(
                "[OFA] expected widths, kernels or depth, got none of them"
            )
        return found

    def _shares(self, widths: Widths) -> dict[str, Sequence[float]]:
        """Shares by the names of groups."""
        groups = self._parts.graph.groups if widths else []
        if not isinstance(widths, Mapping):
            return {group.name: widths for group in groups}
        by_layer = {path: group.name for group in groups for path in group.layers}
        for path in widths:
            if path not in by_layer:
                raise InvalidArgumentError(
                    f"[OFA] expected the path of a layer that can lose channels, got "
                    f"{path!r}; there are {', '.join(by_layer)}"
                )
        return {by_layer[path]: shares for path, shares in widths.items()}

    def _unknown(self, path: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"[OFA] expected the path of a layer, got {path!r}; there are "
            f"{', '.join(self._layers)}"
        )

    def _kernel(self, path: str) -> int:
        if path not in self._layers:
            raise self._unknown(path)
        layer: Any = self._layers[path]
        if isinstance(layer, nn.Conv2D):
            size = int(layer.weight.shape[2])
            square = int(layer.weight.shape[3]) == size
            kernel = kernel_of(layer)
            pads = bool(np.all(np.array(kernel.padding) == size // 2))
            if square and size % 2 and kernel.dilation == (1, 1) and pads:
                return size
        raise InvalidArgumentError(
            f"[OFA] expected a Conv2D with an odd square kernel that pads by half of "
            f"it, without dilation, got {path!r}: {layer}"
        )

    def _check_depth(self, depth: Sequence[str]) -> None:
        """Run without each of the layers, with each group of channels of its own
        narrow, and with all.
        """
        for path in depth:
            without = {**self.space.describe(self.largest), f"depth {path}": False}
            small = {**self.space.describe(self.smallest), **without}
            narrow = [f"width {name}" for name in self._groups_of(path)]
            for name in narrow:
                self._try(path, {**without, name: self.space.choices[name][-1]})
            self._try(path, {**small, **{n: self.space.choices[n][-1] for n in narrow}})

    def _groups_of(self, path: str) -> list[str]:
        """The groups of the elastic channels of a layer's parameters."""
        own = {id(p) for p in self._layers[path].parameters()}
        graph, tensors = self._parts.graph, self._parts.tensors
        names = [n.removeprefix("width ") for n in self.space.names() if "width " in n]
        found = []
        for group in graph.groups:
            if group.name in names:
                masks = graph.masks(graph.removal([group.units[-1]]))
                if any(id(tensors[value]) in own for value in masks):
                    found.append(group.name)
        return found

    def _try(self, path: str, arch: Mapping[str, Any]) -> None:
        inputs = [
            proa.zeros([1 if n < 0 else n for n in spec.shape], spec.dtype)
            for spec in self._specs
        ]
        was_training = self.network.training
        self.network.eval()
        try:
            with self.subnet(self.space.tokens(arch)), proa.no_grad():
                self.network(*inputs)
        except (Error, ValueError) as error:
            raise InvalidArgumentError(
                f"[OFA] expected a network that runs without {path!r}, got: {error}"
            ) from None
        finally:
            if was_training:
                self.network.train()

    # -- configurations ----------------------------------------------------------------
    def set_task(self, *tasks: str) -> None:
        """Let `sample` vary only some of ``kernel``, ``depth`` and ``width``, as in
        progressive shrinking; other choices are those of the whole network.

        Raises:
            InvalidArgumentError: If a task is none of them.
        """
        unknown = [task for task in tasks if task not in TASKS]
        if unknown:
            raise InvalidArgumentError(
                f"[OFA] expected tasks among {', '.join(TASKS)}, got {unknown[0]!r}"
            )
        self._tasks = frozenset(tasks)

    @property
    def largest(self) -> list[int]:
        """The tokens of the whole network."""
        return self.space.init_tokens()

    @property
    def smallest(self) -> list[int]:
        """The tokens of the last option of each choice."""
        return [count - 1 for count in self.space.range_table()]

    def sample(self) -> list[int]:
        """Random tokens."""
        return [
            int(self._rng.integers(count)) if name.split(" ")[0] in self._tasks else 0
            for name, count in zip(
                self.space.names(), self.space.range_table(), strict=True
            )
        ]

    # -- networks ----------------------------------------------------------------------
    @contextmanager
    def subnet(self, tokens: Tokens) -> Iterator[nn.Layer]:
        """Let the network be one of its smaller ones for a while.

        What it computes is differentiable by the parameters of the whole network, also
        afterwards; statistics of norms are those of before again, unless it is the
        whole network.

        Raises:
            InvalidArgumentError: If the tokens are none of `space`.
        """
        with self._views(tokens):
            yield self.network

    @contextmanager
    def _views(self, tokens: Tokens) -> Iterator[dict[int, Any]]:
        """Let layers read what a smaller network has instead of parameters and buffers;
        yields it by the ids of these.
        """
        arch = self.space.describe(tokens)
        tensors = {id(t): t for t in self._parts.tensors.values()}
        masks = self._masks(arch)
        views = {key: _sliced(tensors[key], masks[key]) for key in masks}
        if list(tokens) != self.largest:
            for key, tensor in tensors.items():
                if tensor.stop_gradient and key not in masks:
                    views[key] = tensor.clone().detach()
        replaced = self._replace(views)
        units = self._removed(arch)
        attributes = self._parts.resize(units, views) if units else []
        undo = self._enter(arch)
        try:
            yield views
        finally:
            undo()
            put_back(attributes)
            for registry, name, tensor in replaced:
                registry[name] = tensor

    def _replace(self, views: Mapping[int, Any]) -> list[tuple[Any, str, Any]]:
        """Let layers read other tensors; returns what they read before."""
        replaced = []
        for layer in self.network.sublayers(include_self=True):
            for registry in (layer._parameters, layer._buffers):
                for name, tensor in registry.items():
                    if id(tensor) in views:
                        replaced.append((registry, name, tensor))
                        registry[name] = views[id(tensor)]
        return replaced

    def _enter(self, arch: Mapping[str, Any]) -> Callable[[], None]:
        """Set kernels and leave layers out; returns what undoes it."""
        changed: list[tuple[nn.Layer, Kernel]] = []
        for path, size in _named(arch, "kernel"):
            layer, kernel = self._layers[path], kernel_of(self._layers[path])
            if size != kernel.size[0]:
                changed.append((layer, kernel))
                set_kernel(layer, [size, size], size // 2)
        left = [path for path, stays in _named(arch, "depth") if not stays]
        for path in left:
            self._put(path, _Nothing())

        def undo() -> None:
            for path in left:
                self._put(path, self._layers[path])
            for layer, kernel in changed:
                set_kernel(layer, kernel.size, kernel.padding)

        return undo

    def _removed(self, arch: Mapping[str, Any]) -> frozenset[int]:
        ratios = {n: 1 - share for n, share in _named(arch, "width") if share < 1}
        return frozenset(self._selector.removed(ratios))

    def remaining(self, tokens: Tokens, parameter: Any) -> Masks:
        """For each axis of a parameter of the whole network, which indices a smaller
        one has; None for all.
        """
        masks = self._masks(self.space.describe(tokens))
        return masks.get(id(parameter), [None] * len(parameter.shape))

    def _masks(self, arch: Mapping[str, Any]) -> dict[int, Masks]:
        """What stays of each tensor that gets smaller, by axis."""
        graph, tensors = self._parts.graph, self._parts.tensors
        found: dict[int, Masks] = {}
        units = self._removed(arch)
        if units:
            for value, masks in graph.masks(graph.removal(units)).items():
                found[id(tensors[value])] = list(masks)
        for path, size in _named(arch, "kernel"):
            weight: Any = self._layers[path].weight
            own = int(weight.shape[2])
            if size == own:
                continue
            middle = np.zeros(own, bool)
            middle[(own - size) // 2 : (own + size) // 2] = True
            masks = found.setdefault(id(weight), [None] * 4)
            masks[2] = masks[3] = middle
        return found

    def _put(self, path: str, layer: nn.Layer) -> None:
        above, _, name = path.rpartition(".")
        setattr(self._layers[above] if above else self.network, name, layer)

    def export(self, tokens: Tokens, calibration: Sequence[Any] = ()) -> nn.Layer:
        """A network of its own with the weights of one of the smaller ones.

        Args:
            tokens: Which.
            calibration: Inputs with which its batch norms get statistics of their own.
        """
        tensors = {id(t): t for t in self._parts.tensors.values()}
        copies: dict[int, Any] = {}
        with proa.no_grad(), self._views(tokens) as views:
            for key, view in views.items():
                copies[id(view)] = copy.deepcopy(tensors[key])
                hold(copies[id(view)], view)
            result = copy.deepcopy(self.network, copies)
        for parameter in result.parameters():
            parameter.clear_gradient(set_to_zero=False)
        if calibration:
            renew_statistics(result, calibration)
        result.eval()
        return result

    def _exported(self, arch: Mapping[str, Any]) -> nn.Layer:
        return self.export(self.space.tokens(arch))

    def search(
        self,
        evaluate: Callable[[nn.Layer], float],
        steps: int = 64,
        constraint: Constraint | None = None,
        calibration: Sequence[Any] = (),
        controller: str = "evolution",
        progress: bool = False,
    ) -> Record:
        """The best of the smaller networks that are tried; none is trained.

        Args:
            evaluate: Takes a network of its own; the greater the better.
            steps: How many are tried.
            constraint: Takes tokens: whether they may be tried.
            calibration: As for `export`.
            controller: As for `Search`.
            progress: Likewise.
        """
        study = Search(
            self.space, controller, constraint=constraint, seed=self._seed
        )  # fmt: skip
        return study.run(
            lambda trial: evaluate(self.export(trial.tokens, calibration)),
            steps,
            progress=progress,
        )


def _named(arch: Mapping[str, Any], kind: str) -> list[tuple[str, Any]]:
    start = f"{kind} "
    return [(n.removeprefix(start), v) for n, v in arch.items() if n.startswith(start)]


def _sliced(whole: Any, masks: Masks) -> Any:
    """The part of a tensor that stays, differentiable by the whole."""
    found = whole
    for axis, mask in enumerate(masks):
        if mask is not None:
            found = proa.index_select(found, proa.to_tensor(np.flatnonzero(mask)), axis)
    return found
