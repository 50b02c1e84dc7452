"""Searches with PaddleSlim's interface: `SANAS` and `RLNAS`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from proa.errors import InvalidArgumentError, PreconditionNotMetError
from proa_slim.search.controllers import Controller, SimulatedAnnealing
from proa_slim.search.policy import Reinforce
from proa_slim.search.space import Arch, SearchSpace
from proa_slim.search.spaces import SEARCHSPACE
from proa_slim.search.study import Search, Trial

#: A space, its name, or its name with arguments.
Config = SearchSpace | str | tuple[str] | tuple[str, Mapping[str, Any]]


class CombinedSpace(SearchSpace):
    """Several spaces as one: tokens follow each other, and so do the architectures."""

    def __init__(self, spaces: Sequence[SearchSpace]) -> None:
        self.spaces = list(spaces)

    def range_table(self) -> list[int]:
        """Those of all."""
        return [count for space in self.spaces for count in space.range_table()]

    def init_tokens(self) -> list[int]:
        """Those of all."""
        return [token for space in self.spaces for token in space.init_tokens()]

    def names(self) -> list[str]:
        """Names of choices, with the number of the space if there are several."""
        if len(self.spaces) == 1:
            return self.spaces[0].names()
        pairs = enumerate(self.spaces)
        return [f"{i}.{name}" for i, space in pairs for name in space.names()]

    def describe(self, tokens: Sequence[int]) -> Arch:
        """What they mean in each space."""
        options = [
            option
            for space, part in zip(self.spaces, self._parts(tokens), strict=True)
            for option in space.describe(part).values()
        ]
        return dict(zip(self.names(), options, strict=True))

    def _parts(self, tokens: Sequence[int]) -> list[list[int]]:
        given, parts = self.check(tokens), []
        for space in self.spaces:
            count = len(space.range_table())
            parts.append(given[:count])
            given = given[count:]
        return parts

    def token2arch(self, tokens: Sequence[int] | None = None) -> list[Any]:
        """The network of each space."""
        parts = self._parts(self.init_tokens() if tokens is None else tokens)
        pairs = zip(self.spaces, parts, strict=True)
        return [space.token2arch(part) for space, part in pairs]


def space_of(configs: Sequence[Config]) -> CombinedSpace:
    """The spaces that `configs` name.

    Raises:
        InvalidArgumentError: If there is none, or no space of a name.
    """
    if not configs:
        raise InvalidArgumentError("[SANAS] expected a config of a space, got none")
    spaces = []
    for config in configs:
        if isinstance(config, SearchSpace):
            spaces.append(config)
        elif isinstance(config, str):
            spaces.append(SEARCHSPACE.get(config)())
        else:
            name, *arguments = config
            given: Mapping[str, Any] = arguments[0] if arguments else {}
            spaces.append(SEARCHSPACE.get(name)(**given))
    return CombinedSpace(spaces)


class _Nas:
    """One trial at a time: `next_archs`, then `reward`.

    Args:
        configs: Those of spaces.
        controller: Proposes.
        checkpoint: The folder of the storage; None keeps trials in memory.
        search_steps: Trials in all, or None for no limit.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        controller: Controller,
        checkpoint: str | PathLike[str] | None,
        search_steps: int | None,
    ) -> None:
        self.space, self.controller = space_of(configs), controller
        self.search_steps = search_steps
        storage = None
        if checkpoint is not None:
            folder = Path(fspath(checkpoint))
            folder.mkdir(parents=True, exist_ok=True)
            storage = folder / "search.journal"
        self.search = Search(self.space, controller, storage)
        self._trial: Trial | None = None
        self._bad = False

    @property
    def trial(self) -> Trial:
        """The trial in progress.

        Raises:
            PreconditionNotMetError: If `next_archs` was not called.
        """
        if self._trial is None:
            raise PreconditionNotMetError(
                f"[{type(self).__name__}] expected next_archs before this call"
            )
        return self._trial

    def tokens2arch(self, tokens: Sequence[int]) -> list[Any]:
        """The networks of tokens, one for each config.

        Raises:
            InvalidArgumentError: If a token is not of the space; it names the choice.
        """
        return self.space.token2arch(tokens)

    def next_archs(self, obs: Any = None) -> list[Any]:
        """Networks of the next architecture, one for each config. Without a reward for
        the one before, that is tried again later.

        Args:
            obs: Ignored: architectures do not depend on observations.

        Raises:
            PreconditionNotMetError: After `search_steps` trials.
        """
        if self._trial is not None:
            self.search.abandon(self._trial)
            self._trial = None
        if self.search_steps is not None and self.steps >= self.search_steps:
            raise PreconditionNotMetError(
                f"[{type(self).__name__}] expected at most search_steps="
                f"{self.search_steps} architectures, got another call"
            )
        self._trial = self.search.ask()
        return self.tokens2arch(self._trial.tokens)

    @property
    def steps(self) -> int:
        """Trials that finished, here or in other processes."""
        return len(self.search.trials)

    def _reward(self, score: float) -> None:
        trial = self.trial
        self.search.tell(trial, score)
        self._trial = None

    def current_info(self) -> dict[str, Any]:
        """``best_tokens``, ``best_reward`` and ``current_tokens``; None before the
        first reward, or the first architecture.
        """
        known = bool(self.steps)
        best = self.search.best if known else None
        return {
            "best_tokens": best.tokens if best else None,
            "best_reward": best.reward if best else None,
            "current_tokens": self._trial.tokens if self._trial else None,
        }


class SANAS(_Nas):
    """Architecture search by simulated annealing.

        sanas = SANAS(configs=[("MobileNetV2Space", {"num_classes": 10})])
        for step in range(100):
            network, = sanas.next_archs()
            sanas.reward(trained_accuracy(network))
        best, = sanas.tokens2arch(sanas.current_info()["best_tokens"])

    Trials are kept in `save_checkpoint`. With that folder, a search continues where it
    was, and processes that give the same folder search together.

    Args:
        configs: Spaces, names of spaces, or pairs of a name and arguments.
        server_addr, is_server: Ignored: there is no server, workers share the folder.
        init_temperature, reduce_rate, init_tokens: As for `SimulatedAnnealing`.
        search_steps: Trials in all.
        save_checkpoint: The folder; None keeps trials in memory.
        load_checkpoint: The folder of a search to go on with; the same as giving it as
            save_checkpoint.
        seed: Seed of all that is drawn.

    Raises:
        InvalidArgumentError: If there is no space of a name, or a number is out of its
            range.
        PreconditionNotMetError: If the folder has trials of another space.
        UnavailableError: If optuna is not installed (extra ``proa-slim[search]``).
    """

    def __init__(
        self,
        configs: Sequence[Config],
        server_addr: tuple[str, int] = ("", 8881),
        init_temperature: float | None = None,
        reduce_rate: float = 0.85,
        search_steps: int = 300,
        init_tokens: Sequence[int] | None = None,
        save_checkpoint: str | PathLike[str] | None = "nas_checkpoint",
        load_checkpoint: str | PathLike[str] | None = None,
        is_server: bool = True,
        seed: int = 0,
    ) -> None:
        annealing = SimulatedAnnealing(
            init_temperature, reduce_rate, init_tokens=init_tokens, seed=seed
        )
        super().__init__(
            configs, annealing, load_checkpoint or save_checkpoint, search_steps
        )

    def reward(self, score: float) -> bool:
        """Tell the result of the architecture in progress, the greater the better.

        Returns:
            Whether it is the best so far.

        Raises:
            PreconditionNotMetError: If no architecture is in progress.
            InvalidArgumentError: If the score is not finite.
        """
        number = self.trial.number
        self._reward(score)
        return self.search.best.number == number


class RLNAS(_Nas):
    """Architecture search by a policy that is trained with REINFORCE.

    Args:
        key: ``lstm``, or a `Controller` of one's own.
        configs: As for `SANAS`.
        use_gpu, server_addr, is_server, is_sync: Ignored, as there is no server.
        save_controller: The folder of the trials, from which the policy is trained
            again when a search continues; None keeps them in memory.
        load_controller: The same.
        search_steps: Trials in all; None for no limit.
        **kwargs: Arguments of `Reinforce`.

    Raises:
        InvalidArgumentError: If there is no controller or space of a name.
        PreconditionNotMetError, UnavailableError: As `SANAS`.
    """

    def __init__(
        self,
        key: str | Controller,
        configs: Sequence[Config],
        use_gpu: bool = False,
        server_addr: tuple[str, int] = ("", 8881),
        is_server: bool = True,
        is_sync: bool = False,
        save_controller: str | PathLike[str] | None = None,
        load_controller: str | PathLike[str] | None = None,
        search_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(key, str):
            if key.lower() != "lstm":
                raise InvalidArgumentError(
                    f"[RLNAS] key must be lstm or a Controller, got {key!r}"
                )
            key = Reinforce(**kwargs)
        super().__init__(configs, key, load_controller or save_controller, search_steps)

    @property
    def tokens(self) -> list[int]:
        """The tokens of the architecture in progress."""
        return self.trial.tokens

    def reward(self, rewards: float | Sequence[float], **kwargs: Any) -> bool:
        """Tell the result of the architecture in progress; see `SANAS.reward`.
        The mean counts if there are several.
        """
        several = [rewards] if isinstance(rewards, (int, float)) else list(rewards)
        number = self.trial.number
        self._reward(sum(several) / len(several))
        return self.search.best.number == number

    def final_archs(self, batch_obs: Any = None) -> list[Any]:
        """Networks of what the policy finds most probable; of the best trial if the
        controller has no such guess.
        """
        guess = getattr(self.controller, "best_guess", None)
        tokens = self.search.best.tokens if guess is None else guess()
        return self.tokens2arch(tokens)
