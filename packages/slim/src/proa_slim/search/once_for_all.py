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
from proa.ir.record import dtype_name, to_array, to_tensor
from proa.nn.layer.settings import Kernel, kernel_of, set_kernel
from proa_slim.analysis.recorded import specs_of
from proa_slim.prune.criteria import Criterion, Scoring
from proa_slim.prune.dependency import sliced
from proa_slim.prune.network import PrunableNetwork, hold
from proa_slim.prune.selection import Selector
from proa_slim.search.controllers import Constraint
from proa_slim.search.one_shot import renew_statistics
from proa_slim.search.space import ChoiceSpace
from proa_slim.search.study import Record, Search

Masks = list["NDArray[np.bool_] | None"]
Tokens = Sequence[int]
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
    whole again, and its parameters have the gradients at their places.

    Args:
        network: Trained; is changed by training alone.
        inputs: As for `proa_slim.Pruner`.
        widths: Shares of the channels of each group that may stay, below 1.
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
        widths: Sequence[float] = (),
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
            self._choices(widths, kernels or {}, depth), lambda arch: self._made(arch)
        )
        self._check_depth(depth)

    def _choices(
        self,
        widths: Sequence[float],
        kernels: Mapping[str, Sequence[int]],
        depth: Sequence[str],
    ) -> dict[str, list[Any]]:
        """Options by ``width NAME``, ``kernel PATH`` and ``depth PATH``, the whole
        network's first.
        """
        if not all(0 < width < 1 for width in widths):
            raise InvalidArgumentError(
                f"[OFA] expected widths in (0, 1), got {list(widths)}"
            )
        shares = [1.0, *sorted(set(widths), reverse=True)]
        names = [group.name for group in self._parts.graph.groups] if widths else []
        found: dict[str, list[Any]] = {f"width {name}": list(shares) for name in names}
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

        Gradients of parameters add to those that were there; statistics of norms are
        those of before again, unless it is the whole network.

        Raises:
            InvalidArgumentError: If the tokens are none of `space`.
        """
        arch = self.space.describe(tokens)
        tensors = {id(t): t for t in self._parts.tensors.values()}
        before = {key: tensor.grad for key, tensor in tensors.items()}
        masks = self._masks(arch)
        held = [(tensors[key], tensors[key].detach()) for key in masks]
        if list(tokens) != self.largest:
            buffers = [t for k, t in tensors.items() if t.stop_gradient]
            held += [(t, t.clone().detach()) for t in buffers if id(t) not in masks]
        undo = self._enter(arch, masks)
        try:
            yield self.network
        finally:
            found = {key: tensor.grad for key, tensor in tensors.items()}
            undo()
            for tensor, whole in held:
                hold(tensor, whole)
            for key, tensor in tensors.items():
                if not tensor.stop_gradient:
                    tensor.grad = _sum(before[key], found[key], masks.get(key), tensor)

    def _enter(
        self, arch: Mapping[str, Any], masks: Mapping[int, Masks]
    ) -> Callable[[], None]:
        """Make the network small; returns what puts its layers back."""
        units = self._removed(arch)
        shrunk = self._parts.shrink(units) if units else None
        for tensor in self._parts.tensors.values():
            own = masks.get(id(tensor))
            if own is not None and len(own) == 4:
                _crop(tensor, own)
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
            if shrunk is not None:
                self._parts.restore(shrunk)

        return undo

    def _removed(self, arch: Mapping[str, Any]) -> frozenset[int]:
        ratios = {n: 1 - share for n, share in _named(arch, "width") if share < 1}
        return frozenset(self._selector.removed(ratios))

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
        with self.subnet(tokens):
            made = copy.deepcopy(self.network)
        for parameter in made.parameters():
            parameter.clear_gradient(set_to_zero=False)
        if calibration:
            renew_statistics(made, calibration)
        made.eval()
        return made

    def _made(self, arch: Mapping[str, Any]) -> nn.Layer:
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


def _crop(tensor: Any, masks: Masks) -> None:
    """Keep the middle of a weight whose channels are chosen already."""
    spatial: Masks = [None, None, *masks[2:]]
    if spatial[2] is not None:
        array = sliced(np.asarray(to_array(tensor)), spatial)
        hold(tensor, to_tensor(array, dtype_name(tensor)))


def _sum(before: Any, found: Any, masks: Masks | None, whole: Any) -> Any:
    """The gradient of a whole parameter: that of before and that of its part."""
    if masks is None:
        return found
    if found is None:
        return before
    part = np.asarray(to_array(found))
    large = np.zeros([int(n) for n in whole.shape], part.dtype)
    axes = [
        np.arange(n) if mask is None else np.flatnonzero(mask)
        for n, mask in zip(large.shape, masks, strict=True)
    ]
    large[np.ix_(*axes)] = part
    if before is not None:
        large += np.asarray(to_array(before))
    return to_tensor(large, dtype_name(whole))
