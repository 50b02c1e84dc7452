"""One-shot search: a supernet trains the weights of all architectures at once."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

import proa
from proa import nn
from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa.nn.layer.settings import set_momentum, statistics_of
from proa_slim.search.blocks import Block, Network
from proa_slim.search.checkpoint import renamed, write
from proa_slim.search.controllers import Constraint, Evolution
from proa_slim.search.space import ChoiceSpace
from proa_slim.search.study import Record, Search

#: Blocks that one place may have.
_LIMIT = 64
#: Architectures around which dependences of places on choices are looked for.
_PROBES = 8


def _blocks_by_place(space: ChoiceSpace) -> list[list[Block]]:
    """The blocks that architectures have at each place of their plans.

    A place depends on few choices: those that change its block when they alone change.
    """
    ranges, rng = space.range_table(), np.random.default_rng(0)
    bases = [space.init_tokens()]
    bases += [[int(rng.integers(n)) for n in ranges] for _ in range(_PROBES)]
    plan = space.plan(bases[0])
    depends: list[set[int]] = [set() for _ in plan]
    for base, (i, count) in itertools.product(bases, enumerate(ranges)):
        expected = space.plan(base)
        for value in range(count):
            other = space.plan([*base[:i], value, *base[i + 1 :]])
            if len(other) != len(plan):
                raise InvalidArgumentError(
                    "[SuperNet] expected plans of one length (None for a block that is "
                    f"left out), got {len(plan)} and {len(other)}, by the choice "
                    f"{space.names()[i]!r}"
                )
            for place, block in enumerate(other):
                if block != expected[place]:
                    depends[place].add(i)
    found = []
    for place, choices in enumerate(depends):
        names = [space.names()[i] for i in sorted(choices)]
        if math.prod(ranges[i] for i in choices) > 100 * _LIMIT:
            raise _too_many(place, names)
        blocks: dict[Block, None] = {}
        for values in itertools.product(*(range(ranges[i]) for i in sorted(choices))):
            tokens = list(bases[0])
            for i, value in zip(sorted(choices), values, strict=True):
                tokens[i] = value
            block = space.plan(tokens)[place]
            if block is not None and block.kind != "identity":
                blocks[block] = None
        if len(blocks) > _LIMIT:
            raise _too_many(place, names)
        found.append(list(blocks))
    return found


def _too_many(place: int, names: list[str]) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"[SuperNet] expected at most {_LIMIT} blocks at one place, got more at place "
        f"{place}, by the choices {', '.join(names)}"
    )


class SuperNet(nn.Layer):
    """All blocks of a space, of which one path is computed.

    Architectures with the same block at the same place share its weights.

    Args:
        space: With plans of one length.

    Raises:
        InvalidArgumentError: If plans have different lengths, or a place has more than
            64 blocks; it names the choices.
    """

    path: list[nn.Layer]
    _layers: list[list[nn.Layer]]

    def __init__(self, space: ChoiceSpace) -> None:
        super().__init__()
        self.space = space
        places = _blocks_by_place(space)
        self._numbers = [{b: i for i, b in enumerate(blocks)} for blocks in places]
        layers = [[block.layer() for block in blocks] for blocks in places]
        self.places = nn.LayerList([nn.LayerList(options) for options in layers])
        # Neither are sublayers of their own: the places have them.
        self.__dict__["_layers"], self.__dict__["path"] = layers, layers[0][:0]
        self.set_path(space.init_tokens())

    def layers_of(self, tokens: Sequence[int]) -> list[nn.Layer]:
        """The layers of an architecture."""
        found = []
        for place, block in enumerate(self.space.plan(tokens)):
            if block is None or block.kind == "identity":
                continue
            if block not in self._numbers[place]:
                raise InvalidArgumentError(
                    f"[SuperNet] expected a block of place {place}, got {block}, which "
                    "no change of a single choice has shown"
                )
            found.append(self._layers[place][self._numbers[place][block]])
        return found

    def set_path(self, tokens: Sequence[int]) -> None:
        """Choose what `forward` computes.

        Raises:
            InvalidArgumentError: If the tokens are not of the space; names the choice.
        """
        self.__dict__["path"] = self.layers_of(tokens)

    def forward(self, x: Any) -> Any:
        """The result of the path."""
        for layer in self.path:
            x = layer(x)
        return x

    def network(self, tokens: Sequence[int]) -> Network:
        """A network of its own with a copy of the weights of an architecture."""
        network = Network(self.space.plan(tokens))
        for own, shared in zip(network.blocks, self.layers_of(tokens), strict=True):
            own.set_state_dict(shared.state_dict())
        return network


def paths(
    ranges: Sequence[int], sampling: str, rng: np.random.Generator
) -> Iterator[list[list[int]]]:
    """Endless groups of paths, one group for each step of training.

    Args:
        ranges: How many values each token has.
        sampling: ``uniform``: one path of uniform tokens. ``fair``: as many paths as
            the greatest range, in which the values of each token are as frequent as
            can be (strict fairness, Chu et al., 2021).
        rng: Generator of what is drawn.

    Raises:
        InvalidArgumentError: If there is no such sampling.
    """
    if sampling not in ("uniform", "fair"):
        raise InvalidArgumentError(
            f"[OneShot] sampling must be uniform or fair, got {sampling!r}"
        )
    while True:
        if sampling == "uniform":
            yield [[int(rng.integers(count)) for count in ranges]]
            continue
        height = max(ranges)
        columns = []
        for count in ranges:
            rounds = -(-height // count)
            column = np.concatenate([rng.permutation(count) for _ in range(rounds)])
            columns.append(rng.permutation(column[:height]))
        yield [[int(column[row]) for column in columns] for row in range(height)]


class OneShot:
    """Trains a supernet, then searches it by evolution without training anything.

        one_shot = OneShot(space)
        one_shot.train(batches, optimizer, loss, epochs=30)
        best = one_shot.search(accuracy, calibration, steps=500)
        network = one_shot.supernet.network(best.tokens)    # then train it alone

    Args:
        space: With plans of blocks of one length.
        sampling: How paths are drawn; see `paths`.
        seed: Seed of paths and of the evolution.

    Attributes:
        supernet: The weights. Its parameters are what optimizers take.
    """

    def __init__(
        self, space: ChoiceSpace, sampling: str = "uniform", seed: int = 0
    ) -> None:
        self.space, self.seed = space, seed
        self._rng = np.random.default_rng([seed, 7])
        self._paths = paths(space.range_table(), sampling, self._rng)
        self.supernet = SuperNet(space)

    def train(
        self,
        batches: Callable[[], Iterable[Any]],
        optimizer: Any,
        loss: Callable[[Any, Any], Any],
        epochs: int,
        schedule: Any = None,
        progress: bool = False,
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        """Train paths: each batch goes through one path, or through those of a fair
        group, whose gradients are added.

        Args:
            batches: Batches of an epoch: pairs of an input and a label.
            optimizer: Optimizer of the supernet's parameters.
            loss: Takes the result and the label.
            epochs: Passes over the batches.
            schedule: Schedule of the learning rate, stepped after each batch, if any.
            progress: Whether each epoch writes a line to standard error.
            checkpoint: A file that is written after each epoch, and read first: a
                training that was stopped loses the epoch that was running.

        Raises:
            PreconditionNotMetError: If the checkpoint is of another space.
        """
        path = None if checkpoint is None else Path(checkpoint)
        first = self._read(path, optimizer, schedule)
        for epoch in range(first, epochs):
            self.supernet.train()
            total, count = 0.0, 0
            for x, y in batches():
                group = next(self._paths)
                for tokens in group:
                    self.supernet.set_path(tokens)
                    part = loss(self.supernet(x), y)
                    (part * (1.0 / len(group))).backward()
                    total, count = total + float(part), count + 1
                optimizer.step()
                optimizer.clear_grad()
                if schedule is not None:
                    schedule.step()
            if progress:
                text = f"[one-shot] {epoch + 1}/{epochs}: loss {total / count:.4f}"
                print(text, file=sys.stderr, flush=True)
            if path is not None:
                self._write(path, epoch + 1, optimizer, schedule)

    def _write(self, path: Path, epoch: int, optimizer: Any, schedule: Any) -> None:
        parameters = self.supernet.parameters()
        state = {
            "epoch": epoch,
            "ranges": list(self.space.range_table()),
            "supernet": self.supernet.state_dict(),
            "names": [parameter.name for parameter in parameters],
            "reached": [parameter.grad is not None for parameter in parameters],
            "optimizer": optimizer.state_dict(),
            "schedule": None if schedule is None else schedule.state_dict(),
            "paths": json.dumps(self._rng.bit_generator.state),
        }
        write(path, state)

    def _read(self, path: Path | None, optimizer: Any, schedule: Any) -> int:
        """Go on from a checkpoint, if there is one; the epochs that it has."""
        if path is None or not path.is_file():
            return 0
        state = proa.load(str(path))
        ranges = list(self.space.range_table())
        if state["ranges"] != ranges:
            raise PreconditionNotMetError(
                f"[OneShot] expected a checkpoint of a space of {ranges} values, got "
                f"one of {state['ranges']} in {path}"
            )
        self.supernet.set_state_dict(state["supernet"])
        parameters = self.supernet.parameters()
        optimizer.set_state_dict(
            renamed(state["optimizer"], state["names"], parameters)
        )
        for parameter, is_reached in zip(parameters, state["reached"], strict=True):
            if is_reached:
                # `clear_grad` leaves zeros, with which moments go on to fall.
                parameter.grad = proa.zeros_like(parameter)
        if schedule is not None and state["schedule"] is not None:
            schedule.set_state_dict(state["schedule"])
        self._rng.bit_generator.state = json.loads(state["paths"])
        return int(state["epoch"])

    def evaluate(
        self,
        tokens: Sequence[int],
        metric: Callable[[nn.Layer], float],
        calibration: Sequence[Any] = (),
    ) -> float:
        """The metric of an architecture with the shared weights.

        Args:
            tokens: Tokens of the architecture.
            metric: Takes a Layer in evaluation mode.
            calibration: Inputs with which batch norms of the path get statistics of
                their own (Guo et al., 2020); those of all paths mixed mislead.

        Raises:
            PreconditionNotMetError: If a norm is there and no calibration.
        """
        self.supernet.set_path(tokens)
        norms = [
            layer
            for block in self.supernet.path
            for layer in block.sublayers(include_self=True)
            if isinstance(layer, nn.BatchNorm2D)
        ]
        if norms and not calibration:
            raise PreconditionNotMetError(
                "[OneShot] expected inputs for the statistics of batch norms in "
                "calibration, got none"
            )
        renew_statistics(self.supernet, calibration, norms)
        self.supernet.eval()
        with proa.no_grad():
            return float(metric(self.supernet))

    def search(
        self,
        metric: Callable[[nn.Layer], float],
        calibration: Sequence[Any] = (),
        steps: int = 500,
        population: int = 50,
        storage: str | PathLike[str] | None = None,
        constraint: Constraint | None = None,
        progress: bool = False,
    ) -> Record:
        """The architecture that evolution finds best with the shared weights.

        Args:
            metric, calibration: As for `evaluate`.
            steps: Architectures to evaluate.
            population: Architectures in a generation of the evolution.
            storage: As for `Search`: a search that was stopped continues.
            constraint: Whether tokens may be tried: a time, multiply-adds.
            progress: Whether each evaluation writes a line to standard error.

        Raises:
            PreconditionNotMetError: As `evaluate`, or if no architecture meets the
                constraint.
        """
        controller = Evolution(population, seed=self.seed)
        study = Search(self.space, controller, storage, constraint=constraint)
        return study.run(
            lambda trial: self.evaluate(trial.tokens, metric, calibration),
            steps,
            progress=progress,
        )


def renew_statistics(
    network: nn.Layer, inputs: Sequence[Any], norms: Sequence[Any] | None = None
) -> None:
    """Let running statistics of batch norms be the means over batches of inputs.

    Args:
        network: In training mode afterwards.
        inputs: The batches.
        norms: Which; all of the network if not given.
    """
    if norms is None:
        kinds = (nn.BatchNorm1D, nn.BatchNorm2D, nn.BatchNorm3D)
        norms = [x for x in network.sublayers() if isinstance(x, kinds)]
    before = [statistics_of(norm).momentum for norm in norms]
    network.train()
    try:
        with proa.no_grad():
            for count, x in enumerate(inputs):
                for norm in norms:
                    set_momentum(norm, count / (count + 1))
                network(x)
    finally:
        for norm, momentum in zip(norms, before, strict=True):
            set_momentum(norm, momentum)
