"""The stream that random ops draw from: a seed and a count of what was drawn."""

from __future__ import annotations

from proa import _core
from proa.base.mode import static_builder
from proa.errors import InvalidArgumentError, ResourceExhaustedError


class Generator:
    """The default generator. Its state is two integers, the same on any machine."""

    def manual_seed(self, value: int) -> Generator:
        """Start the stream of this seed."""
        if not isinstance(value, int):
            raise InvalidArgumentError(f"[seed] must be an int, got {value!r}")
        _core.generator_set(value & ((1 << 63) - 1), 0)
        return self

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self.get_state()[0]

    def get_state(self) -> tuple[int, int]:
        """(seed, offset)."""
        state: tuple[int, int] = _core.generator_get()
        return state

    def set_state(self, state: tuple[int, int]) -> None:
        """Go on from a state that get_state gave."""
        _core.generator_set(*state)

    def next(self, count: int) -> tuple[int, int]:
        """(seed, offset) for a random op that draws `count` numbers."""
        if not -(2**63) <= count < 2**63:
            raise InvalidArgumentError(
                f"[random] expected a shape of fewer than 2**63 numbers, got {count}"
            )
        key: tuple[int, int] = _core.generator_next(count)
        return key


default_generator = Generator()


def seed(seed: int) -> Generator:
    """Seed the default generator, which makes what follows reproducible."""
    return default_generator.manual_seed(seed)


def get_rng_state() -> tuple[int, int]:
    """State of the default generator."""
    return default_generator.get_state()


def set_rng_state(state: tuple[int, int]) -> None:
    """Put the default generator into a state that get_rng_state gave."""
    default_generator.set_state(state)


def next_key(count: int, own_seed: int = 0) -> tuple[int, int]:
    """(seed, offset) for ``count`` numbers, which no later call will get again.

    With ``own_seed`` other than 0 the stream is left alone: that seed's start is given.
    In static mode it is a placeholder for the key that each run draws.
    """
    if own_seed == 0 and (builder := static_builder()) is not None:
        return builder.draw(count)
    if count > _core.memory_limit():
        raise ResourceExhaustedError(
            f"[random] expected as many numbers as fit in memory, got {count}"
        )
    return (own_seed, 0) if own_seed else default_generator.next(count)
