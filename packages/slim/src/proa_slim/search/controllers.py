"""Controllers: which architecture to try next, from the rewards of those before.

A controller keeps no files. What it knows is a function of its seed and of the trials
that it observed, in order, so a stopped search is resumed by observing the trials
of its storage again, and so do several workers that share one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from proa.errors import InvalidArgumentError, PreconditionNotMetError

#: Whether tokens may be tried.
Constraint = Callable[[list[int]], bool]


class Controller:
    """Proposes tokens. A strategy of one's own overrides `propose` and `observe`.

    Args:
        seed: Seed of all that is drawn.

    Attributes:
        ranges: How many values each token has.
        initial: Where the space begins.
        seen: Tokens that were observed or proposed.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.ranges: list[int] = []
        self.initial: list[int] = []
        self.constraint: Constraint | None = None
        self.seen: set[tuple[int, ...]] = set()

    def begin(
        self,
        ranges: Sequence[int],
        initial: Sequence[int],
        constraint: Constraint | None = None,
    ) -> None:
        """Set the space. It is called once, before anything else."""
        self.ranges, self.initial = list(ranges), list(initial)
        self.constraint = constraint

    def propose(self, number: int) -> list[int]:
        """The tokens of trial `number`, counted from 0."""
        raise NotImplementedError

    def observe(self, tokens: Sequence[int], reward: float) -> None:
        """Learn the reward of a trial, the greater the better."""
        raise NotImplementedError

    # -- what controllers share --------------------------------------------------------
    def rng(self, *key: int) -> np.random.Generator:
        """A generator of its own for each key."""
        return np.random.default_rng([self.seed, *key])

    def is_allowed(self, tokens: Sequence[int]) -> bool:
        """Whether the constraint admits the tokens."""
        return self.constraint is None or self.constraint(list(tokens))

    def random_tokens(self, rng: np.random.Generator) -> list[int]:
        """Uniform tokens."""
        return [int(rng.integers(count)) for count in self.ranges]

    def mutated(
        self, tokens: Sequence[int], count: int, rng: np.random.Generator
    ) -> list[int]:
        """A copy in which `count` tokens, if so many can vary, have another value."""
        result = list(tokens)
        free = [i for i, values in enumerate(self.ranges) if values > 1]
        for i in rng.permutation(free)[:count]:
            step = int(rng.integers(1, self.ranges[i]))
            result[i] = (result[i] + step) % self.ranges[i]
        return result

    def first_allowed(
        self, draw: Callable[[int], list[int]], attempts: int
    ) -> list[int]:
        """The first of `draw(0)`, `draw(1)`, .. that is allowed and was not seen, or
        else the first that is allowed.

        Raises:
            PreconditionNotMetError: If none of `attempts` is allowed.
        """
        known = None
        for attempt in range(attempts):
            tokens = draw(attempt)
            if tuple(tokens) in self.seen and known is not None:
                continue
            if not self.is_allowed(tokens):
                continue
            if tuple(tokens) not in self.seen:
                self.seen.add(tuple(tokens))
                return tokens
            known = tokens
        if known is None:
            raise PreconditionNotMetError(
                f"[{type(self).__name__}] expected a constraint that some architecture "
                f"meets, got none in {attempts} attempts"
            )
        return known


class RandomSearch(Controller):
    """Uniform tokens: the baseline of every search."""

    def propose(self, number: int) -> list[int]:
        """Tokens that were not proposed before, as long as 300 attempts find some."""
        rng = self.rng(number)
        return self.first_allowed(lambda attempt: self.random_tokens(rng), 300)

    def observe(self, tokens: Sequence[int], reward: float) -> None:
        """Nothing is learned."""
        self.seen.add(tuple(tokens))


class SimulatedAnnealing(Controller):
    """One token changes at a time; what is worse is accepted with probability
    exp((r - r0) / T), with T falling by a factor at each trial (Kirkpatrick et al.,
    1983).

    Args:
        init_temperature: T of the first trial, in units of the reward; a tenth of the
            first reward's magnitude if not given.
        reduce_rate: What T is multiplied by, in (0, 1].
        max_try_times: Attempts to find tokens that are new and allowed.
        init_tokens: The first to try; the space's if not given.
        seed: Seed of all that is drawn.

    Raises:
        InvalidArgumentError: If a number is out of its range.
    """

    def __init__(
        self,
        init_temperature: float | None = None,
        reduce_rate: float = 0.85,
        max_try_times: int = 300,
        init_tokens: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(seed)
        if init_temperature is not None and init_temperature <= 0:
            raise InvalidArgumentError(
                "[SimulatedAnnealing] init_temperature must be positive, got "
                f"{init_temperature}"
            )
        if not 0 < reduce_rate <= 1:
            raise InvalidArgumentError(
                f"[SimulatedAnnealing] reduce_rate must be in (0, 1], got {reduce_rate}"
            )
        if max_try_times < 1:
            raise InvalidArgumentError(
                "[SimulatedAnnealing] max_try_times must be positive, got "
                f"{max_try_times}"
            )
        self.init_temperature, self.reduce_rate = init_temperature, reduce_rate
        self.max_try_times, self._first = max_try_times, init_tokens
        self.current: list[int] | None = None
        self.reward, self.steps = -math.inf, 0

    @property
    def temperature(self) -> float:
        """T of the next decision."""
        begin = self.init_temperature or 0.0
        return begin * self.reduce_rate**self.steps

    def propose(self, number: int) -> list[int]:
        """The first tokens, then neighbours of the current ones."""
        begin = list(self._first) if self._first is not None else self.initial
        if number == 0 and self.current is None and self.is_allowed(begin):
            self.seen.add(tuple(begin))
            return begin
        rng, base = self.rng(number), self.current or begin
        # Where all neighbours were tried, more tokens change at once.
        wider = max(1, self.max_try_times // max(1, len(self.ranges)))
        return self.first_allowed(
            lambda attempt: self.mutated(base, 1 + attempt // wider, rng),
            self.max_try_times,
        )

    def observe(self, tokens: Sequence[int], reward: float) -> None:
        """Accept the tokens or keep the current ones."""
        if self.init_temperature is None:
            self.init_temperature = max(abs(reward) / 10, 1e-12)
        self.steps += 1
        self.seen.add(tuple(tokens))
        gain = reward - self.reward
        chance = math.exp(min(0.0, gain / max(self.temperature, 1e-300)))
        if gain > 0 or self.rng(self.steps, 1).random() < chance:
            self.current, self.reward = list(tokens), reward


class Evolution(Controller):
    """A population of the best; children mutate one of them or cross two.

    Args:
        population: Random tokens to begin with, and how many of the best are parents.
        crossover: The probability that a child has two parents.
        mutation: The probability that a token of a child changes; at least one does.
        attempts: To find a child that is new and allowed.
        seed: Seed of all that is drawn.

    Raises:
        InvalidArgumentError: If a number is out of its range.
    """

    def __init__(
        self,
        population: int = 16,
        crossover: float = 0.5,
        mutation: float = 0.1,
        attempts: int = 300,
        seed: int = 0,
    ) -> None:
        super().__init__(seed)
        if population < 2 or not 0 <= crossover <= 1 or not 0 <= mutation <= 1:
            raise InvalidArgumentError(
                "[Evolution] expected a population above 1 and probabilities in [0, 1],"
                f" got population={population}, crossover={crossover}, "
                f"mutation={mutation}"
            )
        self.population, self.crossover = population, crossover
        self.mutation, self.attempts = mutation, attempts
        self._best: list[tuple[float, list[int]]] = []
        self._count = 0

    def propose(self, number: int) -> list[int]:
        """Random tokens, then a child."""
        rng = self.rng(number)
        if number < self.population or len(self._best) < 2:
            return self.first_allowed(
                lambda attempt: self.random_tokens(rng), self.attempts
            )
        return self.first_allowed(lambda attempt: self._child(rng), self.attempts)

    def _child(self, rng: np.random.Generator) -> list[int]:
        parent = self._best[int(rng.integers(len(self._best)))][1]
        if rng.random() < self.crossover:
            other = self._best[int(rng.integers(len(self._best)))][1]
            pairs = zip(parent, other, strict=True)
            return [a if rng.random() < 0.5 else b for a, b in pairs]
        changed = max(1, int(rng.binomial(len(parent), self.mutation)))
        return self.mutated(parent, changed, rng)

    def observe(self, tokens: Sequence[int], reward: float) -> None:
        """Keep the best."""
        self._count += 1
        self.seen.add(tuple(tokens))
        self._best.append((reward, list(tokens)))
        self._best.sort(key=lambda item: -item[0])  # earlier ones first among equals
        del self._best[self.population :]
