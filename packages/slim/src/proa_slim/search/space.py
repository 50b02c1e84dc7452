"""Search spaces: architectures as lists of tokens, one for each choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.nn import Layer
from proa_slim.search.blocks import Block, Network

#: An architecture: the option of each choice.
Arch = dict[str, Any]
#: What makes a network of one: its blocks, or the network itself.
Build = Callable[[Arch], "Sequence[Block | None] | Layer"]


class SearchSpace:
    """What controllers search: `range_table` says how many values each token has.

    A space of one's own overrides the three methods, as PaddleSlim's
    `SearchSpaceBase`; `ChoiceSpace` needs only a table of choices.
    """

    def range_table(self) -> list[int]:
        """How many values each token has: token i is in [0, range_table()[i])."""
        raise NotImplementedError

    def init_tokens(self) -> list[int]:
        """Where a search begins."""
        return [0] * len(self.range_table())

    def token2arch(self, tokens: Sequence[int] | None = None) -> Any:
        """The network of tokens, of `init_tokens()` if none are given."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """A name for each token."""
        return [f"token{i}" for i in range(len(self.range_table()))]

    def describe(self, tokens: Sequence[int]) -> Arch:
        """What tokens mean, by their names."""
        return dict(zip(self.names(), tokens, strict=True))

    @property
    def size(self) -> int:
        """The number of architectures."""
        return math.prod(self.range_table())

    def check(self, tokens: Sequence[int]) -> list[int]:
        """The tokens as integers.

        Raises:
            InvalidArgumentError: If there are too many or too few, or one has no such
                value; it names the choice.
        """
        ranges, names = self.range_table(), self.names()
        if len(tokens) != len(ranges):
            raise InvalidArgumentError(
                f"[SearchSpace] expected {len(ranges)} tokens, one for each of "
                f"{', '.join(names)}, got {len(tokens)}"
            )
        for name, token, count in zip(names, tokens, ranges, strict=True):
            if not 0 <= int(token) < count:
                raise InvalidArgumentError(
                    f"[SearchSpace] expected the token of {name!r} in [0, {count}), "
                    f"got {token}"
                )
        return [int(token) for token in tokens]


class ChoiceSpace(SearchSpace):
    """A space by its choices.

        space = ChoiceSpace({"depth": [1, 2, 3], "width": [8, 16]}, build)

    Args:
        choices: The options of each choice, by its name.
        build: Makes a network of an architecture, a dictionary of options: a Layer, or
            a sequence of blocks, which latency tables and supernets need.
        initial: Where a search begins; the first option of each choice if not given.

    Raises:
        InvalidArgumentError: If a choice has no option, there is no choice, or
            `initial` is no architecture of the space; it names the choice.
    """

    def __init__(
        self,
        choices: Mapping[str, Sequence[Any]],
        build: Build,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        self.choices = {name: tuple(options) for name, options in choices.items()}
        if not self.choices:
            raise InvalidArgumentError("[ChoiceSpace] expected a choice, got none")
        for name, options in self.choices.items():
            if not options:
                raise InvalidArgumentError(
                    f"[ChoiceSpace] expected an option of {name!r}, got none"
                )
        self._build = build
        self._initial = self.tokens(initial) if initial else [0] * len(self.choices)

    def range_table(self) -> list[int]:
        """How many options each choice has."""
        return [len(options) for options in self.choices.values()]

    def init_tokens(self) -> list[int]:
        """Those of `initial`."""
        return list(self._initial)

    def names(self) -> list[str]:
        """The names of the choices."""
        return list(self.choices)

    def describe(self, tokens: Sequence[int]) -> Arch:
        """The option of each choice."""
        pairs = zip(self.choices.items(), self.check(tokens), strict=True)
        return {name: options[token] for (name, options), token in pairs}

    def tokens(self, arch: Mapping[str, Any]) -> list[int]:
        """The tokens of an architecture.

        Raises:
            InvalidArgumentError: If it lacks a choice or has an option that there is
                not; it names the choice.
        """
        found = []
        for name, options in self.choices.items():
            if name not in arch or arch[name] not in options:
                given = repr(arch[name]) if name in arch else "nothing"
                raise InvalidArgumentError(
                    f"[ChoiceSpace] expected {name!r} to be one of "
                    f"{', '.join(map(repr, options))}, got {given}"
                )
            found.append(options.index(arch[name]))
        return found

    def plan(self, tokens: Sequence[int]) -> list[Block | None]:
        """The blocks of an architecture; None where it has none at a place.

        Raises:
            InvalidTypeError: If `build` gives a Layer.
        """
        result = self._build(self.describe(tokens))
        if isinstance(result, Layer):
            raise InvalidTypeError(
                "[ChoiceSpace] expected build to give a sequence of blocks, got a "
                f"{type(result).__name__}: latency tables and supernets need blocks"
            )
        return list(result)

    def token2arch(self, tokens: Sequence[int] | None = None) -> Layer:
        """A new network, with the parameters that layers begin with."""
        result = self._build(self.describe(self._initial if tokens is None else tokens))
        return result if isinstance(result, Layer) else Network(result)
